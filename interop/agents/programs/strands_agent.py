import os
import sys

from opentelemetry import trace
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.telemetry import StrandsTelemetry

from weather import weather

StrandsTelemetry().setup_otlp_exporter()
model = OpenAIModel(client_args={"api_key": "x", "base_url": os.environ["MODEL_URL"]}, model_id="m1")
agent = Agent(
    name="traveller",
    model=model,
    tools=[tool(weather)],
    system_prompt="Be brief.",
    trace_attributes={"session.id": "trip-7"},
    callback_handler=None,
)
for prompt in sys.argv[1:]:
    agent(prompt)
trace.get_tracer_provider().force_flush()
