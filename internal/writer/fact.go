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

// SessionInfo says which session facts are about. An empty SessionID is found as [Tracer.StartRun] finds it. Dialect
// and Recording are as in RunInfo.
type SessionInfo struct {
	SessionID string
	Dialect   string
	Recording spans.Recording
}

// maxFacts bounds the facts of one span; more take more spans.
const maxFacts = 64

// StateFacts records facts about a session, or about parts of it, that arise outside any run: a title, a rewind, that
// it was archived. They are sent as span events of a session.payload span of their own. A fact without a time is true
// from now on. Facts of one subject and key replace each other by time; stating one twice changes nothing.
func (t *Tracer) StateFacts(ctx context.Context, info SessionInfo, facts ...Fact) {
	if t == nil {
		return
	}
	for part := range slices.Chunk(facts, maxFacts) {
		t.factSpan(ctx, info, part)
	}
}

func (t *Tracer) factSpan(ctx context.Context, info SessionInfo, facts []Fact) {
	ctx = orBackground(ctx)
	own := &origin{}
	asRun := RunInfo{SessionID: info.SessionID, Dialect: info.Dialect, Recording: info.Recording}
	in, address := own.outsideRun(ctx, t, &asRun)
	own.address = address
	if info.Dialect != "" {
		own.address = append(address, spans.DialectKey.String(cleanName(info.Dialect)))
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
		at = at.sound()
		h.fact(&facts[i], at)
		if at.Time.After(end.Time) {
			end = at
		}
	}
	a := endAttrs(own, 8)
	h.finish(end, spans.KnownObserved, &a, "")
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
		if h.capture != CaptureNone {
			fields = append(fields, string(f.Value))
		}
	}
	return "facts/" + strconv.FormatUint(binary.BigEndian.Uint64(hashed(fields...)), 16)
}

// subject is what a fact is about, as far as that may be sent: where no content does, the digest that names a text does
// not either.
func (h *handle) subject(s string) string {
	if kind, id, ok := strings.Cut(s, "/"); ok && h.capture == CaptureNone {
		if b, err := hex.DecodeString(id); err == nil && len(b) == sha256.Size {
			return cleanID(kind)
		}
	}
	return cleanID(s)
}

// fact adds one fact as an event.
func (h *handle) fact(f *Fact, at Moment) {
	if !h.recording {
		return
	}
	kv := make([]attribute.KeyValue, 0, 4)
	kv = append(kv, spans.FactSubjectKey.String(h.subject(f.Subject)), spans.FactKeyKey.String(cutName(f.Key, 128)),
		spans.EventSeqKey.Int64(h.next(at)))
	if f.Value != nil && h.capturing() {
		kv = append(kv, spans.FactValueKey.String(h.content.reference(h.origin,
			spans.Redactable{Body: f.Value, JSON: true, Place: spans.PlaceFact})))
	}
	h.span.AddEvent(spans.EventFact, trace.WithAttributes(kv...), trace.WithTimestamp(at.Time))
}
