package clark

import (
	"bytes"

	"github.com/otelagent/otelagent/dialects/input"
)

// Recognise returns why a line, which may be cut, is an event or a record of clark-agent; empty when it is neither.
func Recognise(o input.Outline) (why string) {
	why, _ = recognise(o)
	return why
}

// IsTrajectory reports whether head, the beginning of an input of this dialect, begins with a record of the
// trajectory: such an input is for WithTrajectory where events are given as well. It looks at 16 lines.
func IsTrajectory(head []byte) bool {
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for n := 0; n < 16 && in.Scan(); n++ {
		if why, record := recognise(input.OutlineOf(in.Line().Text)); why != "" {
			return record
		}
	}
	return false
}

func recognise(o input.Outline) (why string, record bool) {
	if o.Has("", "recorded_at_unix_ms") && variantOf(o.Text("payload", "kind")) != "" {
		return "lines with payload.kind and recorded_at_unix_ms", true
	}
	for _, place := range []string{"", "event", "payload", "data"} {
		typ := o.Text(place, "type")
		switch _, known := shapes[typ]; {
		case !known:
		case place == "":
			return "lines with type " + typ, false
		case o.Text("", "type") == "":
			return "lines with a clark-agent event inside", false
		}
	}
	return "", false
}
