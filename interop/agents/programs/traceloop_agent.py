import json
import os
import sys

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from traceloop.sdk import Traceloop
from traceloop.sdk.decorators import agent, tool, workflow
from traceloop.sdk.instruments import Instruments

Traceloop.init(app_name="travel", exporter=OTLPSpanExporter(), disable_batch=True, instruments={Instruments.OPENAI})
Traceloop.set_association_properties({"session_id": "trip-7"})

import openai  # noqa: E402  after its instrumentation

from weather import weather  # noqa: E402

client = openai.OpenAI(api_key="x", base_url=os.environ["MODEL_URL"])
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Weather of a city.", "parameters": CITY}}]
history = [{"role": "system", "content": "Be brief."}]
looked_up = tool(name="weather")(weather)


@agent(name="traveller")
def answer(prompt):
    history.append({"role": "user", "content": prompt})
    while True:
        reply = client.chat.completions.create(model="gpt-4o-mini", messages=history, tools=TOOLS).choices[0].message
        history.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return reply.content
        for call in reply.tool_calls:
            try:
                result = looked_up(**json.loads(call.function.arguments))
            except ValueError as err:
                result = f"error: {err}"
            history.append({"role": "tool", "tool_call_id": call.id, "content": result})


@workflow(name="ask")
def ask(prompt):
    return answer(prompt)


for prompt in sys.argv[1:]:
    ask(prompt)
