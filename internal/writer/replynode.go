package writer

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// node is a JSON value that may grow as the events of a stream come. The zero node is no value yet.
type node struct {
	raw  []byte // as it is spelled, until it grows
	kind byte   // what it grows as, one of the values below; 0 before

	keys    []string         // of the members of an object, or indexes of an array, in the order in which they came
	members map[string]*node // by these
	next    int64            // after the highest index
	text    []byte           // the pieces of a string as they are spelled, without quotes
}

// The kinds of nodes that grow.
const (
	growsObject = '{'
	growsArray  = '['
	growsString = '"'
	growsJSON   = 'j' // strings that spell a JSON value
)

func (n *node) empty() bool { return n.raw == nil && n.kind == 0 }

// put makes n a copy of the value that is spelled raw. Where it is that already, as in most events, it does nothing.
func (n *node) put(raw []byte) {
	if n.kind != 0 || !bytes.Equal(n.raw, raw) {
		*n = node{raw: bytes.Clone(raw)}
	}
}

// grow makes n a node of that kind, with what it has if it is one.
func (n *node) grow(kind byte) {
	if n.kind == kind {
		return
	}
	before := n.raw
	*n = node{kind: kind}
	switch {
	case kind == growsObject:
		for key, value := range object.Of("", before).Members() {
			n.member(key).raw = value
		}
	case kind == growsArray:
		for value := range array(before) {
			n.element(n.next).raw = value
		}
	case kind == growsString && len(before) > 0 && before[0] == '"':
		n.text = append(n.text, before[1:len(before)-1]...)
	}
}

// member is child for a key as it is read.
func (n *node) member(key []byte) *node {
	if n.kind == growsObject && n.members[string(key)] != nil {
		return n.members[string(key)]
	}
	return n.child(string(key))
}

// child returns the member of n with that key; n is an object from then on.
func (n *node) child(key string) *node { return n.at(growsObject, key) }

// element returns the element of n with that index, which is not negative; n is an array from then on.
func (n *node) element(index int64) *node {
	c := n.at(growsArray, strconv.FormatInt(index, 10))
	n.next = max(n.next, index+1)
	return c
}

func (n *node) at(kind byte, key string) *node {
	n.grow(kind)
	c := n.members[key]
	if c == nil {
		if n.members == nil {
			n.members = make(map[string]*node)
		}
		c = new(node)
		n.keys, n.members[key] = append(n.keys, key), c
	}
	return c
}

// setAll sets the members of n to those of o, but for the ones that are null and those under other.
func (n *node) setAll(o *object.Object, other ...string) {
	n.grow(growsObject)
	for key, value := range o.Members() {
		if value[0] != 'n' && !slices.Contains(other, string(key)) {
			n.member(key).put(value)
		}
	}
}

// merge takes deltas of the members of o, but for those under other: strings continue, objects and arrays are merged
// member by member and by the index of their elements, and any other value replaces what there was. Names do not
// continue: servers repeat them.
func (n *node) merge(o *object.Object, other ...string) {
	n.grow(growsObject)
	for key, value := range o.Members() {
		if slices.Contains(other, string(key)) {
			continue
		}
		c := n.member(key)
		isName := string(key) == "id" || string(key) == "type" || string(key) == "role" || string(key) == "name"
		switch {
		case !c.empty() && (value[0] == 'n' || isName && string(value) == `""`):
		case value[0] == '"' && !isName:
			c.join(value, growsString)
		case value[0] == '{':
			c.merge(object.Of("", value))
		case value[0] == '[':
			c.grow(growsArray)
			for v := range array(value) {
				o := object.Of("", v)
				if at := o.Count("index"); at != nil {
					c.element(*at).merge(o, "index")
				} else {
					c.element(c.next).put(v)
				}
			}
		default:
			c.put(value)
		}
	}
}

// join continues a string, or the JSON value that strings spell. What is no string is the value.
func (n *node) join(value []byte, kind byte) {
	if value[0] != '"' {
		n.put(value)
		return
	}
	n.grow(kind)
	n.text = append(n.text, value[1:len(value)-1]...)
}

// appendTo appends the JSON of n.
func (n *node) appendTo(dst []byte) []byte {
	switch n.kind {
	case 0:
		return append(dst, n.raw...)
	case growsArray:
		slices.SortFunc(n.keys, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		fallthrough
	case growsObject:
		start := len(dst)
		for _, key := range n.keys {
			if c := n.members[key]; !c.empty() {
				if dst = append(dst, ','); n.kind == growsObject {
					dst = append(rawjson.Quote(dst, key), ':')
				}
				dst = c.appendTo(dst)
			}
		}
		return rawjson.Enclose(dst, start, string([]byte{n.kind, n.kind + 2})) // as ASCII has them
	}
	quoted := append(append([]byte{'"'}, n.text...), '"')
	if n.kind == growsString {
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
