package input

import (
	"bytes"
	"errors"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Outline is the beginning of an input, or of a line, as far as dialects recognise it by: which members its first JSON
// value has, and those inside, as far as they are there.
type Outline struct {
	// Cut says that the text ends before its first value does.
	Cut bool
	// members holds, by path, the first byte of a value, and of a complete string its text after that.
	members map[string]string
}

// outlineDepth is how many levels of arrays and objects an Outline has, maxOutline how many members, and how long a
// path may be.
const (
	outlineDepth = 4
	maxOutline   = 4096
)

// OutlineOf returns the outline of text, which may be cut anywhere. The path of a member is its keys joined by dots. []
// is the first element of an array.
func OutlineOf(text []byte) Outline {
	o := Outline{members: map[string]string{}}
	c := rawjson.NewCursor(bytes.TrimPrefix(text, []byte(byteOrderMark)), object.MaxDepth)
	o.read(c, "", outlineDepth)
	c.Value()
	var syntax *rawjson.SyntaxError
	o.Cut = errors.As(c.Err(), &syntax) && syntax.Cut || bytes.HasPrefix([]byte(byteOrderMark), text)
	return o
}

func (o *Outline) read(c rawjson.Cursor, path string, depth int) {
	first := c.Peek()
	if first == 0 {
		return
	}
	o.members[path] = string(first)
	switch {
	case first == '"':
		text, _ := rawjson.String(c.Value())
		o.members[path] += text
	case first == '[' && depth > 0 && c.Open('[') && c.More(']'):
		o.read(c, path+"[]", depth-1)
	case first == '{' && depth > 0:
		for c.Open('{'); c.More('}'); c.Value() {
			if key := c.Key(); len(o.members) < maxOutline && len(path)+len(key) < maxOutline {
				o.read(c, object.Join(path, string(key)), depth-1)
			}
		}
	}
}

// Has reports whether one of the keys is a member of the object at a path. The path of the whole is empty.
func (o Outline) Has(path string, keys ...string) bool {
	for _, key := range keys {
		if o.First(path, key) != 0 {
			return true
		}
	}
	return false
}

// First returns the first byte of a member of the object at a path; 0 without one.
func (o Outline) First(path, key string) byte {
	if value := o.members[object.Join(path, key)]; value != "" {
		return value[0]
	}
	return 0
}

// Text returns a member that is a complete string; empty for any other.
func (o Outline) Text(path, key string) string {
	if o.First(path, key) != '"' {
		return ""
	}
	return o.members[object.Join(path, key)][1:]
}
