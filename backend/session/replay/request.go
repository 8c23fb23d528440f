package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// request is what all spellings of a request have in common.
type request struct {
	spelling Spelling
	model    string
	system   []part // text, and what else stands there
	messages []message
	tools    []tool
	params   params
	extra    []member // keys of the top that are nowhere above, in their order
}

type role uint8

const (
	user role = iota
	assistant
	system // in the middle of a conversation
	results
)

// message is one message. Results of tools stand in messages of their own.
type message struct {
	role   role
	parts  []part
	at     int      // position in the list as it came
	fields []string // what it says besides its content, by key: times, usage, ids
	raw    []byte   // as it came; nil where it was parted
}

type kind uint8

const (
	text kind = iota
	thinking
	media
	call
	result
	other
)

// part is one piece of a message.
type part struct {
	kind kind
	raw  []byte // as it came, in the spelling of its request; nil where it had no JSON of its own

	text string
	// Of thinking: what its provider wants to get back, and whose that is: the provider's name, or empty where nobody says. hidden says that
	// there is no text, only that.
	signature, vendor string
	hidden            bool
	id                string // of a call and its result, and of thinking where it has one

	name    string // of a tool, or a file
	args    []byte // of a call: JSON
	parts   []part // of a result
	isError bool

	media  string // image, audio, video or document
	mime   string
	data   string // base64
	url    string
	fileID string
	detail string // of an image

	typ   string   // as it came
	extra []string // keys that say more, which no other form has a place for
}

// tool is one tool that was offered.
type tool struct {
	name, description string
	schema            []byte
	strict            []byte // true or false as it came
	typ               string // of one that the provider itself runs
	raw               []byte
	extra             []string
}

// params are the parameters that more than one form knows. What is nil or empty was not told. JSON values stand as they are spelled.
type params struct {
	maxTokens, temperature, topP, topK, seed []byte
	frequency, presence                      []byte
	stop                                     [][]byte // strings
	level                                    string   // of reasoning
	budget                                   []byte   // of reasoning, in tokens
	choice, choiceName                       string   // auto, none, any, tool
	parallel                                 []byte   // true or false
	format                                   string   // text, json, schema
	schema, schemaStrict                     []byte
	schemaName                               string
	user                                     string
	stream                                   bool
}

// member is one member of a JSON object.
type member struct {
	key   string
	value []byte
}

// members returns the members of a JSON object, or nil. raw is valid JSON.
func members(raw []byte) []member {
	var out []member
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if c.Open('{') {
		out = []member{}
		for c.More('}') {
			key := string(c.Key())
			out = append(out, member{key, c.Value()})
		}
	}
	return out
}

// elements returns the elements of a JSON array, or nil.
func elements(raw []byte) [][]byte {
	var out [][]byte
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if c.Open('[') {
		out = [][]byte{}
		for c.More(']') {
			out = append(out, c.Value())
		}
	}
	return out
}

// object is a JSON object for looking things up. Of two members of one key the last counts, as in most decoders.
type object map[string][]byte

// asObject returns the object that raw is, without members that are null; nil when it is none.
func asObject(raw []byte) object {
	l := members(raw)
	if l == nil {
		return nil
	}
	o := make(object, len(l))
	for _, m := range l {
		if string(m.value) == "null" {
			delete(o, m.key)
		} else {
			o[m.key] = m.value
		}
	}
	return o
}

// str returns the first of keys that is a string, or "".
func (o object) str(keys ...string) string {
	for _, k := range keys {
		if s, ok := rawjson.String(o[k]); ok {
			return s
		}
	}
	return ""
}

// first returns the first of keys that is there, or nil.
func (o object) first(keys ...string) []byte {
	for _, k := range keys {
		if v := o[k]; v != nil {
			return v
		}
	}
	return nil
}

func (o object) has(keys ...string) bool { return o.first(keys...) != nil }

// besides returns the keys of o that are none of known, in order.
func (o object) besides(known ...string) []string {
	var out []string
	for k := range o {
		if !slices.Contains(known, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

func isString(v []byte) bool { return len(v) > 0 && v[0] == '"' }
func isArray(v []byte) bool  { return len(v) > 0 && v[0] == '[' }
func isObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }
func isNumber(v []byte) bool { return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9') }
func isBool(v []byte) bool   { return len(v) > 0 && (v[0] == 't' || v[0] == 'f') }

// textOf returns the text of parts, a line feed between two.
func textOf(parts []part) string {
	var out []string
	for _, p := range parts {
		if p.kind == text {
			out = append(out, p.text)
		}
	}
	return strings.Join(out, "\n")
}

// calls returns the ids of the calls in a message.
func (m *message) calls() map[string]bool {
	ids := map[string]bool{}
	for _, p := range m.parts {
		if p.kind == call {
			ids[p.id] = true
		}
	}
	return ids
}

// where names a message for a note.
func (m *message) where() string { return fmt.Sprintf("message %d", m.at) }
