package otlprow

import (
	"slices"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// details takes the event that holds a whole request as standard JSON: it makes of it the lists and blocks that the other
// encoding would have sent.
func (d *decoder) details(row *session.Row, attrs pcommon.Map) {
	has := func(name string) bool {
		return slices.ContainsFunc(row.Lists, func(l session.List) bool { return l.Name == name && l.Attempt == 0 })
	}
	if in, ok := get(attrs, string(spans.InputMessagesKey)); ok && !has(spans.ListRequest) {
		d.messages(row, spans.ListRequest, in)
	}
	if out, ok := get(attrs, string(spans.OutputMessagesKey)); ok && !has(spans.ListOutput) {
		d.messages(row, spans.ListOutput, out)
	}
	if has(spans.ListParams) {
		return
	}
	params := made{List: session.List{Name: spans.ListParams}}
	if system, ok := get(attrs, string(spans.SystemInstructionsKey)); ok {
		if raw, ok := d.json(system); ok {
			params.add(d, row, raw, string(spans.ProvenanceSystem))
		}
	}
	if tools, ok := get(attrs, string(spans.ToolDefinitionsKey)); ok {
		if raw, ok := d.json(tools); ok {
			params.add(d, row, raw, string(spans.ProvenanceTools))
		}
	}
	if params.Count > 0 {
		params.append(row)
	}
}

// made is a list that did not come as one.
type made struct {
	session.List
	chain spans.Chain
}

func (m *made) add(d *decoder, row *session.Row, body []byte, provenance string) {
	text := string(body)
	id := spans.BlockOfString(text)
	it := spans.Item{Block: id.Short(), Provenance: provenance}
	d.body(row, text, 0)
	m.chain = m.chain.Add(id, it)
	m.Items = append(m.Items, it.Encode())
	m.Count++
}

func (m *made) append(row *session.Row) {
	m.Digest = m.chain.Short()
	row.Lists = append(row.Lists, m.List)
}

// messages makes a list of an array of messages.
func (d *decoder) messages(row *session.Row, name string, v pcommon.Value) {
	l := made{List: session.List{Name: name}}
	add := func(raw []byte) {
		body, _, err := rawjson.AppendCanonical(nil, raw, nil)
		if err != nil || len(l.Items) == maxMessages {
			d.report.Cut++
			l.Count++ // the list stays and is broken
			return
		}
		l.add(d, row, body, "")
	}
	if v.Type() == pcommon.ValueTypeSlice {
		for _, e := range v.Slice().All() {
			raw, ok := appendJSON(nil, e, 0, maxValue)
			if !ok {
				raw = nil // add counts it
			}
			add(raw)
		}
	} else {
		raw, ok := d.json(v)
		if !ok {
			return
		}
		c := rawjson.NewCursor(raw, rawjson.MaxDepth)
		if !c.Open('[') {
			d.report.Cut++
			return
		}
		for c.More(']') {
			add(c.Value())
		}
	}
	l.append(row)
}

// json returns the JSON that an attribute holds: its text, or what a structured value is as JSON.
func (d *decoder) json(v pcommon.Value) ([]byte, bool) {
	if v.Type() == pcommon.ValueTypeStr {
		raw := []byte(v.Str())
		if len(raw) <= maxBody && rawjson.Valid(raw, rawjson.MaxDepth) == nil {
			return raw, true
		}
	} else if raw, ok := appendJSON(nil, v, 0, maxValue); ok {
		return raw, true
	}
	d.report.Cut++
	return nil, false
}
