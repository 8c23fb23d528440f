package phi

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

func (d *Decoder) turnRequest(f *fields, m otelagent.Meta) {
	index := f.count("turn_index", d.get(kTurnIndex), -1)
	raw := d.get(kPayload)
	f.required("payload", raw, "an object")
	if f.wrong == nil && raw[0] != '{' {
		f.mismatch("payload", raw, "an object")
	}
	if f.wrong == nil {
		f.list("payload.messages", d.ev.payload.messages)
	}
	if f.wrong != nil {
		return
	}
	p := &d.ev.payload
	e := &d.out.requestPrepared
	*e = otelagent.RequestPrepared{}
	e.Bytes = int64(len(raw))
	e.System, e.Tools = p.system, p.tools
	e.Model, e.Level = d.lenient(p.model), d.lenient(p.level)
	e.Format = d.format(p.format)
	if n, ok := parseCount(p.maxTokens); ok && p.maxTokens != nil {
		e.MaxTokens = &n
	}
	if p.temperature != nil {
		if t, err := strconv.ParseFloat(string(p.temperature), 64); err == nil {
			e.Temperature = &t
		}
	}
	if p.messages != nil {
		e.Messages = d.messageList(p.messageList)
		d.ev.history.keep(p.messageList, e.Messages)
	}
	aligned := p.provenance != nil && p.provenance[0] == '[' && len(p.provenanceList) == len(e.Messages)
	if aligned {
		for i, raw := range p.provenanceList {
			e.Messages[i].Provenance = d.provenanceAt(i, raw)
		}
	}
	e.Rest = d.rest(p.all, aligned)
	e.Payload, e.Frame = raw, d.frame(raw, aligned)
	r := d.opened(&m)
	switch {
	case !r.turn && index >= 0: // a turn whose start was not seen
		d.turnUnderWay(m, r, index)
	case index >= 0 && index != r.turnIndex:
		d.keep(kTurnIndex)
	}
	e.Meta = m
	d.emit(e)
	d.emitKept(m, "TurnRequest")
}

// turnUnderWay tells of a turn whose start was not seen: it is known from m that it had started.
func (d *Decoder) turnUnderWay(m otelagent.Meta, r *run, index int64) {
	r.turn, r.turnIndex = true, index
	e := &d.out.turnStarted
	*e = otelagent.TurnStarted{Meta: m, TurnInfo: otelagent.TurnInfo{Index: index}}
	if !m.Time.IsZero() {
		e.Start = otelagent.Moment{Time: m.Time, Source: spans.TimeSourceBound}
	}
	d.emit(e)
}

// format returns the kind of a response format.
func (d *Decoder) format(raw []byte) (kind string) {
	if raw == nil || raw[0] != '{' {
		return d.lenient(raw)
	}
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('{'); c.More('}'); {
		name, value := c.Key(), c.Value()
		if string(name) == "kind" {
			kind = d.lenient(value)
		}
	}
	return kind
}

// rest returns a payload without what stands elsewhere in a Request.
func (d *Decoder) rest(all []member, aligned bool) []byte {
	rest := append(d.out.rest[:0], '{')
	for _, m := range all {
		switch string(d.ev.unescaped(m.key)) {
		case "system_prompt", "tools", "messages":
			continue
		case "provenance":
			if aligned {
				continue
			}
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, m.key...), ':'), m.value...)
	}
	d.out.rest = append(rest, '}')
	return d.out.rest
}

