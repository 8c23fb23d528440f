package writer

import (
	"bytes"
	"maps"
	"slices"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// A node is a JSON value that may grow as the events of a stream come: a []byte as it is spelled until it does, then a
// *dict, *items or *text. Nil is no value yet.
type node any

// dict is an object.
type dict struct {
	keys    []string // in the order in which they came
	members map[string]node
}

// items is an array, whose elements come in any order of their indexes.
type items struct {
	elements map[int64]node
	next     int64 // behind the highest index
}

// text is a string.
type text struct {
	pieces []byte // as they are spelled, without quotes
	isJSON bool   // they spell a JSON value
}

func (d *dict) set(key string, n node) {
	if d.members == nil {
		d.members = make(map[string]node)
	}
	if d.members[key] == nil {
		d.keys = append(d.keys, key)
	}
	d.members[key] = n
}

// keep sets a member to a copy of value. Where it is that value already, as in most events, it does nothing.
func (d *dict) keep(key, value []byte) {
	if before, ok := d.members[string(key)].([]byte); !ok || !bytes.Equal(before, value) {
		d.set(string(key), bytes.Clone(value))
	}
}

func (l *items) set(index int64, n node) {
	if l.elements == nil {
		l.elements = make(map[int64]node)
	}
	l.elements[index], l.next = n, max(l.next, index+1)
}

// dictOf returns n as an object; an empty one where n is something else.
func dictOf(n node) *dict {
	d, ok := n.(*dict)
	if !ok {
		d = new(dict)
		raw, _ := n.([]byte)
		for key, value := range object.Of("", raw).All() {
			d.set(key, value)
		}
	}
	return d
}

// dict returns a member of d, which is an object from then on.
func (d *dict) dict(key string) *dict {
	in := dictOf(d.members[key])
	d.set(key, in)
	return in
}

// dict returns the element of l with that index, which is an object from then on.
func (l *items) dict(index int64) *dict {
	in := dictOf(l.elements[index])
	l.set(index, in)
	return in
}

// list returns a member of d, which is an array from then on.
func (d *dict) list(key string) *items {
	l, ok := d.members[key].(*items)
	if !ok {
		l = new(items)
		raw, _ := d.members[key].([]byte)
		for value := range array(raw) {
			l.set(l.next, value)
		}
		d.set(key, l)
	}
	return l
}

// setAll sets the members of d to those of o, but for the ones that are null and those under other.
func (d *dict) setAll(o *object.Object, other ...string) {
	for key, value := range o.Members() {
		if value[0] != 'n' && !slices.Contains(other, string(key)) {
			d.keep(key, value)
		}
	}
}

// merge takes deltas of the members of o, but for those under other: strings continue, objects and arrays are merged
// member by member and by the index of their elements, and any other value replaces what there was. Names do not
// continue: servers repeat them.
func (d *dict) merge(o *object.Object, other ...string) {
	for key, value := range o.Members() {
		before := d.members[string(key)]
		isName := string(key) == "id" || string(key) == "type" || string(key) == "role" || string(key) == "name"
		switch t, _ := before.(*text); {
		case slices.Contains(other, string(key)):
		case before != nil && (value[0] == 'n' || isName && string(value) == `""`):
		case value[0] == '"' && t != nil && !t.isJSON && !isName:
			t.add(value)
		case value[0] == '"' && !isName:
			d.join(string(key), value, false)
		case value[0] == '{':
			d.dict(string(key)).merge(object.Of("", value))
		case value[0] == '[':
			l := d.list(string(key))
			for v := range array(value) {
				o := object.Of("", v)
				if at := o.Count("index"); at != nil {
					l.dict(*at).merge(o, "index")
				} else {
					l.set(l.next, bytes.Clone(v))
				}
			}
		default:
			d.keep(key, value)
		}
	}
}

// join continues a string, or the JSON value that strings spell. What is no string is the value.
func (d *dict) join(key string, value []byte, isJSON bool) {
	if value[0] != '"' {
		d.set(key, bytes.Clone(value))
		return
	}
	t, ok := d.members[key].(*text)
	if !ok || t.isJSON != isJSON {
		t = &text{isJSON: isJSON}
		if before, _ := d.members[key].([]byte); !isJSON && len(before) > 0 && before[0] == '"' {
			t.pieces = bytes.Clone(before[1 : len(before)-1])
		}
		d.set(key, t)
	}
	t.add(value)
}

// add continues t with a string.
func (t *text) add(value []byte) { t.pieces = append(t.pieces, value[1:len(value)-1]...) }

// appendNode appends the JSON of n.
func appendNode(dst []byte, n node) []byte {
	switch n := n.(type) {
	case []byte:
		return append(dst, n...)
	case *dict:
		dst = append(dst, '{')
		for _, key := range n.keys {
			dst = append(appendNode(append(rawjson.Quote(dst, key), ':'), n.members[key]), ',')
		}
		return append(bytes.TrimSuffix(dst, []byte{','}), '}')
	case *items:
		dst = append(dst, '[')
		for _, index := range slices.Sorted(maps.Keys(n.elements)) {
			dst = append(appendNode(dst, n.elements[index]), ',')
		}
		return append(bytes.TrimSuffix(dst, []byte{','}), ']')
	}
	t := n.(*text)
	quoted := append(append([]byte{'"'}, t.pieces...), '"')
	if !t.isJSON {
		return append(dst, quoted...)
	}
	inner := bytes.TrimSpace(rawjson.AppendString(nil, quoted))
	switch {
	case len(inner) == 0:
		return append(dst, "{}"...)
	case rawjson.Valid(inner, rawjson.MaxDepth) == nil:
		return append(dst, inner...)
	}
	return append(dst, quoted...)
}
