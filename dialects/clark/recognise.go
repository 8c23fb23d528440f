package clark

import (
	"bytes"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Recognise says whether head, the beginning of an input, looks like events or records of clark-agent, and why.
func Recognise(head []byte) (why string, ok bool) {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for n := 0; n < 16 && in.Scan(); n++ {
		at := in.Line()
		if at.TooLong || len(at.Text) == 0 || at.Text[0] != '{' {
			return "", false
		}
		switch typ, inner, record := recognise(at.Text); {
		case record:
			return "lines with payload.kind and recorded_at_unix_ms", true
		case known(typ) != "":
			return "lines with type " + typ, true
		case typ == "" && known(inner) != "":
			return "lines with a clark-agent event inside", true
		}
	}
	return "", false
}

// IsTrajectory says whether head, the beginning of an input that Recognise knows, begins with a record of the
// trajectory: such an input is for WithTrajectory where events are given as well.
func IsTrajectory(head []byte) bool {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for in.Scan() {
		if text := in.Line().Text; !ndjson.Own(text) {
			_, _, record := recognise(text)
			return record
		}
	}
	return false
}

// recognise returns the type of a line that may be cut, the type of an event inside, and whether it is a record.
func recognise(text []byte) (typ, inner string, record bool) {
	var kind string
	var recorded bool
	c := rawjson.NewCursor(text, rawjson.MaxDepth)
	for c.Open('{'); c.More('}'); {
		switch key := string(c.Key()); key {
		case "type":
			typ, _ = rawjson.String(c.Value())
		case "recorded_at_unix_ms":
			recorded = true
			c.Value()
		case "event", "payload", "data":
			inside := c
			for inside.Open('{'); inside.More('}'); {
				name := string(inside.Key())
				value, _ := rawjson.String(inside.Value())
				if name == "type" && known(value) != "" {
					inner = value
				}
				if name == "kind" && key == "payload" {
					kind = value
				}
			}
			c.Value()
		default:
			c.Value()
		}
	}
	return typ, inner, recorded && variantOf(kind) != ""
}
