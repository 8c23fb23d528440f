package diff

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
)

const (
	// maxChanges bounds the changes reported of one value; a value with more is reported as one change.
	maxChanges = 64
	// maxDepth bounds how deep members have paths of their own.
	maxDepth = 16
	// maxValue is the length in bytes up to which a value is reported as such.
	maxValue = 1 << 10
	// longValue is the length in bytes from which a string is compared as a text.
	longValue = 60
)

// decode reads a JSON value. Numbers keep their spelling, and null is null; nil stands for a value that is not there.
func decode(raw string, there bool) (v any, ok bool) {
	if !there || rawjson.Valid([]byte(raw), rawjson.MaxDepth) != nil {
		return nil, !there
	}
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	err := d.Decode(&v)
	return orNull(v), err == nil
}

var null = any(json.RawMessage("null"))

// marshal returns a decoded value as JSON, its members sorted; nothing for nil.
func marshal(v any) string {
	if v == nil {
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
var resultIDs = []string{
	"timestamp", "id", "toolCallId", "tool_call_id", "tool_use_id", "messageId", "childLoopId", "child_loop_id", "role",
	"toolName",
}

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

// values compares two decoded values by the paths of what they hold. Neither the order of members nor the spelling of
// numbers is a difference.
func (d *differ) values(p *Pair, f *field, a, b any) {
	x, y := map[string]any{}, map[string]any{}
	flatten(x, f.path, a)
	flatten(y, f.path, b)
	paths := slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y)))
	slices.Sort(paths)
	var changes []Change
	for _, path := range slices.Compact(paths) {
		if c, differs := d.leaf(f, path, x[path], y[path]); differs && len(changes) <= maxChanges {
			changes = append(changes, c)
		}
	}
	if len(changes) > maxChanges || len(changes) == 0 && marshal(plain(a)) != marshal(plain(b)) {
		changes = []Change{{Path: f.path, Text: d.text(indented(a), indented(b))}}
	}
	for _, c := range changes {
		d.change(p, f, c)
	}
}

// leaf compares two values of one path; nil is none.
func (d *differ) leaf(f *field, path string, a, b any) (c Change, differs bool) {
	before, after := marshal(a), marshal(b)
	if before == after || marshal(plain(a)) == marshal(plain(b)) {
		return c, false
	}
	x, isTextA := a.(string)
	y, isTextB := b.(string)
	isText := (isTextA || a == nil) && (isTextB || b == nil)
	long := max(len(before), len(after)) >= longValue || strings.Contains(x+y, "\n")
	if isText && (long || f.kind == ofResult) {
		return Change{Path: path, Text: d.text(x, y)}, true
	}
	if max(len(before), len(after)) > maxValue { // such as a deep one
		return Change{Path: path, Text: d.text(before, after)}, true
	}
	return Change{Path: path, Before: session.RawJSON(before), After: session.RawJSON(after), Unit: f.unit}, true
}

// flatten adds what a decoded value holds: strings, numbers, bools, nulls, and arrays and objects that are empty or
// deep. Elements that have names, as tools have, stand under these.
func flatten(out map[string]any, path string, v any) {
	members, _ := v.(map[string]any)
	list, _ := v.([]any)
	if named := byName(list); len(named) > 0 {
		members, list = named, nil
	}
	switch {
	case len(members)+len(list) > 0 && strings.Count(path, ".")+strings.Count(path, "[") < maxDepth:
		for name, e := range members {
			flatten(out, path+"."+name, orNull(e))
		}
		for i, e := range list {
			flatten(out, path+"["+strconv.Itoa(i)+"]", orNull(e))
		}
	case v != nil:
		out[path] = v
	}
}

func orNull(v any) any {
	if v == nil {
		return null
	}
	return v
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
	if v == nil {
		return ""
	}
	b, _ := json.MarshalIndent(v, "", "  ")
	return string(b)
}
