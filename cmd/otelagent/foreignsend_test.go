package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// wantOf returns an entry of expected.json.
func wantOf(t *testing.T, name string) *expectedOf {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(foreignSamples, "expected.json"))
	must(t, err)
	var all map[string]*expectedOf
	must(t, json.Unmarshal(text, &all))
	return all[name]
}

// jaegerJSON returns spans as Jaeger's page downloads them: integers as text, without the zeros in front of ids.
func jaegerJSON(t *testing.T, raw []byte) []byte {
	t.Helper()
	var u ptrace.JSONUnmarshaler
	td, err := u.UnmarshalTraces(raw)
	must(t, err)
	type object = map[string]any
	tags := func(m pcommon.Map, more ...object) []object {
		for key, v := range m.All() {
			switch v.Type() {
			case pcommon.ValueTypeInt:
				more = append(more, object{"key": key, "type": "int64", "value": v.AsString()})
			case pcommon.ValueTypeDouble:
				more = append(more, object{"key": key, "type": "float64", "value": v.Double()})
			case pcommon.ValueTypeBool:
				more = append(more, object{"key": key, "type": "bool", "value": v.Bool()})
			default:
				more = append(more, object{"key": key, "type": "string", "value": v.AsString()})
			}
		}
		return more
	}
	var data []object
	byTrace := map[pcommon.TraceID]object{}
	for _, rs := range td.ResourceSpans().All() {
		service, _ := rs.Resource().Attributes().Get("service.name")
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				of := byTrace[s.TraceID()]
				if of == nil {
					process := object{"serviceName": service.AsString(), "tags": tags(rs.Resource().Attributes())}
					of = object{"traceID": strings.TrimLeft(s.TraceID().String(), "0"), "spans": []object{},
						"processes": object{"p1": process}}
					byTrace[s.TraceID()] = of
					data = append(data, of)
				}
				more := []object{{"key": "otel.scope.name", "type": "string", "value": ss.Scope().Name()}}
				if s.Status().Code() == ptrace.StatusCodeError {
					more = append(more, object{"key": "error", "type": "bool", "value": true})
				}
				span := object{"traceID": of["traceID"], "spanID": strings.TrimLeft(s.SpanID().String(), "0"),
					"operationName": s.Name(), "processID": "p1", "startTime": s.StartTimestamp() / 1000,
					"duration": (s.EndTimestamp() - s.StartTimestamp()) / 1000, "tags": tags(s.Attributes(), more...)}
				if !s.ParentSpanID().IsEmpty() {
					span["references"] = []object{{"refType": "CHILD_OF", "traceID": of["traceID"],
						"spanID": s.ParentSpanID().String()}}
				}
				var logs []object
				for _, e := range s.Events().All() {
					logs = append(logs, object{"timestamp": e.Timestamp() / 1000,
						"fields": tags(e.Attributes(), object{"key": "event", "type": "string", "value": e.Name()})})
				}
				span["logs"] = logs
				of["spans"] = append(of["spans"].([]object), span)
			}
		}
	}
	text, err := json.Marshal(struct {
		Data []object `json:"data"`
	}{data})
	must(t, err)
	return text
}

// Tags whose value is not of their type are text, and a process has one name.
func TestJaegerTags(t *testing.T) {
	td, err := jaegerTraces([]byte(`{"data": [{"processes": {"p": {"serviceName": "shop", "tags": [
		{"key": "service.name", "type": "string", "value": "other"}, {"key": "host", "type": "string", "value": "h"}]}},
		"spans": [{"traceID": "1", "spanID": "1", "processID": "p"}, {"traceID": "1", "spanID": "2", "processID": "p",
		"tags": [{"key": "a", "type": "bool", "value": "true"}, {"key": "b", "type": "bool", "value": "yes"},
			{"key": "c", "type": "string", "value": 5}, {"key": "d", "type": "int64", "value": 5.0},
			{"key": "e", "type": "int64", "value": "x"}, {"key": "f", "type": "int64", "value": 7},
			{"key": "g", "type": "float64", "value": "1.5"}, {"key": "h", "value": true}, {"key": "i", "value": {"j": 1}},
			{"key": "k", "type": "float64", "value": "NaN"}, {"key": "l", "type": "bool", "value": false}]}]}]}`))
	must(t, err)
	for _, rs := range td.ResourceSpans().All() {
		if got, want := fmt.Sprint(rs.Resource().Attributes().AsRaw()), "map[host:h service.name:shop]"; got != want ||
			rs.Resource().Attributes().Len() != 2 {
			t.Errorf("resource %s, want %s", got, want)
		}
	}
	span := td.ResourceSpans().At(1).ScopeSpans().At(0).Spans().At(0)
	want := map[string]any{"a": true, "b": "yes", "c": "5", "d": "5.0", "e": "x", "f": int64(7), "g": 1.5, "h": "true",
		"i": `{"j": 1}`, "k": math.NaN(), "l": false}
	if got := span.Attributes().AsRaw(); fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("attributes %#v, want %#v", got, want)
	}
}