// frame says how the payload is put together again; nil when it has blanks between its tokens or a key twice. Frames are
// shared by requests that are spelled alike.
func (d *Decoder) frame(raw []byte, aligned bool) *spans.Frame {
	p := &d.ev.payload
	if len(p.all) > spans.MaxFrameKeys {
		return nil
	}
	length := 1 + max(1, len(p.all))
	for i, m := range p.all {
		length += len(m.key) + 1 + len(m.value)
		for _, before := range p.all[:i] {
			if string(before.key) == string(m.key) {
				return nil
			}
		}
	}
	if length != len(raw) || p.messages != nil && !compact(len(p.messages), len(p.messageList), func(i int) []byte { return p.messageList[i].raw }) ||
		aligned && !compact(len(p.provenance), len(p.provenanceList), func(i int) []byte { return p.provenanceList[i] }) {
		return nil
	}
	if f := d.framed; f != nil && (f.Provenance != "") == aligned && slices.EqualFunc(f.Keys, p.all, func(k string, m member) bool { return k == string(m.key[1:len(m.key)-1]) }) {
		return f
	}
	f := &spans.Frame{}
	for _, m := range p.all {
		key := string(m.key[1 : len(m.key)-1])
		f.Keys = append(f.Keys, key)
		switch key {
		case "system_prompt":
			f.System = key
		case "messages":
			f.Messages = key
		case "tools":
			f.Tools = key
		case "provenance":
			if aligned {
				f.Provenance = key
			}
		}
	}
	if p.messages != nil && f.Messages == "" || p.system != nil && f.System == "" || p.tools != nil && f.Tools == "" || aligned && f.Provenance == "" {
		return nil // a key spelled with escapes
	}
	d.framed = f
	return f
}

// compact reports whether an array of n elements has no blanks between them, being length bytes long.
func compact(length, n int, element func(int) []byte) bool {
	length -= 1 + max(1, n)
	for i := range n {
		length -= len(element(i))
	}
	return length == 0
}

// knownProvenance is where a message of the request before came from.
type knownProvenance struct {
	raw   []byte // a copy
	value spans.Provenance
}

// provenanceAt is provenance for the i-th message of a request, which mostly came from where it did in the request before.
func (d *Decoder) provenanceAt(i int, raw []byte) spans.Provenance {
	if i == len(d.provenances) {
		d.provenances = append(d.provenances, knownProvenance{})
	}
	known := &d.provenances[i]
	if !bytes.Equal(known.raw, raw) {
		known.raw, known.value = append(known.raw[:0], raw...), d.provenance(raw)
	}
	return known.value
}

// provenance reads where a message came from. What it does not know whole is kept as it came, so that the JSON value can
// always be given back.
func (d *Decoder) provenance(raw []byte) spans.Provenance {
	p := spans.Provenance{}
	bad := raw[0] != '{'
	const kind, name, order, tier, record, turn, role, message = 1, 2, 4, 8, 16, 32, 64, 128
	seen := 0
	text := func(bit int, value []byte) string {
		s := d.lenient(value)
		// What is not kept letter by letter (a lone surrogate) is kept raw.
		bad = bad || seen&bit != 0 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 && strings.ContainsRune(s, '\uFFFD')
		seen |= bit
		return s
	}
	number := func(bit int, value []byte) int64 {
		n, ok := parseCount(value)
		bad = bad || seen&bit != 0 || !ok
		seen |= bit
		return n
	}
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('{'); c.More('}'); {
		switch key, value := c.Key(), c.Value(); string(key) {
		case "kind":
			p.Kind = spans.ProvenanceKind(text(kind, value))
		case "name":
			p.Name = text(name, value)
		case "order":
			p.Order = number(order, value)
		case "tier":
			p.Tier = text(tier, value)
		case "record_id":
			p.RecordID = text(record, value)
		case "turn_index":
			p.TurnIndex = number(turn, value)
		case "role":
			p.Role = text(role, value)
		case "message_index":
			p.MessageIndex = number(message, value)
		default:
			bad = true
		}
	}
	want := -1
	switch p.Kind {
	case spans.ProvenanceSystemPrompt, spans.ProvenanceSteering, spans.ProvenanceFollowUp, spans.ProvenanceUnknown:
		want = kind
	case spans.ProvenanceIdentityBlock:
		want = kind | name | order
	case spans.ProvenanceMemoryTier:
		want = kind | tier | record
	case spans.ProvenanceLoopTurn:
		want = kind | turn | role | message
	}
	if d.spelled = p.AppendJSON(d.spelled[:0]); bad || seen != want || !bytes.Equal(d.spelled, raw) {
		return spans.Provenance{Raw: string(raw)}
	}
	return p
}
