package session

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

const (
	// maxValueChanges bounds the changes that are told of one value. What is beyond is told as a change of the whole.
	maxValueChanges = 64
	// longValue is the length in bytes from which strings are compared as texts.
	longValue = 60
	// maxValue bounds a value that is told whole.
	maxValue = 1 << 10
)

// valueDiff compares JSON values by their members: neither the order of members nor how a number is spelled is a difference.
type valueDiff struct {
	text    func(name, before, after string) TextDiff
	changes []ValueChange
}

// diffValues compares two values, either of which may be empty for none. It reports false when one of them is no JSON.
func diffValues(path, before, after string, text func(name, before, after string) TextDiff) ([]ValueChange, bool) {
	for _, raw := range []string{before, after} {
		if raw != "" && rawjson.Valid([]byte(raw), rawjson.MaxDepth) != nil {
			return nil, false
		}
	}
	d := valueDiff{text: text}
	d.value(path, strings.TrimSpace(before), strings.TrimSpace(after), 0)
	if len(d.changes) > maxValueChanges {
		d.changes = nil
		d.change(path, before, after)
	}
	return d.changes, true
}

// depthOfValues bounds how deep members are told apart.
const depthOfValues = 16

func (d *valueDiff) value(path, before, after string, depth int) {
	if before == after || len(d.changes) > maxValueChanges {
		return
	}
	if before == "" || after == "" || depth == depthOfValues {
		if depth < depthOfValues || canonical(before) != canonical(after) {
			d.change(path, before, after)
		}
		return
	}
	switch kind := before[0]; {
	case kind == '{' && after[0] == '{':
		d.object(path, before, after, depth)
	case kind == '[' && after[0] == '[':
		d.array(path, before, after, depth)
	case kind == '"' && after[0] == '"':
		x, _ := rawjson.String([]byte(before))
		y, _ := rawjson.String([]byte(after))
		if x == y {
			return
		}
		if max(len(x), len(y)) >= longValue || strings.Contains(x, "\n") || strings.Contains(y, "\n") {
			t := d.text("", x, y)
			d.changes = append(d.changes, ValueChange{Path: path, Text: &t})
			return
		}
		d.change(path, before, after)
	case isNumber(kind) && isNumber(after[0]):
		if plainNumber(before) != plainNumber(after) {
			d.change(path, before, after)
		}
	default:
		d.change(path, before, after)
	}
}

// change tells a value whole, a long one as text.
func (d *valueDiff) change(path, before, after string) {
	if max(len(before), len(after)) > maxValue {
		show := func(raw string) string {
			if raw == "" {
				return ""
			}
			return indented([]byte(raw))
		}
		t := d.text("", show(before), show(after))
		d.changes = append(d.changes, ValueChange{Path: path, Text: &t})
		return
	}
	d.changes = append(d.changes, ValueChange{Path: path, Before: RawJSON(before), After: RawJSON(after)})
}

func (d *valueDiff) object(path, before, after string, depth int) {
	x, y := objectMembers(before), objectMembers(after)
	in := path
	if in != "" {
		in += "."
	}
	names := map[string]bool{}
	for _, m := range x {
		names[m.name] = true
	}
	for _, m := range y {
		names[m.name] = true
	}
	last := func(l []namedText) map[string]string { // of two members of one name the last counts
		m := make(map[string]string, len(l))
		for _, e := range l {
			m[e.name] = e.text
		}
		return m
	}
	was, is := last(x), last(y)
	sorted := make([]string, 0, len(names))
	for n := range names {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted) // turned round, it is the same
	for _, n := range sorted {
		d.value(in+n, was[n], is[n], depth+1)
	}
}

func (d *valueDiff) array(path, before, after string, depth int) {
	x, y := elements(before), elements(after)
	at := func(i int) string { return path + "[" + strconv.Itoa(i) + "]" }
	if len(x) == len(y) {
		for i := range x {
			d.value(at(i), x[i], y[i], depth+1)
		}
		return
	}
	// What was put in or taken out moves the rest.
	key := func(l []string) []string {
		out := make([]string, len(l))
		for i, raw := range l {
			out[i] = canonical(raw)
		}
		return out
	}
	for _, e := range diffStrings(key(x), key(y)) {
		for i := min(e.Start, e.ReplStart); i < max(e.End, e.ReplEnd); i++ {
			was, is := "", ""
			if i >= e.Start && i < e.End {
				was = x[i]
			}
			if i >= e.ReplStart && i < e.ReplEnd {
				is = y[i]
			}
			if was != "" || is != "" {
				d.value(at(i), was, is, depth+1)
			}
		}
	}
}

