"""Writes what Logfire's own processor makes of spans of ours: spans and their pending spans, as OTLP protobuf.

A loop that traces with otelagent's vocabulary through a provider of Logfire's (or with its PendingSpanProcessor) sends, when a span
starts, a second span that says so: backend/session/otlprow reads it as a live row of the first. Nothing is sent anywhere.
run.sh runs it.
"""

import sys

import logfire
from logfire._internal.exporters.processor_wrapper import MainSpanProcessorWrapper
from logfire._internal.scrubbing import NoopScrubber
from logfire._internal.tracer import PendingSpanProcessor
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import SpanKind, set_span_in_context

START = 1_780_000_000_000_000_000


class Ids(IdGenerator):
    """Counts, so that the same bytes come out each time."""

    n = 0

    def generate_span_id(self):
        self.n += 1
        return self.n

    def generate_trace_id(self):
        return 0xABCDEF0123456789ABCDEF0123456789


class Keep(SpanExporter):
    def __init__(self):
        self.spans = []

    def export(self, spans):
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS


ids, keep = Ids(), Keep()
provider = TracerProvider(id_generator=ids, resource=Resource({"service.name": "loop"}))
exporting = SimpleSpanProcessor(keep)
provider.add_span_processor(exporting)
provider.add_span_processor(PendingSpanProcessor(ids, MainSpanProcessorWrapper(exporting, NoopScrubber())))
tracer = provider.get_tracer("loop")

address = {"session.id": "s1", "otelagent.run.id": "r1", "otelagent.run.start": START, "otelagent.schema": 2}


def span(name, at, parent=None, kind=SpanKind.INTERNAL, **attributes):
    context = set_span_in_context(parent) if parent is not None else None
    more = {k.replace("__", "."): v for k, v in attributes.items()}
    return tracer.start_span(name, context=context, kind=kind, start_time=START + at, attributes={**address, **more})


run = span("session.run", 0, gen_ai__agent__name="coder")
turn = span("session.turn", 10, run, SpanKind.CLIENT, otelagent__turn__index=0)
call = span("tool.call", 20, turn, otelagent__turn__index=0, gen_ai__tool__call__id="c1", gen_ai__tool__name="bash")
other = tracer.start_span("GET /", context=set_span_in_context(call), start_time=START + 25, attributes={"http.route": "/"})
other.end(START + 26)
call.set_attribute("otelagent.tool.outcome", "ok")
call.end(START + 30)
# Turn and run never end: the agent was killed.

with open(sys.argv[1], "wb") as f:
    f.write(encode_spans(keep.spans).SerializeToString(deterministic=True))
print(f"logfire {logfire.__version__}: {len(keep.spans)} spans", file=sys.stderr)
