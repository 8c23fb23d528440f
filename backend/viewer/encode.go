package viewer

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
)

// pieceBytes is about how much text encode makes at once.
const pieceBytes = 64 << 10

// encode writes v to w as a json.Encoder without EscapeHTML does, byte for byte, but in pieces: it stops where w takes no more. The Encoder
// itself makes all of the text before it writes any, and all of it again to indent it. What makes its own JSON, such as a list of blocks,
// is one piece.
func encode(w io.Writer, v any, indent string) error {
	return encodePieces(w, v, indent, pieceBytes)
}

func encodePieces(w io.Writer, v any, indent string, most int) error {
	e := &encoder{w: w, indent: indent, most: most}
	e.json = json.NewEncoder(&e.piece)
	e.json.SetEscapeHTML(false)
	if err := e.value(reflect.ValueOf(v), 0); err != nil {
		return err
	}
	return e.text("\n")
}

type encoder struct {
	w      io.Writer
	indent string
	most   int           // bytes of a piece, about
	json   *json.Encoder // into piece
	piece  bytes.Buffer
	spaced bytes.Buffer // piece, indented
}

// value writes v, which stands so deep in others. What is small is made at once; else the parts of it are written one by one.
func (e *encoder) value(v reflect.Value, depth int) error {
	if left := e.most; isNil(v) || makesItself(v) || small(v, &left) {
		return e.whole(v, depth)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return e.value(v.Elem(), depth)
	case reflect.String:
		return e.string(v.String())
	case reflect.Struct:
		fields, ok := fieldsOf(v.Type())
		if !ok {
			return e.whole(v, depth)
		}
		p := e.parts("{}", depth)
		for _, f := range fields {
			x := v.FieldByIndex(f.index)
			if f.omitEmpty && isEmpty(x) || f.omitZero && isZero(x) {
				continue
			}
			if err := p.item(f.name, x); err != nil {
				return err
			}
		}
		return p.end()
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return e.whole(v, depth)
		}
		p := e.parts("[]", depth)
		for i := range v.Len() {
			if err := p.item("", v.Index(i)); err != nil {
				return err
			}
		}
		return p.end()
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return e.whole(v, depth)
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		p := e.parts("{}", depth)
		for _, k := range keys {
			if err := p.item(k.String(), v.MapIndex(k)); err != nil {
				return err
			}
		}
		return p.end()
	default:
		return e.whole(v, depth)
	}
}

// parts is an array or object that is being written.
type parts struct {
	*encoder
	brackets string
	depth    int
	items    int
}

func (e *encoder) parts(brackets string, depth int) *parts { return &parts{e, brackets, depth, 0} }

// item writes one, of an object with its name.
func (p *parts) item(name string, v reflect.Value) error {
	before := ","
	if p.items++; p.items == 1 {
		before = p.brackets[:1]
	}
	if err := p.text(before + p.line(p.depth+1)); err != nil {
		return err
	}
	if p.brackets == "{}" {
		if err := p.string(name); err != nil {
			return err
		}
		colon := ":"
		if p.indent != "" {
			colon = ": "
		}
		if err := p.text(colon); err != nil {
			return err
		}
	}
	return p.value(v, p.depth+1)
}

func (p *parts) end() error {
	if p.items == 0 {
		return p.text(p.brackets)
	}
	return p.text(p.line(p.depth) + p.brackets[1:])
}

// line begins a new one where lines are wanted.
func (e *encoder) line(depth int) string {
	if e.indent == "" {
		return ""
	}
	return "\n" + strings.Repeat(e.indent, depth)
}

func (e *encoder) text(s string) error {
	_, err := io.WriteString(e.w, s)
	return err
}

// whole writes v as one piece.
func (e *encoder) whole(v reflect.Value, depth int) error {
	var x any
	switch {
	case !v.IsValid():
	case v.CanAddr():
		x = v.Addr().Interface() // methods of a pointer count
	default:
		x = v.Interface()
	}
	e.piece.Reset()
	if err := e.json.Encode(x); err != nil {
		return err
	}
	out := bytes.TrimSuffix(e.piece.Bytes(), []byte("\n"))
	if e.indent != "" {
		e.spaced.Reset()
		if err := json.Indent(&e.spaced, out, strings.Repeat(e.indent, depth), e.indent); err != nil {
			return err
		}
		out = e.spaced.Bytes()
	}
	_, err := e.w.Write(out)
	return err
}

