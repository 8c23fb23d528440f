package ndjson

import (
	"bytes"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// AppendEvent appends ev as one line, without its end, to dst. The order of keys is fixed; a key whose absence means
// the same is left out. A Decoder without settings reads the same event from the line, with these exceptions:
//   - Meta.Arrived and empty slices where nil means the same are not written;
//   - text that is not UTF-8 gets U+FFFD;
//   - a cost or temperature that is not finite is left out;
//   - a provenance that is not JSON becomes a string;
//   - times before 1678 or after 2261 and negative counts are written, and rejected when they are read.
//
// Content that is JSON on one line, without blanks around it and nested no deeper than 200, is written as it is. Any
// other content is written as a string under KEY_text, byte for byte. A nil event appends nothing.
func AppendEvent(dst []byte, ev event.Event) []byte {
	v := reflect.ValueOf(ev)
	if !v.IsValid() || v.IsNil() {
		return dst
	}
	shape := shapeOf[v.Elem().Type()]
	w := writer{append(append(append(dst, `{"type":"`+input.OwnPrefix...), shape.name...), '"')}
	w.members(shape.fields, v.Elem())
	return append(w.dst, '}')
}

// writer appends the fields of a shape as members of an object.
type writer struct{ dst []byte }

func (w *writer) key(key string) {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(append(append(w.dst, '"'), key...), '"', ':')
}

// members appends the fields of v that say more than their absence.
func (w *writer) members(fields []field, v reflect.Value) {
	for i := range fields {
		f := &fields[i]
		at := v.FieldByIndex(f.at)
		if f.origins {
			if w.origins(f.key, v.Addr().Interface().(*event.RequestPrepared)) {
				return
			}
			continue
		}
		absent := f.absence(v)
		isAbsent := at.IsZero()
		switch p := at.Addr().Interface().(type) {
		case *time.Time:
			isAbsent = p.IsZero()
		case **float64: // JSON does not have all numbers
			isAbsent = *p == nil || math.IsNaN(**p) || math.IsInf(**p, 0)
		}
		if absent.IsValid() {
			isAbsent = reflect.DeepEqual(at.Interface(), absent.Interface())
		}
		switch content, isContent := at.Addr().Interface().(*[]byte); {
		case isContent:
			w.content(f, *content)
		case isAbsent:
		case at.Kind() == reflect.Pointer && at.IsNil(): // and the absent key means a number
			w.key(f.key)
			w.dst = append(w.dst, "null"...)
		default:
			w.key(f.key)
			w.value(at)
		}
	}
}

// oneLine reports whether content can be a part of a line as it is.
func oneLine(raw []byte) bool {
	if len(raw) == 0 || raw[0] <= ' ' || raw[len(raw)-1] <= ' ' || bytes.ContainsAny(raw, "\r\n") {
		return false
	}
	return rawjson.Valid(raw, rawjson.MaxDepth) == nil
}

func (w *writer) content(f *field, raw []byte) {
	switch {
	case len(raw) == 0:
	case oneLine(raw) && (f.nullable || string(raw) != "null"):
		w.key(f.key)
		w.dst = append(w.dst, raw...)
	default:
		w.key(f.text)
		w.dst = rawjson.Quote(w.dst, string(raw))
	}
}

func (w *writer) value(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		w.dst = append(p.UTC().AppendFormat(append(w.dst, '"'), time.RFC3339Nano), '"')
		return
	case *event.Moment:
		if p.Source == "" && p.Seq == 0 {
			w.value(reflect.ValueOf(&p.Time).Elem())
			return
		}
	case *event.Message: // alone where it says by itself all that is known of it
		if oneLine(p.Raw) {
			plain, ok := plainMessage(p.Raw)
			if plain.Time.Equal(p.Time) {
				plain.Time = p.Time
			}
			if ok && reflect.DeepEqual(plain, *p) {
				w.dst = append(w.dst, p.Raw...)
				return
			}
		}
	case *spans.Provenance:
		if p.Raw != "" && !oneLine([]byte(p.Raw)) {
			w.dst = rawjson.Quote(w.dst, p.Raw)
			return
		}
		w.dst = p.AppendJSON(w.dst)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.value(v.Elem())
	case reflect.String:
		w.dst = rawjson.Quote(w.dst, v.String())
	case reflect.Bool:
		w.dst = strconv.AppendBool(w.dst, v.Bool())
	case reflect.Int, reflect.Int64:
		w.dst = strconv.AppendInt(w.dst, v.Int(), 10)
	case reflect.Float64:
		w.dst = strconv.AppendFloat(w.dst, v.Float(), 'g', -1, 64)
	case reflect.Slice:
		w.dst = append(w.dst, '[')
		for i := range v.Len() {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			w.value(v.Index(i))
		}
		w.dst = append(w.dst, ']')
	default:
		w.dst = append(w.dst, '{')
		if m, isMessage := v.Addr().Interface().(*event.Message); isMessage && len(m.Raw) == 0 {
			w.key("raw")
			w.dst = append(w.dst, "null"...)
		}
		w.members(shapeOf[v.Type()].fields, v)
		w.dst = append(w.dst, '}')
	}
}

// origins writes the provenances alone of a request of which all else is what its payload says. It reports whether it
// did.
func (w *writer) origins(key string, p *event.RequestPrepared) bool {
	if p.Payload == nil {
		return false
	}
	says, _ := event.ParseRequest(p.Payload) // what cannot be read is kept as it is spelled
	if len(says.Messages) != len(p.Messages) {
		return false
	}
	says.At, says.Attempt = p.At, p.Attempt
	list := make([]spans.Provenance, len(p.Messages))
	for i := range list {
		list[i] = p.Messages[i].Provenance
		says.Messages[i].Provenance = list[i]
	}
	if !reflect.DeepEqual(says, p.Request) {
		return false
	}
	w.key(key)
	w.value(reflect.ValueOf(&list).Elem())
	return true
}
