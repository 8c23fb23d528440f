package otelagent

import (
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// What is looked for in new bodies: values that were sent as part of others, such as the text of a tool's result in the message
// that reports it, or arguments in the reply that asked for the call.
const (
	valueLeast = 128 // bytes of a value that is worth it
	valuesMost = 32  // of one body
	valueDepth = 5   // message, content, part, arguments, member
	// Bodies over pieceBytes are sent in pieces, so that they fit into spans.
	pieceBytes = 512 << 10
)

// value is where a JSON value stands: in a block that was sent as a body.
type value struct {
	block    spans.ShortID
	from, to int64
}

// found is a value of a body: known is where it was sent before.
type found struct {
	from, to int
	key      memoKey
	known    value
	isKnown  bool
}

// valuesIn returns the large values in body in order, none within another; until the next call.
func (m *memory) valuesIn(body []byte) []found {
	if len(body) < valueLeast || len(body) > pieceBytes || body[0] != '{' && body[0] != '[' {
		return nil
	}
	m.found = m.found[:0]
	m.lookInto(body, 0, 0)
	return m.found
}

// lookInto adds the values in raw, an object or array that begins at from.
func (m *memory) lookInto(raw []byte, from, depth int) {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	if object := raw[0] == '{'; object && c.Open('{') {
		for c.More('}') {
			c.RawKey()
			m.lookAt(c.Value(), from+c.Pos(), depth+1)
		}
	} else if !object && c.Open('[') {
		for c.More(']') {
			m.lookAt(c.Value(), from+c.Pos(), depth+1)
		}
	}
}

// lookAt adds a value that ends at to, or those in it.
func (m *memory) lookAt(raw []byte, to, depth int) {
	if len(raw) < valueLeast || len(m.found) == valuesMost {
		return
	}
	f := found{from: to - len(raw), to: to, key: m.of.keyOf('v', raw, nil, "")}
	f.known, f.isKnown = m.values[f.key]
	n := len(m.found)
	if !f.isKnown && depth < valueDepth && (raw[0] == '{' || raw[0] == '[') {
		m.lookInto(raw, f.from, depth)
	}
	if n == len(m.found) { // the innermost are enough
		m.found = append(m.found, f)
	}
}

// recipe returns a recipe for body, if enough of it was sent before, and the values in body, until the next call.
func (m *memory) recipe(id spans.BlockID, body []byte) (string, []found) {
	list := m.valuesIn(body)
	r := spans.Recipe{ID: id, Size: int64(len(body))}
	at, saved := 0, 0
	for i := range list {
		f := &list[i]
		if !f.isKnown {
			continue
		}
		if f.from > at {
			r.Pieces = append(r.Pieces, spans.Piece{Text: string(body[at:f.from])})
		}
		r.Pieces = append(r.Pieces, spans.Piece{Block: f.known.block, From: f.known.from, To: f.known.to})
		at = f.to
		saved += f.to - f.from
	}
	if saved < valueLeast {
		return "", list
	}
	if at < len(body) {
		r.Pieces = append(r.Pieces, spans.Piece{Text: string(body[at:])})
	}
	return r.Encode(), list
}

// learn remembers where the values of a body stand.
func (m *memory) learn(id spans.BlockID, list []found) {
	for i := range list {
		f := &list[i]
		if _, known := m.values[f.key]; known {
			continue
		}
		if m.values == nil {
			m.values = make(map[memoKey]value)
		}
		m.values[f.key] = value{id.Short(), int64(f.from), int64(f.to)}
		m.count(1)
	}
}

// pieces cuts text into pieces of at most pieceBytes, between runes.
func pieces(text string) []string {
	list := make([]string, 0, len(text)/pieceBytes+1)
	for len(text) > pieceBytes {
		n := runeStart(text, pieceBytes)
		list = append(list, text[:n])
		text = text[n:]
	}
	return append(list, text)
}

// runeStart returns the last place up to n where text, which is UTF-8, may be cut.
func runeStart(text string, n int) int {
	if n >= len(text) {
		return len(text)
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
