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

// node is a JSON value that grows as the events of a stream come. The nil node stands for what has no room, and takes
// nothing.
type node struct {
	kind    nodeKind
	text    []byte // the value; of a string in pieces what stands between its quotes
	members []nodeMember
	items   []nodeItem
	over    bool // there was no room for a member or item
}

type nodeKind byte

const (
	nodeNone   nodeKind = iota
	nodeValue           // as it is spelled
	nodeString          // a string in pieces
	nodeJSON            // JSON text that comes as strings
	nodeObject
	nodeArray
)

type nodeMember struct {
	key   string
	value *node
}

type nodeItem struct {
	index int64
	value *node
}

// set makes value the value of n.
func (n *node) set(value []byte) {
	if n != nil {
		*n = node{kind: nodeValue, text: value}
	}
}

// open makes n an object or an array; one that it is already keeps what it has.
func (n *node) open(kind nodeKind, bracket byte) {
	if n.kind == kind {
		return
	}
	value := n.text
	isValue := n.kind == nodeValue && value[0] == bracket
	*n = node{kind: kind}
	switch {
	case !isValue:
	case kind == nodeObject:
		for key, v := range object.Of("", value).All() {
			n.member(key).set(v)
		}
	default:
		c := rawjson.NewCursor(value, object.MaxDepth)
		for c.Open('['); c.More(']'); {
			n.push(c.Value())
		}
	}
}

// find returns a member of an object; nil when there is none.
func (n *node) find(key string) *node {
	if n != nil {
		for i := range n.members {
			if n.members[i].key == key {
				return n.members[i].value
			}
		}
	}
	return nil
}

// member returns a member of n, which is an object from then on.
func (n *node) member(key string) *node {
	if n == nil {
		return nil
	}
	n.open(nodeObject, '{')
	if m := n.find(key); m != nil {
		return m
	}
	if len(n.members) == object.MaxMembers {
		n.over = true
		return nil
	}
	m := new(node)
	n.members = append(n.members, nodeMember{key, m})
	return m
}

// maxPieces bounds the elements of an array that come in pieces: each piece looks for its element.
const maxPieces = 1024

// item returns the element of n with that index, which need not be its place. From then on n is an array.
func (n *node) item(index int64) *node {
	if n == nil {
		return nil
	}
	n.open(nodeArray, '[')
	for i := len(n.items) - 1; i >= max(0, len(n.items)-maxPieces); i-- {
		if n.items[i].index == index {
			return n.items[i].value
		}
	}
	if len(n.items) >= maxPieces {
		n.over = true
		return nil
	}
	m := new(node)
	n.items = append(n.items, nodeItem{index, m})
	return m
}

// push adds an element to n, which is an array from then on.
func (n *node) push(value []byte) {
	if n == nil {
		return
	}
	n.open(nodeArray, '[')
	if len(n.items) == object.MaxElements {
		n.over = true
		return
	}
	n.items = append(n.items, nodeItem{int64(len(n.items)), &node{kind: nodeValue, text: value}})
}

// last returns the last element of an array as an object; nil when there is none.
func (n *node) last() *node {
	if n == nil || len(n.items) == 0 {
		return nil
	}
	m := n.items[len(n.items)-1].value
	if m.kind == nodeValue && m.text[0] != '{' {
		return nil
	}
	m.open(nodeObject, '{')
	return m
}

// join continues a string, or with nodeJSON the JSON text in one. What is no string is the value.
func (n *node) join(value []byte, kind nodeKind) {
	switch {
	case n == nil:
	case value[0] != '"':
		n.set(value)
	case n.kind == kind:
		n.text = append(n.text, value[1:len(value)-1]...)
	default:
		text := []byte{}
		if kind == nodeString && n.kind == nodeValue && n.text[0] == '"' {
			text = append(text, n.text[1:len(n.text)-1]...)
		}
		*n = node{kind: kind, text: append(text, value[1:len(value)-1]...)}
	}
}

// merge takes a delta of a value: strings continue, objects and arrays are merged member by member and by the index
// of their elements, and any other value replaces what there was. Names do not continue: servers repeat them.
func (n *node) merge(key string, value []byte) {
	switch {
	case n == nil:
	case value[0] == 'n':
		if n.kind == nodeNone {
			n.set(value)
		}
	case value[0] == '"' && (key == "id" || key == "type" || key == "role" || key == "name"):
		if n.kind == nodeNone || string(value) != `""` {
			n.set(value)
		}
	case value[0] == '"':
		n.join(value, nodeString)
	case value[0] == '{':
		n.open(nodeObject, '{')
		for k, v := range object.Of("", value).All() {
			n.member(k).merge(k, v)
		}
	case value[0] == '[':
		n.open(nodeArray, '[')
		n.mergeArray(value)
	default:
		n.set(value)
	}
}

func (n *node) mergeArray(array []byte) {
	c := rawjson.NewCursor(array, object.MaxDepth)
	for c.Open('['); c.More(']'); {
		value := c.Value()
		o := object.Of("", value)
		at := o.Count("index")
		if at == nil {
			n.push(value)
			continue
		}
		item := n.item(*at)
		for k, v := range o.All() {
			if k != "index" {
				item.member(k).merge(k, v)
			}
		}
	}
}

// full returns the path of a value in n that had no room for all of what came.
func (n *node) full(path string) (string, bool) {
	if n.over {
		return cmp.Or(path, "body"), true
	}
	for _, m := range n.members {
		if place, full := m.value.full(strings.TrimPrefix(path+"."+m.key, ".")); full {
			return place, full
		}
	}
	for _, it := range n.items {
		if place, full := it.value.full(path + "[" + strconv.FormatInt(it.index, 10) + "]"); full {
			return place, full
		}
	}
	return "", false
}

// append appends the JSON of n.
func (n *node) append(dst []byte) []byte {
	switch n.kind {
	case nodeNone:
		return append(dst, "null"...)
	case nodeValue:
		return append(dst, n.text...)
	case nodeString:
		return append(append(append(dst, '"'), n.text...), '"')
	case nodeJSON:
		quoted := append(append([]byte{'"'}, n.text...), '"')
		inner := bytes.TrimSpace(rawjson.AppendString(nil, quoted))
		switch {
		case len(inner) == 0:
			return append(dst, "{}"...)
		case rawjson.Valid(inner, rawjson.MaxDepth) == nil:
			return append(dst, inner...)
		}
		return append(dst, quoted...)
	case nodeArray:
		slices.SortStableFunc(n.items, func(a, b nodeItem) int { return cmp.Compare(a.index, b.index) })
		dst = append(dst, '[')
		for i, it := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = it.value.append(dst)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, m := range n.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.value.append(append(rawjson.Quote(dst, m.key), ':'))
	}
	return append(dst, '}')
}
