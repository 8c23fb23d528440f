package guide

import "github.com/otelagent/otelagent/dialects/input"

// RecogniseDocument returns why an input is a document of the guide, which has the row of a session, or messages with
// their rows; empty when it is none.
func RecogniseDocument(o input.Outline) (why string) {
	if o.Has("session", "id", "agent") && o.Has("session", "created_at", "metadata_json", "metadata", "model_json",
		"workspace_root", "prompt_tokens") || o.Has("messages[]", "message") {
		why = "an object with session and messages"
	}
	return why
}

// Recognise returns why a line, which may be cut, is one of the guide; empty when it is none.
func Recognise(o input.Outline) (why string) {
	switch kind := o.Text("", "type"); {
	case (kind == "session" || kind == "message" || kind == "part") &&
		o.Has("data", "id", "session_id", "message_id", "agent", "role", "created_at"):
		return "lines with type " + kind + " and a row as data"
	case o.Has("message", "session_id", "metadata_json", "metadata") && o.Has("message", "id", "role") &&
		o.First("", "parts") == '[':
		return "lines with a message row and its parts"
	}
	return ""
}
