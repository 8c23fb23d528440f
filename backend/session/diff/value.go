package diff

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// maxDepth bounds how deep members have paths of their own.
const maxDepth = 16

// leaf is one value that a field holds.
type leaf struct {
	path string
	// raw is the canonical JSON of the value, or a text that is no JSON.
	raw string
	// text is the text of a string, else raw.
	text   string
	isText bool
}

// decode reads a JSON value. Of each number it keeps one spelling.
func decode(raw string) (v any, ok bool) {
	if rawjson.Valid([]byte(raw), rawjson.MaxDepth) != nil {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	err := d.Decode(&v)
	return plain(v), err == nil
}

// marshal returns a decoded value as JSON, its members sorted.
func marshal(v any) string { return string(message.Encode(v)) }

// canonical returns one spelling of a JSON value, and any other text as it is.
func canonical(raw string) string {
	if v, ok := decode(raw); ok {
		return marshal(v)
	}
	return raw
}

// plain replaces the numbers in a decoded value by one spelling of each: 1.0, 1e0 and 1 are the same. Integers are
// exact.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, bad := v.Float64()
		if _, err := v.Int64(); bad != nil || err == nil && math.Abs(f) >= 1<<53 {
			return v
		}
		return f + 0 // not -0
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}

// resultIDs are members of results that differ from run to run, or repeat the call.
var resultIDs = []string{
	"timestamp", "id", "toolCallId", "tool_call_id", "tool_use_id", "messageId", "childLoopId", "child_loop_id", "role",
	"toolName",
}

// result returns what a tool returned without ids: its text where it is nothing else, however it is spelled.
func result(v any) any {
	switch v := v.(type) {
	case map[string]any:
		content, ok := v["content"]
		if !ok {
			return v
		}
		for _, name := range resultIDs {
			delete(v, name)
		}
		if v["content"] = result(content); len(v) == 1 {
			return v["content"]
		}
	case []any:
		var lines []string
		for _, e := range v {
			text, ok := e.(string)
			if block, isBlock := e.(map[string]any); isBlock {
				text, ok = block["text"].(string)
			}
			if !ok {
				return v
			}
			lines = append(lines, text)
		}
		return strings.Join(lines, "\n")
	}
	return v
}

// flatten appends what a decoded value holds, by path: strings, numbers, bools, nulls, and arrays and objects that are
// empty or deep. Elements that have names, as tools have, are under these.
func flatten(out []leaf, path string, v any) []leaf {
	members, _ := v.(map[string]any)
	list, _ := v.([]any)
	if named := byName(list); len(named) > 0 {
		members, list = named, nil
	}
	switch {
	case len(members)+len(list) == 0 || strings.Count(path, ".")+strings.Count(path, "[") >= maxDepth:
		l := leaf{path: path, raw: marshal(v)}
		if l.text, l.isText = v.(string); !l.isText {
			l.text = l.raw
		}
		return append(out, l)
	case len(members) > 0:
		for _, name := range slices.Sorted(maps.Keys(members)) {
			out = flatten(out, path+"."+name, members[name])
		}
	}
	for i, e := range list {
		out = flatten(out, path+"["+strconv.Itoa(i)+"]", e)
	}
	return out
}

// byName returns elements by their names, as catalogues of tools have them: name, or function.name in the spelling of
// OpenAI. It is nil where not every element has a name of its own.
func byName(list []any) map[string]any {
	out := map[string]any{}
	for _, e := range list {
		o, _ := e.(map[string]any)
		if function, ok := o["function"].(map[string]any); ok {
			o = function
		}
		name, ok := o["name"].(string)
		if !ok || out[name] != nil {
			return nil
		}
		out[name] = e
	}
	return out
}

// indented returns a value over several lines.
func indented(v any) string {
	b, _ := json.MarshalIndent(v, "", "  ")
	return string(b)
}

// read returns the texts that a message holds, by who says them, without tool calls and results.
func read(body string) (texts []leaf) {
	add := func(name, text string) { texts = append(texts, leaf{name, text, text, true}) }
	for _, s := range session.MessageParts(body) {
		switch {
		case s.Kind == session.PartCall, s.Kind == session.PartResult, s.Kind == session.PartThinking && s.Text == "":
		case s.Type == "blob":
			data, _ := s.Part.Text()
			name := spans.BlockOfString(data).Short().String()
			add("file", fmt.Sprintf("[%d characters of base64, %s]", len(data), name))
		case s.Kind == session.PartFile:
			add("file", s.Text)
		case s.Kind == session.PartOther:
			add(cmp.Or(s.Type, s.By), canonical(string(s.Content)))
		default:
			add(s.Label(), s.Text)
		}
	}
	return texts
}
