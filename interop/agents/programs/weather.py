"""The tool that each program offers its model."""


def weather(city: str) -> str:
    """Weather of a city."""
    if city == "Nowhere":
        raise ValueError("no such city")
    return f"{city}: sunny"


def provider():
    """Sends spans to OTEL_EXPORTER_OTLP_ENDPOINT, as the frameworks that bring no exporter document it."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    made = TracerProvider()
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(made)
    return made
