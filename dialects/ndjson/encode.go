package ndjson

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// AppendEvent appends ev as one line, without its end, to dst. The order of keys is fixed; zero values are left out (of counts for which
// negative means unknown, those). A Decoder without settings reads the same event from it, but for Meta.Arrived, empty slices where nil means
// the same, and what JSON cannot hold: text that is not UTF-8 gets U+FFFD, a cost or temperature that is not finite is left out, a provenance that
// is no JSON becomes a string. Times before 1678 or after 2261 and negative counts are written, and refused when they are read.
//
// Content that is JSON on one line, without blanks around it and nested no deeper than 200, stands there as it is. Any other stands as a string
// under KEY_text, byte for byte. A nil event appends nothing.
func AppendEvent(dst []byte, ev otelagent.Event) []byte {
	w := writer{dst: dst}
	for i := range kinds {
		w.name = kinds[i].name
		if kinds[i].shape(&w, ev) {
			if len(w.dst) > len(dst) {
				w.dst = append(w.dst, '}')
			}
			return w.dst
		}
	}
	return dst
}

// writer appends what a shape visits as members of an object.
type writer struct {
	dst  []byte
	name string // of the kind
	open bool   // the object at hand has no member yet
}

func (w *writer) key(key string) {
	if !w.open {
		w.dst = append(w.dst, ',')
	}
	w.open = false
	w.dst = append(append(append(w.dst, '"'), key...), '"', ':')
}

func (w *writer) begin() { w.dst, w.open = append(w.dst, '{'), true }
func (w *writer) end()   { w.dst, w.open = append(w.dst, '}'), false }

func (w *writer) meta(m *otelagent.Meta) {
	w.dst, w.open = append(append(append(w.dst, `{"type":"`+prefix...), w.name...), '"'), false
	w.time("ts", &m.Time, "")
	w.count("seq", &m.Seq, "")
	w.text("session", &m.Session, "", "")
	w.text("run", &m.Run, "", "")
}

func (w *writer) string(s string) { w.dst = rawjson.Quote(w.dst, s) }

func (w *writer) text(key string, p *string, absent, _ string) {
	if *p != absent {
		w.key(key)
		w.string(*p)
	}
}

func (w *writer) integer(key string, n int64) {
	w.key(key)
	w.dst = strconv.AppendInt(w.dst, n, 10)
}

func (w *writer) count(key string, p *int64, _ string) {
	if *p != 0 {
		w.integer(key, *p)
	}
}

func (w *writer) small(key string, p *int, _ string) {
	if *p != 0 {
		w.integer(key, int64(*p))
	}
}

func (w *writer) known(key string, p *int64, absent int64, _ string) {
	switch {
	case *p == absent, *p < 0 && absent < 0:
	case *p < 0:
		w.key(key)
		w.dst = append(w.dst, "null"...)
	default:
		w.integer(key, *p)
	}
}

func (w *writer) limit(key string, p **int64, _ string) {
	if *p != nil {
		w.integer(key, **p)
	}
}

func (w *writer) number(key string, p **float64, _ string) {
	if *p != nil && !math.IsNaN(**p) && !math.IsInf(**p, 0) {
		w.key(key)
		w.dst = strconv.AppendFloat(w.dst, **p, 'g', -1, 64)
	}
}

func (w *writer) boolean(key string, b bool) {
	w.key(key)
	w.dst = strconv.AppendBool(w.dst, b)
}

func (w *writer) flag(key string, p *bool, _ string) {
	if *p {
		w.boolean(key, true)
	}
}

func (w *writer) maybe(key string, p **bool, _ string) {
	if *p != nil {
		w.boolean(key, **p)
	}
}

func (w *writer) nanos(key string, p *time.Duration, _ string) {
	w.count(key, (*int64)(p), "")
}

func (w *writer) time(key string, p *time.Time, _ string) {
	if p.IsZero() {
		return
	}
	w.key(key)
	w.dst = append(p.UTC().AppendFormat(append(w.dst, '"'), time.RFC3339Nano), '"')
}

func (w *writer) moment(key string, p *otelagent.Moment, _ string) {
	switch {
	case *p == otelagent.Moment{}:
	case p.Source == "" && p.Seq == 0:
		w.time(key, &p.Time, "")
	default:
		w.key(key)
		w.begin()
		momentShape(w, p)
		w.end()
	}
}

