package phi

import "github.com/otelagent/otelagent/dialects/input"

// isSession reports whether the object at a path has loops, or a key that only phi-core writes.
func isSession(o input.Outline, path string) bool {
	return o.Has(path, "loops", "formation", "parent_spawn_ref")
}

// isMessage reports whether the object at a path has a role, and an array as content and a number as timestamp, or it
// is an extension message with kind and data.
func isMessage(o input.Outline, path string) bool {
	digit := o.First(path, "timestamp")
	return o.First(path, "role") == '"' &&
		(o.First(path, "content") == '[' && digit >= '0' && digit <= '9' ||
			o.First(path, "kind") == '"' && o.Has(path, "data"))
}

// isDocument distinguishes a document, which begins as a session or as an array of objects, from lines.
func isDocument(o input.Outline) bool {
	first := o.First("[]", "") // a line of a log may begin with an array
	return isSession(o, "") || first == '{' || first == 0 && o.First("", "") == '[' && !o.Cut
}

// RecogniseDocument returns why an input is a document of this dialect, without content; empty when it is none. Of an
// array whose first message is longer than the outline that is not known.
func RecogniseDocument(o input.Outline) (why string) {
	switch {
	case isSession(o, ""):
		return "an object with the keys of phi-core's Session"
	case isSession(o, "[]"):
		return "an array of objects with the keys of phi-core's Session"
	case isMessage(o, "[]"):
		return "an array of phi-core's messages"
	}
	return ""
}

// Recognise returns why a line, which may be cut, is an AgentEvent, without content; empty when it is none. It has a
// type of phi-core's and names a loop, or loops, unless these may stand behind the cut.
func Recognise(o input.Outline) (why string) {
	for _, at := range []string{"", "event"} {
		_, known := variants[o.Text(at, "type")]
		if known && (o.Cut || o.Has(at, "loop_id", "loop_ids", "selected_loop_id")) {
			return "lines with type and loop_id of phi-core's AgentEvent"
		}
	}
	return ""
}
