package ndjson

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// asText follows the key of content that is a string because it is not JSON on one line.
const asText = "_text"

// reader reads the fields of a shape from the members of an object. Problems are noted in the object.
type reader struct {
	line *object.Object
	top  string          // the key of the line that is being read
	rule spans.UsageRule // of usage that names none
}

// members sets the fields of v. A field whose key is absent keeps what v holds, or has the value of another one.
func (r *reader) members(o *object.Object, fields []field, v reflect.Value) {
	twice := o.Twice()
	for i := range fields {
		f := &fields[i]
		if o == r.line {
			r.top = f.key
		}
		at, raw := v.FieldByIndex(f.at), o.Spelled(f.key)
		if f.likeAt != nil {
			at.Set(v.FieldByIndex(f.likeAt))
		}
		if slices.Contains(twice, f.key) {
			o.Fail(f.key, "stands there twice")
			continue
		}
		if p, isContent := at.Addr().Interface().(*[]byte); isContent {
			text := o.Spelled(f.text)
			if text != nil && (raw != nil || slices.Contains(twice, f.text)) {
				o.Fail(f.text, "stands there twice or with "+f.key+", want one of them")
			}
			if s := o.String(f.text); s != "" {
				*p = []byte(s)
			} else if raw != nil && (raw[0] != 'n' || f.nullable) {
				*p = raw
			}
			continue
		}
		switch {
		case raw == nil:
		case raw[0] == 'n':
			if at.Kind() == reflect.Pointer { // unknown; any other key that is null is absent
				at.SetZero()
			}
		case f.origins:
			r.origins(o, f.key, v.Addr().Interface().(*event.RequestPrepared))
		default:
			r.value(o, f.key, raw, at)
		}
	}
}

const wantTime = "a time from 1678 to 2261: RFC 3339, or a number of nanoseconds, microseconds, milliseconds or " +
	"seconds since 1970"

// value sets v to what raw says, which is at a place of o. It is null in an array only.
func (r *reader) value(o *object.Object, place string, raw []byte, v reflect.Value) {
	ok, want := true, ""
	p := v.Addr().Interface()
	if t, isMoment := p.(*event.Moment); isMoment && raw[0] != '{' {
		p, want = &t.Time, "; or an object"
	}
	switch p := p.(type) {
	case *time.Time:
		*p = input.Time(raw)
		ok, want = !p.IsZero(), wantTime+want
	case *spans.Provenance:
		*p = input.Provenance(raw)
	case *event.Message:
		if plain, isPlain := plainMessage(raw); isPlain || raw[0] != '{' {
			*p = plain
		} else {
			r.object(o.Inner(place, raw), v)
		}
	default:
		switch v.Kind() {
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			r.value(o, place, raw, v.Elem())
		case reflect.Slice:
			if ok, want = raw[0] == '[', "an array"; ok {
				list := o.List(place)
				v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
				for i, raw := range list {
					r.value(o, object.Element(place, i), raw, v.Index(i))
				}
			}
		case reflect.Struct:
			if ok, want = raw[0] == '{', "an object"; ok {
				r.object(o.Inner(place, raw), v)
			}
		default:
			ok, want = scalar(raw, v)
		}
	}
	if !ok {
		o.Fail(place, "want "+want+", got "+rawjson.KindOf(raw))
	}
}

// object sets v to what an object in the line says. When it has unknown members, the line keeps the member that holds
// it.
func (r *reader) object(o *object.Object, v reflect.Value) {
	r.members(o, shapeOf[v.Type()].fields, v)
	if u, isUsage := v.Addr().Interface().(*event.Usage); isUsage {
		u.Rule = cmp.Or(u.Rule, r.rule)
	}
	if o.Rest() != nil {
		r.line.Keep(r.top)
	}
}

// scalar sets a string, boolean or number, and reports whether raw is one, and what is wanted.
func scalar(raw []byte, v reflect.Value) (ok bool, want string) {
	switch v.Kind() {
	case reflect.String:
		s, ok := rawjson.String(raw)
		v.SetString(s)
		return ok, "a string"
	case reflect.Bool:
		v.SetBool(raw[0] == 't')
		return raw[0] == 't' || raw[0] == 'f', "a boolean"
	case reflect.Float64:
		n, err := strconv.ParseFloat(string(raw), 64)
		v.SetFloat(n)
		return err == nil, "a number of at most 1.8e308"
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil { // a whole number may be spelled as 1.0 or 1e3
		var f float64
		f, err = strconv.ParseFloat(string(raw), 64)
		if n = int64(f); math.Abs(f) > 1<<53 || float64(n) != f {
			n = -1
		}
	}
	v.SetInt(n)
	return err == nil && n >= 0, "an integer from 0 to 9223372036854775807"
}

// plainMessage returns the message that the JSON value raw is by itself: its role, the call that it answers and its
// time are read from it. Null is no message by itself, nor is an object with the key raw or raw_text.
func plainMessage(raw []byte) (m event.Message, ok bool) {
	if m.Raw = raw; raw[0] != '{' {
		return m, raw[0] != 'n'
	}
	o := object.Of("", raw)
	if o.Spelled("raw") != nil || o.Spelled("raw"+asText) != nil {
		return m, false
	}
	return input.Message(o, raw), true
}

// origins reads the payload of a request, and sets the provenances of its messages. What the line says more of the
// request takes the place of what the payload says.
func (r *reader) origins(o *object.Object, key string, req *event.RequestPrepared) {
	if o.Has("messages") {
		o.Fail(key, "stands there with messages, which have their own")
		return
	}
	at, attempt := req.At, req.Attempt
	req.Request, _ = event.ParseRequest(req.Payload) // what cannot be read is kept as it is spelled
	req.At, req.Attempt = at, attempt
	list := o.List(key)
	if list != nil && len(list) != len(req.Messages) {
		o.Fail(key, "want one for each of the "+strconv.Itoa(len(req.Messages))+" messages of payload, got "+
			strconv.Itoa(len(list)))
		return
	}
	for i, raw := range list { // none where it is no array
		req.Messages[i].Provenance = input.Provenance(raw)
	}
}
