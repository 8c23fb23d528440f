package writer

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/spans"
)

// maxFacts bounds the facts of one span; more take more spans.
const maxFacts = 64

// StateFacts records facts about a session, or about parts of it, that arise outside any run: a title, a rewind, that
// it was archived. They are sent as span events of a session.payload span of their own. A fact without a time is true
// from now on. Facts of one subject and key replace each other by time; stating one twice changes nothing. Of info
// SessionID, Dialect and Recording count. An empty SessionID is found as [Tracer.StartRun] finds it.
func (t *Tracer) StateFacts(ctx context.Context, info RunInfo, facts ...Fact) {
	if t == nil {
		return
	}
	for part := range slices.Chunk(facts, maxFacts) {
		t.factSpan(ctx, info, part)
	}
}

func (t *Tracer) factSpan(ctx context.Context, info RunInfo, facts []Fact) {
	ctx = orBackground(ctx)
	in := scopeOf(ctx)
	own := &origin{}
	own.init(ctx, t, &info, t.placeInSession(ctx, in, &info, t.readsBaggage(ctx, in, &info)))
	if info.Dialect != "" {
		own.address = append(own.address, spans.DialectKey.String(cleanName(info.Dialect)))
	}
	h := &handle{origin: own, index: noTurn}
	var parent *handle
	if in != nil {
		parent = in.span
	}
	start := facts[0].At.now()
	h.begin(ctx, parent, &kindPayload, start, startAttrs(own), seed{call: h.factsID(facts)})
	end := start
	for i := range facts {
		at := facts[i].At
		if at.Time.IsZero() {
			at.Time = start.Time
		}
		if at = at.sound(); h.recording {
			h.fact(&facts[i], at)
		}
		if at.Time.After(end.Time) {
			end = at
		}
	}
	a := endAttrs(own, 8)
	h.finish(end, &a, "")
}

// factsID names facts by what they say, as far as that may be sent.
func (h *handle) factsID(facts []Fact) string {
	var fields []string
	for i := range facts {
		f := &facts[i]
		at := ""
		if !f.At.Time.IsZero() {
			at = startText(f.At.Time)
		}
		fields = append(fields, h.subject(f.Subject), f.Key, at)
		if h.capture != spans.CaptureNone {
			body, _ := h.tracer.config.redact(f.piece())
			fields = append(fields, string(body))
		}
	}
	return "facts/" + strconv.FormatUint(binary.BigEndian.Uint64(hashed(fields...)), 16)
}

// subject is what a fact is about, as far as that may be sent: where no content does, the digest that names a text does
// not either.
func (h *handle) subject(s string) string {
	if kind, id, ok := strings.Cut(s, "/"); ok && h.capture == spans.CaptureNone {
		if b, err := hex.DecodeString(id); err == nil && len(b) == sha256.Size {
			return cleanID(kind)
		}
	}
	return cleanID(s)
}

// piece returns the value as a redactor sees it.
func (f *Fact) piece() spans.Redactable {
	return spans.Redactable{Body: f.Value, JSON: true, Place: spans.PlaceFact}
}

// fact adds one fact as an event.
func (h *handle) fact(f *Fact, at Moment) {
	kv := []attribute.KeyValue{spans.FactSubjectKey.String(h.subject(f.Subject)),
		spans.FactKeyKey.String(cutName(f.Key, 128)), spans.EventSeqKey.Int64(h.next(at))}
	if f.Value != nil && h.capturing() {
		id, _ := h.content.reference(h.origin, f.piece())
		kv = append(kv, spans.FactValueKey.String(id.String()))
	}
	h.span.AddEvent(spans.EventFact, trace.WithAttributes(kv...), trace.WithTimestamp(at.Time))
}
