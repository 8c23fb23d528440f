package diff

import (
	"encoding/json"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
)

const (
	// maxChanges bounds the changes reported of one value; a value with more is reported as one change.
	maxChanges = 64
	// maxDepth bounds how deep members are compared one by one.
	maxDepth = 16
	// longValue is the length in bytes from which a string is compared as a text, longJSON that of an array or object.
	longValue = 60
	longJSON  = 160
)

// none stands for a value that is not there.
type none struct{}

// decode reads a JSON value. Numbers keep their spelling.
func decode(raw string, there bool) (any, bool) {
	if !there {
		return none{}, true
	}
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	_, err := d.Token()
	return v, err == io.EOF
}

// marshal returns a decoded value as JSON, its members sorted; nothing for none.
func marshal(v any) string {
	if v == (any)(none{}) {
		return ""
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it was decoded
	return strings.TrimSuffix(b.String(), "\n")
}

// canonical returns one spelling of a JSON value, and any other text as it is.
func canonical(raw string) string {
	v, ok := decode(raw, true)
	if !ok {
		return raw
	}
	return marshal(plain(v))
}

// plain replaces the numbers in a decoded value by one spelling of each.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		return json.Number(plainNumber(string(v)))
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

// plainNumber returns one spelling of a number: 1.0, 1e0 and 1 are the same. Integers are exact.
func plainNumber(n string) string {
	if _, err := strconv.ParseInt(n, 10, 64); err == nil && n != "-0" {
		return n
	}
	f, err := strconv.ParseFloat(n, 64)
	switch {
	case err != nil:
		return n
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// resultIDs are members of results that differ from run to run, or repeat the call.
var resultIDs = []string{"timestamp", "id", "toolCallId", "tool_call_id", "tool_use_id", "messageId", "childLoopId", "child_loop_id",
	"role", "toolName"}

// result returns what a tool returned without ids: its text where it is nothing else, however it is spelled.
func result(v any) any {
	members, _ := v.(map[string]any)
	blocks, isList := v.([]any)
	if content, ok := members["content"]; ok {
		for _, name := range resultIDs {
			delete(members, name)
		}
		if blocks, isList = content.([]any); !isList {
			blocks, isList = []any{content}, true
		}
	}
	var lines []string
	for _, e := range blocks {
		block, _ := e.(map[string]any)
		text, ok := block["text"].(string)
		if block == nil {
			text, ok = e.(string)
		}
		if !ok {
			return v
		}
		lines = append(lines, text)
	}
	switch text := strings.Join(lines, "\n"); {
	case !isList:
		return v
	case len(members) <= 1:
		return text
	default:
		members["content"] = text
		return members
	}
}

// values compares two decoded values by their members. Neither the order of members nor the spelling of numbers is a difference.
func (d *differ) values(p *Pair, f *field, a, b any) {
	changes := valueChanges(nil, f.path, a, b, 0)
	if len(changes) > maxChanges {
		changes = []valueChange{{f.path, a, b}}
	}
	for _, c := range changes {
		x, isTextA := c.a.(string)
		y, isTextB := c.b.(string)
		change := Change{Path: c.path}
		before, after := marshal(c.a), marshal(c.b)
		switch size := max(len(before), len(after)); {
		case isTextA && isTextB && (size >= longValue || f.kind == ofResult || strings.Contains(x+y, "\n")):
			change.Text = d.text(x, y)
		case size > longJSON:
			change.Text = d.text(indented(c.a), indented(c.b))
		default:
			change.Before, change.After = session.RawJSON(before), session.RawJSON(after)
		}
		d.change(p, f, change)
	}
}

// indented returns a value over several lines, a string as its text.
func indented(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	if v == (any)(none{}) {
		return ""
	}
	b, _ := json.MarshalIndent(v, "", "  ")
	return string(b)
}

// valueChange is a value that differs from another one.
type valueChange struct {
	path string
	a, b any
}

// valueChanges appends what differs between a and b.
func valueChanges(list []valueChange, path string, a, b any, depth int) []valueChange {
	if len(list) > maxChanges {
		return list
	}
	differs := true
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if b == (any)(none{}) && depth == 0 { // members of a new object are reported one by one
			y, ok = map[string]any{}, true
		}
		if ok && depth < maxDepth {
			return memberChanges(list, path, x, y, depth)
		}
	case []any:
		if y, ok := b.([]any); ok && depth < maxDepth {
			return elementChanges(list, path, x, y, depth)
		}
	case json.Number:
		y, ok := b.(json.Number)
		differs = !ok || plainNumber(string(x)) != plainNumber(string(y))
	case none:
		if y, ok := b.(map[string]any); ok && depth == 0 {
			return memberChanges(list, path, nil, y, depth)
		}
		differs = b != (any)(none{})
	default: // string, bool, nil
		switch b.(type) {
		case map[string]any, []any:
		default:
			differs = a != b
		}
	}
	if differs && depth == maxDepth {
		differs = marshal(plain(a)) != marshal(plain(b))
	}
	if differs {
		list = append(list, valueChange{path, a, b})
	}
	return list
}

func memberChanges(list []valueChange, path string, a, b map[string]any, depth int) []valueChange {
	names := map[string]bool{}
	for _, m := range []map[string]any{a, b} {
		for name := range m {
			names[name] = true
		}
	}
	get := func(m map[string]any, name string) any {
		if v, ok := m[name]; ok {
			return v
		}
		return none{}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = valueChanges(list, path+"."+name, get(a, name), get(b, name), depth+1)
	}
	return list
}

func elementChanges(list []valueChange, path string, a, b []any, depth int) []valueChange {
	if x, y := byName(a), byName(b); x != nil && y != nil {
		return memberChanges(list, path, x, y, depth)
	}
	compare := func(i int, was, is any) {
		list = valueChanges(list, path+"["+strconv.Itoa(i)+"]", was, is, depth+1)
	}
	if len(a) == len(b) {
		for i := range a {
			compare(i, a[i], b[i])
		}
		return list
	}
	for _, e := range edits(spelled(a), spelled(b)) { // what was put in or taken out moves the rest
		for i, j := e.Start, e.ReplStart; i < e.End || j < e.ReplEnd; i, j = i+1, j+1 {
			switch {
			case i >= e.End:
				compare(j, none{}, b[j])
			case j >= e.ReplEnd:
				compare(i, a[i], none{})
			default:
				compare(min(i, j), a[i], b[j])
			}
		}
	}
	return list
}

// byName returns elements by their names, as catalogues of tools have them: name, or function.name in the spelling of OpenAI. It is nil where
// not every element has a name of its own.
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

func spelled(l []any) (out []string) {
	for _, v := range l {
		out = append(out, marshal(plain(v)))
	}
	return out
}
