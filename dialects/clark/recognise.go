package clark

import (
	"bytes"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Recognise says whether head, the beginning of an input, looks like events or records of clark-agent, and why.
func Recognise(head []byte) (why string, ok bool) {
	why, _ = recognise(head)
	return why, why != ""
}

// IsTrajectory says whether head, the beginning of an input that Recognise knows, begins with a record of the
// trajectory: such an input is for WithTrajectory where events are given as well.
func IsTrajectory(head []byte) bool {
	_, record := recognise(head)
	return record
}

// recognise looks at the first 16 lines, up to one that says what the input is or cannot be clark-agent's.
func recognise(head []byte) (why string, record bool) {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for n := 0; n < 16 && in.Scan(); n++ {
		text := in.Line().Text
		if len(text) == 0 || text[0] != '{' {
			break
		}
		if ndjson.Own(text) {
			continue
		}
		found := map[string]string{}
		members(rawjson.NewCursor(text, rawjson.MaxDepth), "", found)
		if _, timed := found["recorded_at_unix_ms"]; timed && variantOf(found["payload.kind"]) != "" {
			return "lines with payload.kind and recorded_at_unix_ms", true
		}
		for _, place := range []string{"", "event.", "payload.", "data."} {
			typ := found[place+"type"]
			if _, known := shapes[typ]; !known || place != "" && found["type"] != "" {
				continue
			}
			if place == "" {
				return "lines with type " + typ, false
			}
			return "lines with a clark-agent event inside", false
		}
	}
	return "", false
}

// members finds the strings of the object at c, which may be cut, and in those inside, by their path.
func members(c rawjson.Cursor, path string, found map[string]string) {
	for c.Open('{'); c.More('}'); {
		key := path + string(c.Key())
		if c.Peek() == '{' && path == "" {
			members(c, key+".", found)
		}
		found[key], _ = rawjson.String(c.Value())
	}
}
