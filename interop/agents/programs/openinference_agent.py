import os
import sys

from agents import Agent, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from openinference.instrumentation import using_session
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

from weather import provider, weather

spans = provider()
OpenAIAgentsInstrumentor().instrument(tracer_provider=spans)
model = OpenAIResponsesModel("m1", AsyncOpenAI(api_key="x", base_url=os.environ["MODEL_URL"]))
agent = Agent(name="traveller", instructions="Be brief.", model=model, tools=[function_tool(weather)])
history = []
with using_session("trip-7"):
    for prompt in sys.argv[1:]:
        result = Runner.run_sync(agent, [*history, {"role": "user", "content": prompt}])
        history = result.to_input_list()
spans.force_flush()