// objectMembers returns the members of a JSON object, which is valid.
func objectMembers(raw string) (l []namedText) {
	c := rawjson.NewCursor([]byte(raw), rawjson.MaxDepth)
	for c.Open('{'); c.More('}'); {
		name := string(c.Key())
		l = append(l, namedText{name, string(c.Value())})
	}
	return l
}

// elements returns those of a JSON array, which is valid.
func elements(raw string) (l []string) {
	c := rawjson.NewCursor([]byte(raw), rawjson.MaxDepth)
	for c.Open('['); c.More(']'); {
		l = append(l, string(c.Value()))
	}
	return l
}

// canonical returns one spelling of a JSON value: members sorted, no blanks, numbers as plainNumber has them, strings decoded and quoted
// again. Of what is no JSON it is the text.
func canonical(raw string) string {
	if rawjson.Valid([]byte(raw), rawjson.MaxDepth) != nil {
		return raw
	}
	return string(appendCanonicalValue(nil, strings.TrimSpace(raw), 0))
}

// appendCanonicalValue appends raw, from a depth on as it is spelled: each level costs a copy.
func appendCanonicalValue(dst []byte, raw string, depth int) []byte {
	if raw == "" || depth > 2*depthOfValues {
		return append(dst, raw...)
	}
	switch c := raw[0]; {
	case c == '{':
		l := objectMembers(raw)
		slices.SortStableFunc(l, func(a, b namedText) int { return strings.Compare(a.name, b.name) })
		dst = append(dst, '{')
		for i, m := range l {
			if i+1 < len(l) && l[i+1].name == m.name {
				continue // the last of one name counts
			}
			dst = rawjson.Quote(dst, m.name)
			dst = append(dst, ':')
			dst = appendCanonicalValue(dst, m.text, depth+1)
			dst = append(dst, ',')
		}
		return append(bytes.TrimSuffix(dst, comma), '}')
	case c == '[':
		dst = append(dst, '[')
		for _, e := range elements(raw) {
			dst = append(appendCanonicalValue(dst, e, depth+1), ',')
		}
		return append(bytes.TrimSuffix(dst, comma), ']')
	case c == '"':
		text, _ := rawjson.String([]byte(raw))
		return rawjson.Quote(dst, text)
	case isNumber(c):
		return append(dst, plainNumber(raw)...)
	}
	return append(dst, raw...)
}

var comma = []byte{','}

func isNumber(c byte) bool { return c == '-' || c >= '0' && c <= '9' }

// plainNumber returns one spelling of a JSON number: as people write it without needless zeros, or, where that would take many of them, its
// digits and the power of ten.
func plainNumber(raw string) string {
	digits, exponent, _ := strings.Cut(strings.ToLower(raw), "e")
	power, err := strconv.ParseInt(strings.TrimPrefix(exponent, "+"), 10, 32)
	if exponent != "" && err != nil {
		return raw // beyond what anybody means
	}
	digits, negative := strings.CutPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	power -= int64(len(fraction))
	digits = strings.TrimLeft(whole+fraction, "0")
	trimmed := strings.TrimRight(digits, "0")
	power += int64(len(digits) - len(trimmed))
	if trimmed == "" {
		return "0"
	}
	sign := ""
	if negative {
		sign = "-"
	}
	const most = 20 // zeros that are written
	switch point := int64(len(trimmed)) + power; {
	case power >= 0 && power <= most:
		return sign + trimmed + strings.Repeat("0", int(power))
	case power < 0 && point > 0:
		return sign + trimmed[:point] + "." + trimmed[point:]
	case power < 0 && point >= -most:
		return sign + "0." + strings.Repeat("0", int(-point)) + trimmed
	}
	return sign + trimmed + "e" + strconv.FormatInt(power, 10)
}
