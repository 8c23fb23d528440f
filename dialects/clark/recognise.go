package clark

import (
	"bytes"
	"strings"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Recognise says whether head, the beginning of an input, looks like events or records of clark-agent, and why.
func Recognise(head []byte) (why string, ok bool) {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for range 16 {
		if !in.Scan() {
			break
		}
		at := in.Line()
		if at.TooLong || len(at.Text) == 0 || at.Text[0] != '{' {
			return "", false
		}
		v, record, enveloped := recognise(at.Text)
		switch {
		case record:
			return "lines with payload.kind and recorded_at_unix_ms", true
		case v != unknownVariant && enveloped:
			return "lines with a clark-agent event inside", true
		case v != unknownVariant:
			return "lines with type " + variants[v].name, true
		}
	}
	return "", false
}

// IsTrajectory says whether head, the beginning of an input that Recognise knows, begins with a record of the trajectory: such an input is for
// WithTrajectory where events are given as well.
func IsTrajectory(head []byte) bool {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for in.Scan() {
		if text := in.Line().Text; !ndjson.Own(text) {
			_, record, _ := recognise(text)
			return record
		}
	}
	return false
}

// recognise looks at a line that may be cut.
func recognise(text []byte) (v variant, record, enveloped bool) {
	var typ, kind string
	var recorded bool
	c := rawjson.NewCursor(text, maxDepth)
	for c.Open('{'); c.More('}'); {
		switch key := string(c.Key()); key {
		case "type":
			typ = stringOf(c.Value())
		case "recorded_at_unix_ms":
			recorded = true
			c.Value()
		case "event", "payload", "data":
			inner := c
			for inner.Open('{'); inner.More('}'); {
				switch name := string(inner.Key()); name {
				case "type", "kind":
					word := stringOf(inner.Value())
					if name == "type" && byName[word] != unknownVariant && typ == "" {
						v, enveloped = byName[word], true
					}
					if name == "kind" && key == "payload" {
						kind = word
					}
				default:
					inner.Value()
				}
			}
			c.Value()
		default:
			c.Value()
		}
	}
	if typ != "" && !strings.HasPrefix(typ, "otelagent.") {
		v, enveloped = byName[typ], false
	}
	return v, recorded && byKind[kind] != unknownVariant, enveloped && v != unknownVariant
}
