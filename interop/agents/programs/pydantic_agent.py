import os
import sys

from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from weather import provider, weather

spans = provider()
Agent.instrument_all()
model = OpenAIChatModel("m1", provider=OpenAIProvider(base_url=os.environ["MODEL_URL"], api_key="x"))
agent = Agent(model, name="traveller", instructions="Be brief.", retries=3)


@agent.tool_plain(name="weather")
def tool(city: str) -> str:
    """Weather of a city."""
    try:
        return weather(city)
    except ValueError as err:
        raise ModelRetry(str(err)) from err


history = None
for prompt in sys.argv[1:]:
    result = agent.run_sync(prompt, message_history=history)
    history = result.all_messages()
spans.force_flush()