// A file of spans gives the same sessions as Jaeger writes it, and as a collector's file exporter does: lines of JSON,
// compressed as a whole, or document by document with the length in front. It may go into a database or to a collector
// over each protocol, and show reads it without either.
func TestSendFilesOfSpans(t *testing.T) {
	const name = "strands-1.62.0-a"
	want := wantOf(t, name)
	raw := sampleBytes(t, want.Files[0])
	var lines bytes.Buffer
	must(t, json.Compact(&lines, raw))
	z, err := zstd.NewWriter(nil)
	must(t, err)
	one := z.EncodeAll(lines.Bytes(), nil)
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(one))), one...)
	for how, text := range map[string][]byte{
		"OTLP": raw, "Jaeger": jaegerJSON(t, raw), "lines": []byte(lines.String() + "\n" + lines.String() + "\n"),
		"Jaeger, API 3": []byte(`{"result":` + lines.String() + `}`), "zstd": one,
		"zstd with lengths": append(framed, framed...),
	} {
		t.Run(how, func(t *testing.T) {
			file, db := filepath.Join(t.TempDir(), "spans.json"), filepath.Join(t.TempDir(), "s.db")
			must(t, os.WriteFile(file, text, 0o600))
			cli(t, "send", "--db", db, file)
			checkForeign(t, db, want)
			if out := cli(t, "show", file); !strings.Contains(out, "Strands Agents spans") {
				t.Errorf("show FILE: %s", out)
			}
		})
	}
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			file, db := filepath.Join(t.TempDir(), "spans.json"), filepath.Join(t.TempDir(), "s.db")
			must(t, os.WriteFile(file, raw, 0o600))
			c, err := startCollector(t.Context(), collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db})
			must(t, err)
			at, _, _ := strings.Cut(protocol, "/")
			cli(t, "send", "--endpoint", "http://"+c.addr(at), "--protocol", protocol, file)
			must(t, c.stop())
			checkForeign(t, db, want)
		})
	}
}

// Headers of the environment are percent-encoded, as the specification of OTLP exporters demands. An error holds no
// value.
func TestSendHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spans.json")
	must(t, os.WriteFile(file, sampleBytes(t, wantOf(t, "strands-1.62.0-a").Files[0]), 0o600))
	var met http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { met = r.Header }))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20c2VjcmV0, x-scope=a%2Cb=c")
	cli(t, "send", "--endpoint", server.URL, "--protocol", "http/protobuf", file)
	if met.Get("Authorization") != "Basic c2VjcmV0" || met.Get("X-Scope") != "a,b=c" {
		t.Errorf("headers %v", met)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=secret%")
	code, _, text := runWith(t, "send", "--endpoint", server.URL, file)
	if code != exitFailed || !strings.Contains(text, "Authorization") || strings.Contains(text, "secret") {
		t.Errorf("exit %d: %s", code, text)
	}
}

// The variables for traces choose protocol, address and headers, before the general ones. The address may have the path
// of traces, and no scheme where a flag names it.
func TestSendSpansByTheVariablesOfTraces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spans.json")
	must(t, os.WriteFile(file, sampleBytes(t, wantOf(t, "strands-1.62.0-a").Files[0]), 0o600))
	met := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		met = r.URL.Path + " " + r.Header.Get("X-Of")
	}))
	defer server.Close()
	for name, value := range map[string]string{"ENDPOINT": "http://127.0.0.1:1", "PROTOCOL": "grpc", "HEADERS": "x-of=all",
		"TRACES_ENDPOINT": server.URL + "/v1/traces", "TRACES_PROTOCOL": "http/protobuf", "TRACES_HEADERS": "x-of=traces"} {
		t.Setenv("OTEL_EXPORTER_OTLP_"+name, value)
	}
	for _, args := range [][]string{nil, {"--endpoint", strings.TrimPrefix(server.URL, "http://")}} {
		met = ""
		cli(t, append([]string{"send", file}, args...)...)
		if met != "/v1/traces traces" {
			t.Errorf("send %q: met %q", args, met)
		}
	}
}

// Spans of this format and of other instrumentations in one trace, as a loop has them whose HTTP client is instrumented
// and which a framework starts: nothing is counted twice, and nothing of the framework's own is lost.
func TestOwnSpansAmongOthers(t *testing.T) {
	db := filepath.Join(t.TempDir(), "s.db")
	c, err := startCollector(t.Context(), collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db})
	must(t, err)
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithEndpoint("http://"+c.addr("grpc")),
		otelsetup.WithProtocol(otelsetup.GRPC), otelsetup.WithoutGlobal(), otelsetup.WithoutMetrics())
	must(t, err)
	other := p.TracerProvider().Tracer("opentelemetry.instrumentation.openai.v1")
	span := func(operation string, more ...attribute.KeyValue) trace.SpanStartOption {
		return trace.WithAttributes(append(more, attribute.String("gen_ai.operation.name", operation))...)
	}
	usage := []attribute.KeyValue{
		attribute.Int("gen_ai.usage.input_tokens", 100), attribute.Int("gen_ai.usage.output_tokens", 7),
	}
	ctx, outer := other.Start(t.Context(), "invoke_agent graph", span("invoke_agent", usage...))
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()))
	ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{SessionID: "ours", Agent: "coder"})
	in, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	_, chat := other.Start(in, "chat m", span("chat", usage...))
	chat.End()
	in, call := turn.StartTool(in, otelagent.ToolCall{ID: "c1", Name: "bash"})
	_, tool := other.Start(in, "execute_tool bash", span("execute_tool", attribute.String("gen_ai.tool.name", "bash"),
		attribute.String("gen_ai.tool.call.id", "c1")))
	tool.End()
	call.End(otelagent.ToolResult{})
	_, late := other.Start(ctx, "chat m", span("chat", usage...)) // below the run, while the turn is open
	late.End()
	turn.End(otelagent.TurnResult{Usage: &otelagent.Usage{Input: 100, Output: 7}})
	run.End(otelagent.RunResult{})
	outer.End()
	stop, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	must(t, p.Shutdown(stop))
	must(t, c.stop())
	n, tools, ids := seenIn(t, db)
	if n["Sessions"] != 1 || n["Runs"] != 1 || n["Turns"] != 1 || n["ToolCalls"] != 1 || n["InputTokens"] != 100 ||
		n["OutputTokens"] != 7 || ids[0] != "ours" || tools[0] != "bash" {
		t.Errorf("%v %q %q", n, tools, ids)
	}
}
