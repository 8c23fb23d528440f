package guide

import (
	"cmp"
	"strconv"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// This file plays the events that otelagent wrote with a row: lines of package ndjson in the list events under the
// key otelagent of metadata_json. Content is not in them a second time: args, result and summary are the index of a
// part, output.raw are the indexes of the first part and of the one after the last, message.raw is the envelope of
// the row's message, and system and tools are digests.

// use is what content a part was given to. A part is content of one event of a kind, so that a file makes no more
// content than it has.
type use uint8

const (
	useCall use = 1 << iota
	useResult
	useOutput
	useSummary
)

// take returns the part with the index that raw is, and moves the event with at, and those behind it, on to its
// number; an empty part when there is none, or it was taken for this use.
func (m *message) take(raw []byte, use use, at *event.Meta) *part {
	i, err := strconv.Atoi(string(raw))
	if err != nil || i < 0 || i >= len(m.parts) || m.parts[i].used&use != 0 {
		return &part{}
	}
	p := m.parts[i]
	p.used |= use
	m.behind(p, at)
	return p
}

// behind moves the event with at, and those that follow it, on to the number of a part.
func (m *message) behind(p *part, at *event.Meta) {
	at.Seq = max(at.Seq, p.seq)
	m.seq = max(m.seq, at.Seq)
}

// takeAll returns the parts from from up to to that are in no output yet.
func (m *message) takeAll(from, to int) (parts []*part) {
	for _, p := range m.parts[min(max(from, 0), len(m.parts)):min(max(from, to, 0), len(m.parts))] {
		if p.used&useOutput == 0 {
			p.used |= useOutput
			parts = append(parts, p)
		}
	}
	return parts
}

// play emits the events of a row that otelagent wrote. What comes behind a part has its number, or a later one.
func (d *Decoder) play(m *message) {
	defer func(number, at int64, path string) { d.Number, d.Seq, d.path = number, at, path }(d.Number, d.Seq, d.path)
	d.Number, d.Seq, d.path = m.number, m.seq, m.path // where errors are
	r := &run{session: d.session.id}
	for i, raw := range m.own {
		place := object.Element("metadata.otelagent.events", i)
		if !input.Own(raw) {
			d.reject("message", place, "want an event of otelagent")
			continue
		}
		raw = append(append(rawjson.Quote([]byte(`{"session":`), r.session), ','), raw[1:]...)
		events, bad := ndjson.Read(d.Settings, input.Line{Text: raw, Seq: m.seq})
		if bad != nil {
			d.reject("message", object.Join(place, bad.Field), bad.Reason)
		}
		for _, ev := range events {
			d.emitOwn(r, m, ev)
		}
	}
	d.emitLines(m)
}

// partsOf takes the parts that raw, the first and the one after the last, refers to, and returns the message that they
// make, nil without any. It moves the event with at behind the last one.
func (m *message) partsOf(raw []byte, at *event.Meta) *event.Message {
	bounds := rawjson.Elements(raw)
	if len(bounds) != 2 {
		return nil
	}
	from, _ := strconv.Atoi(string(bounds[0]))
	to, _ := strconv.Atoi(string(bounds[1]))
	parts := m.takeAll(from, to)
	if len(parts) == 0 {
		return nil
	}
	m.behind(parts[len(parts)-1], at)
	return new(m.message(parts))
}

// emitOwn emits an event with the content of the parts that it refers to.
func (d *Decoder) emitOwn(r *run, m *message, ev event.Event) {
	switch ev := ev.(type) {
	case *event.RunStarted:
		ev.Recording = spans.RecordingLedger
	case *event.RequestPrepared:
		ev.System, ev.Tools = nil, nil
		if ev.Attempt == 0 && ev.Temperature == nil && ev.MaxTokens == nil && ev.Level == "" && ev.Format == "" {
			return // nothing but digests is known of it
		}
	case *event.MessageAdded:
		envelope := restOf(object.Of("", ev.Message.Raw), "id", "createdAt", "role", "parts") // the row has these
		ev.Message, ev.Meta.Time = m.message(m.takeAll(0, len(m.parts))), m.created
		ev.Message.Raw = input.Merge(ev.Message.Raw, envelope)
	case *event.ToolStarted:
		p := m.take(ev.Args, useCall, &ev.Meta)
		ev.Args, r.id = p.ai.Spelled("input"), ev.Run
		defer d.emitDecision(r, p, ev.ID)
	case *event.ToolEnded:
		p := m.take(ev.Result, useResult, &ev.Meta)
		_, text := p.result()
		ev.Result, ev.ToolResult.Error = p.ai.Spelled("output"), cmp.Or(text, ev.ToolResult.Error)
	case *event.ReplyReceived:
		said := cmp.Or(m.partsOf(ev.Message.Raw, &ev.Meta), &event.Message{})
		ev.Message = *said
	case *event.TurnEnded:
		if ev.Output != nil {
			ev.Output = m.partsOf(ev.Output.Raw, &ev.Meta)
		}
	case *event.CompactionEnded:
		o := m.take(ev.Summary, useSummary, &ev.Meta).compaction()
		ev.Summary, ev.Target = nil, cmp.Or(o.String("tail_start_id"), ev.Target)
		if o.String("summary") != "" { // the guide has no other way to say none
			ev.Summary = o.Raw("summary")
		}
	}
	d.Emit(ev)
}
