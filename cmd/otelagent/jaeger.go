package main

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// jaegerDoc is the JSON of Jaeger's api/traces. Times are in microseconds.
type jaegerDoc struct {
	Data []struct {
		Spans []struct {
			TraceID, SpanID, OperationName, ProcessID string
			References                                []struct{ RefType, SpanID string }
			StartTime, Duration                       int64
			Tags                                      []jaegerTag
			Logs                                      []struct {
				Timestamp int64
				Fields    []jaegerTag
			}
		}
		Processes map[string]struct {
			ServiceName string
			Tags        []jaegerTag
		}
	}
}

type jaegerTag struct {
	Key, Type string
	Value     json.RawMessage
}

// jaegerTraces makes spans of a document of Jaeger, as they were before Jaeger took them.
func jaegerTraces(text []byte) (ptrace.Traces, error) {
	td := ptrace.NewTraces()
	var doc jaegerDoc
	if err := json.Unmarshal(text, &doc); err != nil {
		return td, err
	}
	for _, t := range doc.Data {
		for i := range t.Spans {
			from := &t.Spans[i]
			rs := td.ResourceSpans().AppendEmpty()
			process := t.Processes[from.ProcessID]
			putTags(rs.Resource().Attributes(), process.Tags)
			rs.Resource().Attributes().PutStr("service.name", process.ServiceName)
			ss := rs.ScopeSpans().AppendEmpty()
			s := ss.Spans().AppendEmpty()
			s.SetName(from.OperationName)
			var trace pcommon.TraceID
			var span, parent pcommon.SpanID
			if !readHex(trace[:], from.TraceID) || !readHex(span[:], from.SpanID) {
				return td, errors.New("bad id")
			}
			s.SetTraceID(trace)
			s.SetSpanID(span)
			for _, r := range from.References {
				if r.RefType == "CHILD_OF" && readHex(parent[:], r.SpanID) {
					s.SetParentSpanID(parent)
				}
			}
			s.SetStartTimestamp(pcommon.Timestamp(from.StartTime) * 1000)
			s.SetEndTimestamp(pcommon.Timestamp(from.StartTime+from.Duration) * 1000)
			a := s.Attributes()
			putTags(a, from.Tags)
			ss.Scope().SetName(cmp.Or(takeTag(a, "otel.scope.name"), takeTag(a, "otel.library.name")))
			ss.Scope().SetVersion(cmp.Or(takeTag(a, "otel.scope.version"), takeTag(a, "otel.library.version")))
			failed := takeTag(a, "error") == "true"
			switch status := takeTag(a, "otel.status_code"); {
			case status == "ERROR" || failed:
				s.Status().SetCode(ptrace.StatusCodeError)
			case status == "OK":
				s.Status().SetCode(ptrace.StatusCodeOk)
			}
			s.Status().SetMessage(takeTag(a, "otel.status_description"))
			for _, l := range from.Logs {
				e := s.Events().AppendEmpty()
				e.SetTimestamp(pcommon.Timestamp(l.Timestamp) * 1000)
				putTags(e.Attributes(), l.Fields)
				e.SetName(takeTag(e.Attributes(), "event"))
			}
		}
	}
	return td, nil
}

// putTags sets attributes. An integer may come as text.
func putTags(m pcommon.Map, tags []jaegerTag) {
	for _, t := range tags {
		text := string(t.Value)
		if quoted := ""; json.Unmarshal(t.Value, &quoted) == nil {
			text = quoted
		}
		n, noInt := strconv.ParseInt(text, 10, 64)
		f, noFloat := strconv.ParseFloat(text, 64)
		switch {
		case t.Type == "int64" && noInt == nil:
			m.PutInt(t.Key, n)
		case t.Type == "float64" && noFloat == nil:
			m.PutDouble(t.Key, f)
		case t.Type == "bool":
			m.PutBool(t.Key, text == "true")
		default:
			m.PutStr(t.Key, text)
		}
	}
}

// takeTag removes an attribute and returns its text.
func takeTag(m pcommon.Map, key string) string {
	v, ok := m.Get(key)
	if !ok {
		return ""
	}
	text := v.AsString()
	m.Remove(key)
	return text
}

// readHex reads an id. Jaeger omits zeros at its beginning.
func readHex(id []byte, text string) bool {
	if n := 2*len(id) - len(text); n > 0 {
		text = strings.Repeat("0", n) + text
	}
	n, err := hex.DecodeString(text)
	return err == nil && copy(id, n) == len(id) && len(n) == len(id)
}
