package writer

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// node is a JSON value that grows as the events of a stream come.
type node struct {
	kind     byte           // how the value grows; 0: it does not, it is raw
	text     []byte         // of 0 the value, empty for none; of a string all pieces, without quotes
	children []child        // of an object or array, in the order in which they came
	places   map[string]int // of children by key, or by index
	next     int64          // behind the highest index
}

// The ways in which a value grows.
const (
	growsObject = '{'
	growsArray  = '['
	growsString = '"'
	growsJSON   = 'j' // JSON text that comes as strings
)

type child struct {
	key   string
	index int64
	*node
}

// set makes value the value of n.
func (n *node) set(value []byte) { *n = node{text: value} }

// open makes n an object or an array; one that it is already keeps its children.
func (n *node) open(kind byte) {
	if n.kind == kind {
		return
	}
	value := n.text
	isValue := n.kind == 0 && len(value) > 0 && value[0] == kind
	*n = node{kind: kind, places: make(map[string]int)}
	switch {
	case !isValue:
	case kind == growsObject:
		for key, v := range object.Of("", value).All() {
			n.member(key).set(v)
		}
	default:
		for v := range array(value) {
			n.push(v)
		}
	}
}

func (n *node) child(key string, index int64) *node {
	at, ok := n.places[key]
	if !ok {
		at = len(n.children)
		n.places[key] = at
		n.children = append(n.children, child{key, index, new(node)})
	}
	return n.children[at].node
}

// has reports whether an object has a member.
func (n *node) has(key string) bool {
	_, ok := n.places[key]
	return ok
}

// member returns a member of n, which is an object from then on.
func (n *node) member(key string) *node {
	n.open(growsObject)
	return n.child(key, 0)
}

// item returns the element of n with that index, which need not be its place. From then on n is an array.
func (n *node) item(index int64) *node {
	n.open(growsArray)
	n.next = max(n.next, index+1)
	return n.child(strconv.FormatInt(index, 10), index)
}

// push adds an element to n, which is an array from then on.
func (n *node) push(value []byte) {
	n.open(growsArray)
	n.item(n.next).set(value)
}

// last returns the last element of an array as an object; nil when there is none.
func (n *node) last() *node {
	if len(n.children) == 0 {
		return nil
	}
	m := n.children[len(n.children)-1].node
	if m.kind == 0 && m.text[0] != '{' {
		return nil
	}
	m.open(growsObject)
	return m
}

// join continues a string, or the JSON text in one. What is no string is the value.
func (n *node) join(value []byte, kind byte) {
	if value[0] != '"' {
		n.set(value)
		return
	}
	if n.kind != kind {
		before := n.text
		if *n = (node{kind: kind}); kind == growsString && len(before) > 0 && before[0] == '"' {
			n.text = bytes.Clone(before[1 : len(before)-1])
		}
	}
	n.text = append(n.text, value[1:len(value)-1]...)
}

// merge takes a delta of a value: strings continue, objects and arrays are merged member by member and by the index
// of their elements, and any other value replaces what there was. Names do not continue: servers repeat them.
func (n *node) merge(key string, value []byte) {
	none := n.kind == 0 && len(n.text) == 0
	switch {
	case value[0] == 'n':
		if none {
			n.set(value)
		}
	case value[0] == '"' && (key == "id" || key == "type" || key == "role" || key == "name"):
		if none || string(value) != `""` {
			n.set(value)
		}
	case value[0] == '"':
		n.join(value, growsString)
	case value[0] == '{':
		n.open(growsObject)
		for k, v := range object.Of("", value).All() {
			n.member(k).merge(k, v)
		}
	case value[0] == '[':
		n.open(growsArray)
		for v := range array(value) {
			o := object.Of("", v)
			at := o.Count("index")
			if at == nil {
				n.push(v)
				continue
			}
			item := n.item(*at)
			for k, v := range o.All() {
				if k != "index" {
					item.member(k).merge(k, v)
				}
			}
		}
	default:
		n.set(value)
	}
}

// append appends the JSON of n.
func (n *node) append(dst []byte) []byte {
	switch n.kind {
	case growsString:
		return append(append(append(dst, '"'), n.text...), '"')
	case growsJSON:
		quoted := append(append([]byte{'"'}, n.text...), '"')
		inner := bytes.TrimSpace(rawjson.AppendString(nil, quoted))
		switch {
		case len(inner) == 0:
			return append(dst, "{}"...)
		case rawjson.Valid(inner, rawjson.MaxDepth) == nil:
			return append(dst, inner...)
		}
		return append(dst, quoted...)
	case 0:
		return append(dst, cmp.Or(string(n.text), "null")...)
	}
	slices.SortStableFunc(n.children, func(a, b child) int { return cmp.Compare(a.index, b.index) })
	dst = append(dst, n.kind)
	for i, m := range n.children {
		if i > 0 {
			dst = append(dst, ',')
		}
		if n.kind == growsObject {
			dst = append(rawjson.Quote(dst, m.key), ':')
		}
		dst = m.append(dst)
	}
	return append(dst, n.kind+2)
}