// string writes a string, some of it at a time.
func (e *encoder) string(s string) error {
	if err := e.text(`"`); err != nil {
		return err
	}
	for len(s) > 0 {
		n := min(len(s), e.most)
		for end := n + utf8.UTFMax; n < min(end, len(s)) && !utf8.RuneStart(s[n]); { // no character is parted
			n++
		}
		e.piece.Reset()
		if err := e.json.Encode(s[:n]); err != nil {
			return err
		}
		if _, err := e.w.Write(e.piece.Bytes()[1 : e.piece.Len()-2]); err != nil { // without the quotes and the end of the line
			return err
		}
		s = s[n:]
	}
	return e.text(`"`)
}

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// isNil reports whether v is null in JSON.
func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return v.IsNil()
	default:
		return false
	}
}

// makesItself reports whether the JSON of v is made by a method of it.
func makesItself(v reflect.Value) bool {
	t := v.Type()
	if t.Kind() == reflect.Interface { // it is what is in it that is asked
		return false
	}
	if t.Implements(marshaler) || t.Implements(textMarshaler) {
		return true
	}
	if t = reflect.PointerTo(t); !v.CanAddr() {
		return false
	}
	return t.Implements(marshaler) || t.Implements(textMarshaler)
}

// small reports whether the text of v is about as long as what is left, or shorter, and takes it off. It looks at no more than that.
func small(v reflect.Value, left *int) bool {
	const each = 4 // what stands around a value
	*left -= each
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			break
		}
		if list, ok := v.Interface().(*session.Refs); ok {
			*left -= (list.Len() - int(list.Same)) * 16
			break
		}
		small(v.Elem(), left)
	case reflect.String:
		*left -= v.Len()
	case reflect.Struct:
		fields, _ := fieldsOf(v.Type())
		for _, f := range fields {
			x := v.FieldByIndex(f.index)
			if f.omitEmpty && isEmpty(x) {
				continue
			}
			*left -= len(f.name)
			if !small(x, left) {
				break
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			*left -= v.Len()
			break
		}
		for i := range v.Len() {
			if !small(v.Index(i), left) {
				break
			}
		}
	case reflect.Map:
		for at := v.MapRange(); at.Next(); {
			if !small(at.Key(), left) || !small(at.Value(), left) {
				break
			}
		}
	}
	return *left >= 0
}

// field is one of a struct, as its tag says.
type field struct {
	name                string
	index               []int
	omitEmpty, omitZero bool
}

var fieldsOfTypes sync.Map // of []field by reflect.Type

// fieldsOf returns what the JSON of a struct holds, in this order; false where encoding/json has rules for it that are not told here.
func fieldsOf(t reflect.Type) ([]field, bool) {
	if l, ok := fieldsOfTypes.Load(t); ok {
		l := l.([]field)
		return l, l != nil
	}
	out, seen := []field{}, map[string]bool{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if f.Anonymous {
			if name != "" || f.Type.Kind() != reflect.Struct || !f.IsExported() {
				out = nil
				break
			}
			continue // its fields are visible too
		}
		x := field{name: cmp.Or(name, f.Name), index: f.Index}
		for option := range strings.SplitSeq(options, ",") {
			x.omitEmpty = x.omitEmpty || option == "omitempty"
			x.omitZero = x.omitZero || option == "omitzero"
			seen[""] = seen[""] || option == "string"
		}
		if seen[x.name] || seen[""] {
			out = nil
			break
		}
		seen[x.name] = true
		out = append(out, x)
	}
	fieldsOfTypes.Store(t, out)
	return out, out != nil
}

// isEmpty is what omitempty means by that.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// isZero is what omitzero means by that.
func isZero(v reflect.Value) bool {
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		return z.IsZero()
	}
	return v.IsZero()
}