// oneLine reports whether content can stand in a line as it is.
func oneLine(raw []byte) bool {
	if len(raw) == 0 || raw[0] <= ' ' || raw[len(raw)-1] <= ' ' || bytes.ContainsAny(raw, "\r\n") {
		return false
	}
	return rawjson.Valid(raw, rawjson.MaxDepth) == nil
}

func (w *writer) json(key string, p *[]byte, null bool, _ string) {
	switch raw := *p; {
	case len(raw) == 0:
	case oneLine(raw) && (null || string(raw) != "null"):
		w.key(key)
		w.dst = append(w.dst, raw...)
	default:
		w.key(key + asText)
		w.string(string(raw))
	}
}

func (w *writer) words(key string, p *[]string, _ string) {
	if *p == nil {
		return
	}
	w.list(key, len(*p), func(i int) { w.string((*p)[i]) })
}

// list writes an array of n elements.
func (w *writer) list(key string, n int, element func(int)) {
	w.key(key)
	w.dst = append(w.dst, '[')
	for i := range n {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		element(i)
	}
	w.dst = append(w.dst, ']')
}

func (w *writer) usage(key string, p **otelagent.Usage, _ string) {
	if *p == nil {
		return
	}
	w.key(key)
	w.begin()
	usageShape(w, *p)
	w.end()
}

// one writes a message: plainly when that says all of it.
func (w *writer) one(m *otelagent.Message) {
	if oneLine(m.Raw) {
		plain, ok := plainMessage(m.Raw)
		if ok && plain.Role == m.Role && plain.ToolCallID == m.ToolCallID && plain.Time.Equal(m.Time) &&
			m.Provenance == (spans.Provenance{}) && slices.Equal(plain.Envelope, m.Envelope) {
			w.dst = append(w.dst, m.Raw...)
			return
		}
	}
	w.begin()
	if len(m.Raw) == 0 {
		w.key("raw")
		w.dst = append(w.dst, "null"...)
	}
	messageShape(w, m)
	w.end()
}

func (w *writer) message(key string, p *otelagent.Message, _ string) {
	if p.Raw == nil && p.Envelope == nil && p.Role == "" && p.ToolCallID == "" && p.Time.IsZero() && p.Provenance == (spans.Provenance{}) {
		return
	}
	w.key(key)
	w.one(p)
}

func (w *writer) reply(key string, p **otelagent.Message, _ string) {
	if *p != nil {
		w.key(key)
		w.one(*p)
	}
}

func (w *writer) messages(key string, p *[]otelagent.Message, _ string) {
	if *p != nil {
		w.list(key, len(*p), func(i int) { w.one(&(*p)[i]) })
	}
}

func (w *writer) sections(key string, p *[]otelagent.Section, _ string) {
	if *p != nil {
		w.list(key, len(*p), func(i int) {
			w.begin()
			sectionShape(w, &(*p)[i])
			w.end()
		})
	}
}

func (w *writer) facts(key string, p *[]otelagent.Fact, _ string) {
	if *p != nil {
		w.list(key, len(*p), func(i int) {
			w.begin()
			factShape(w, &(*p)[i])
			w.end()
		})
	}
}

func (w *writer) frame(key string, p **spans.Frame, _ string) {
	if *p != nil {
		w.key(key)
		w.dst = append(w.dst, (*p).Encode()...)
	}
}

func (w *writer) provenance(key string, p *spans.Provenance, _ string) {
	if *p != (spans.Provenance{}) {
		w.key(key)
		w.origin(p)
	}
}

// origins writes provenances alone for a request of which all else is what its payload says.
func (w *writer) origins(key string, p *otelagent.Request, _ string) bool {
	if p.Payload == nil {
		return false
	}
	says, _ := otelagent.ParseRequest(p.Payload) // what cannot be read is kept as it is spelled
	if len(says.Messages) != len(p.Messages) {
		return false
	}
	says.At, says.Attempt, says.Sections = p.At, p.Attempt, p.Sections
	for i := range says.Messages {
		says.Messages[i].Provenance = p.Messages[i].Provenance
	}
	if !reflect.DeepEqual(&says, p) {
		return false
	}
	w.list(key, len(p.Messages), func(i int) { w.origin(&p.Messages[i].Provenance) })
	return true
}

// origin writes a provenance. What is kept as it came and is no JSON in one line becomes a string.
func (w *writer) origin(p *spans.Provenance) {
	if p.Raw != "" && !oneLine([]byte(p.Raw)) {
		w.string(p.Raw)
		return
	}
	w.dst = p.AppendJSON(w.dst)
}
