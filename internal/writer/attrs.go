package writer

import (
	"regexp"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// attrs collects the attributes of a span. There is one method per class of the registry, so that this type
// alone decides what the process may send. Empty strings add nothing.
type attrs struct {
	kv     []attribute.KeyValue
	origin *origin
	// redacted counts the places that the redactor changed.
	redacted int64
	opts     []trace.SpanStartOption
	// detail is what a detailed name of the span says after its kind.
	detail [2]string
}

var attrsPool = sync.Pool{New: func() any {
	return &attrs{kv: make([]attribute.KeyValue, 0, 48), opts: make([]trace.SpanStartOption, 0, 6)}
}}

// startAttrs returns a pooled collector for the attributes a span starts with. The OpenTelemetry API copies what
// trace.WithAttributes is given, so that begin can put it back.
func startAttrs(o *origin) *attrs {
	a := attrsPool.Get().(*attrs)
	a.origin = o
	return a
}

func (a *attrs) free() {
	clear(a.kv)
	clear(a.opts)
	a.kv, a.opts, a.origin, a.redacted, a.detail = a.kv[:0], a.opts[:0], nil, 0, [2]string{}
	attrsPool.Put(a)
}

// endAttrs returns a collector for attributes that are set on a running span. It is not pooled: nothing says that a
// provider copies what SetAttributes is given.
func endAttrs(o *origin, size int) attrs {
	return attrs{kv: make([]attribute.KeyValue, 0, size), origin: o}
}

func (a *attrs) add(kvs ...attribute.KeyValue) { a.kv = append(a.kv, kvs...) }

func (a *attrs) id(k attribute.Key, v string) {
	if v != "" {
		a.kv = append(a.kv, k.String(cleanID(v)))
	}
}

func (a *attrs) name(k attribute.Key, v string) {
	if v != "" {
		a.kv = append(a.kv, k.String(cleanName(v)))
	}
}

func (a *attrs) text(k attribute.Key, v string) {
	if v != "" && a.origin.capture == spans.CaptureContent {
		a.piece(k, spans.Redactable{Body: []byte(v), Place: spans.PlaceText})
	}
}

// piece adds what may be sent of p.
func (a *attrs) piece(k attribute.Key, p spans.Redactable) {
	body, changed := a.origin.tracer.config.redact(p)
	a.redacted += int64(changed)
	a.kv = append(a.kv, k.String(cleanText(string(body))))
}

func (a *attrs) int(k attribute.Key, v int64) { a.kv = append(a.kv, k.Int64(v)) }

// count adds a number whose absence means 0.
func (a *attrs) count(k attribute.Key, v int64) {
	if v != 0 {
		a.kv = append(a.kv, k.Int64(v))
	}
}

// known adds a number if it is there and not negative.
func (a *attrs) known(k attribute.Key, v *int64) {
	if v != nil && *v >= 0 {
		a.kv = append(a.kv, k.Int64(*v))
	}
}

func (a *attrs) flag(k attribute.Key, v *bool) {
	if v != nil {
		a.kv = append(a.kv, k.Bool(*v))
	}
}

func (a *attrs) yes(k attribute.Key, v bool) {
	if v {
		a.kv = append(a.kv, k.Bool(true))
	}
}

// maxIDList is the number of ids kept in an attribute that lists them.
const maxIDList = 1024

// ids adds a list of ids.
func (a *attrs) ids(k attribute.Key, vs []string) {
	var clean []string
	for _, v := range vs[:min(len(vs), maxIDList)] {
		clean = append(clean, cleanID(v))
	}
	if clean != nil {
		a.kv = append(a.kv, k.StringSlice(clean))
	}
}

// source adds where a time came from unless the event stated it.
func (a *attrs) source(k attribute.Key, s spans.TimeSource) {
	if s != "" && s != spans.TimeSourceEvent {
		a.kv = append(a.kv, k.String(cleanName(string(s))))
	}
}

// userinfo matches a user and a password before the host of a URL, also where JSON spells it with escapes, and where
// the value of base_url has no scheme.
var userinfo = regexp.MustCompile(
	`(:(?:\\?/){2}|"base_url"\s*:\s*")(?:[^/?#\\\s"'<>]|\\u[0-9a-fA-F]{4})*(?:@|\\u0040)`)

// withoutUserinfo returns a configuration as it came, but for users and passwords in its URLs.
func withoutUserinfo(raw []byte) []byte { return userinfo.ReplaceAll(raw, []byte("$1")) }
