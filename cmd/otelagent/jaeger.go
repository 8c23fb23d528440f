package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/ptrace"
)

// jaegerDoc is the JSON of Jaeger's api/traces. Times are in microseconds.
type jaegerDoc struct {
	Data []struct {
		Spans []struct {
			TraceID, SpanID, OperationName, ProcessID string
			References                                []struct{ RefType, SpanID string }
			StartTime, Duration                       int64
			Tags                                      jaegerTags
			Logs                                      []struct {
				Timestamp int64
				Fields    jaegerTags
			}
		}
		Processes map[string]struct {
			ServiceName string
			Tags        jaegerTags
		}
	}
}

type jaegerTags []jaegerTag

type jaegerTag struct {
	Key, Type string
	Value     json.RawMessage
}

// object is one of OTLP's JSON.
type object map[string]any

// jaegerTraces makes spans of a document of Jaeger, as they were before Jaeger took them.
func jaegerTraces(text []byte) (ptrace.Traces, error) {
	var doc jaegerDoc
	if err := json.Unmarshal(text, &doc); err != nil {
		return ptrace.NewTraces(), err
	}
	var all []object
	for _, t := range doc.Data {
		for _, from := range t.Spans {
			process, tags := t.Processes[from.ProcessID], from.Tags
			resource := slices.Clone(process.Tags) // of several spans
			resource.take("service.name")
			scope := object{"name": cmp.Or(tags.take("otel.scope.name"), tags.take("otel.library.name")),
				"version": cmp.Or(tags.take("otel.scope.version"), tags.take("otel.library.version"))}
			code := map[string]int{"OK": 1, "ERROR": 2}[tags.take("otel.status_code")]
			if tags.take("error") == "true" {
				code = 2
			}
			s := object{"traceId": padded(from.TraceID, 32), "spanId": padded(from.SpanID, 16), "name": from.OperationName,
				"startTimeUnixNano": from.StartTime * 1000, "endTimeUnixNano": (from.StartTime + from.Duration) * 1000,
				"status": object{"code": code, "message": tags.take("otel.status_description")}}
			for _, r := range from.References {
				if r.RefType == "CHILD_OF" {
					s["parentSpanId"] = padded(r.SpanID, 16)
				}
			}
			var events []object
			for _, l := range from.Logs {
				events = append(events, object{"timeUnixNano": l.Timestamp * 1000, "name": l.Fields.take("event"),
					"attributes": l.Fields.attributes()})
			}
			s["events"], s["attributes"] = events, tags.attributes()
			service := object{"key": "service.name", "value": object{"stringValue": process.ServiceName}}
			all = append(all, object{"resource": object{"attributes": append(resource.attributes(), service)},
				"scopeSpans": []object{{"scope": scope, "spans": []object{s}}}})
		}
	}
	otlp, err := json.Marshal(object{"resourceSpans": all})
	if err != nil {
		return ptrace.NewTraces(), err
	}
	var u ptrace.JSONUnmarshaler
	return u.UnmarshalTraces(otlp)
}

// padded returns an id with the zeros that Jaeger omits at its beginning.
func padded(id string, length int) string { return strings.Repeat("0", max(length-len(id), 0)) + id }

// take removes a tag and returns its text.
func (t *jaegerTags) take(key string) (text string) {
	for i, tag := range *t {
		if tag.Key == key {
			*t = slices.Delete(*t, i, i+1)
			return tag.text()
		}
	}
	return ""
}

func (t jaegerTag) text() (text string) {
	if json.Unmarshal(t.Value, &text) != nil {
		text = string(t.Value)
	}
	return text
}

// attributes returns tags as attributes. A number or bool may come as text; a value that is not of its type stays text.
func (t jaegerTags) attributes() []object {
	out := []object{}
	for _, tag := range t {
		text := tag.text()
		_, noInt := strconv.ParseInt(text, 10, 64)
		_, noFloat := strconv.ParseFloat(text, 64)
		value := object{"stringValue": text}
		switch {
		case tag.Type == "int64" && noInt == nil:
			value = object{"intValue": text}
		case tag.Type == "float64" && noFloat == nil:
			value = object{"doubleValue": text}
		case tag.Type == "bool" && (text == "true" || text == "false"):
			value = object{"boolValue": text == "true"}
		}
		out = append(out, object{"key": tag.Key, "value": value})
	}
	return out
}
