package clark

import (
	"bytes"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Recognise returns why a line, which may be cut, is an event or a record of clark-agent; empty when it is neither.
func Recognise(line []byte) (why string) {
	why, _ = recognise(line)
	return why
}

// IsTrajectory reports whether head, the beginning of an input of this dialect, begins with a record of the
// trajectory: such an input is for WithTrajectory where events are given as well. It looks at 16 lines.
func IsTrajectory(head []byte) bool {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for n := 0; n < 16 && in.Scan(); n++ {
		if why, record := recognise(in.Line().Text); why != "" {
			return record
		}
	}
	return false
}

func recognise(line []byte) (why string, record bool) {
	found := map[string]string{}
	members(rawjson.NewCursor(line, rawjson.MaxDepth), "", found)
	if _, timed := found["recorded_at_unix_ms"]; timed && variantOf(found["payload.kind"]) != "" {
		return "lines with payload.kind and recorded_at_unix_ms", true
	}
	for _, place := range []string{"", "event.", "payload.", "data."} {
		typ := found[place+"type"]
		switch _, known := shapes[typ]; {
		case !known:
		case place == "":
			return "lines with type " + typ, false
		case found["type"] == "":
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
