package otelagent

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// ParseRequest reads the request of a model API from the body of the HTTP request: Anthropic messages, OpenAI chat
// completions and responses, Gemini generateContent, phi-core's request payload, and what is spelled like these. It
// sets
//
//   - Messages, each with Role and ToolCallID, from messages, input or contents
//   - System and Tools, Model (Gemini's stands in the URL), MaxTokens, Temperature, Level of reasoning and Format
//   - Payload, Bytes, Frame and Rest
//
// The error names the key and what is allowed there. The Request then holds what could be read; of a body that is no
// JSON object only Payload and Bytes. The result refers to payload, and is valid as long as that does not change.
// Limits: 131,072 messages; a longer array of them is part of Rest. 200 levels of nesting.
func ParseRequest(payload []byte) (Request, error) {
	r := Request{Payload: payload, Bytes: int64(len(payload))}
	err := r.fill()
	if err != nil {
		err = fmt.Errorf("otelagent: request: %w", err)
	}
	return r, err
}

// fill reads r.Payload into the fields that are not set.
func (r *Request) fill() error {
	if err := rawjson.Valid(r.Payload, rawjson.MaxDepth); err != nil {
		return err
	}
	c := rawjson.NewCursor(r.Payload, rawjson.MaxDepth)
	if !c.Open('{') {
		return errors.New("want an object, got " + rawjson.KindOf(bytes.TrimSpace(r.Payload)))
	}
	f := spans.Frame{}
	seen := map[string]bool{}
	length, twice := 2, false // of the payload without blanks; a key is there twice, or blanks between messages
	rest := []byte{'{'}
	for c.More('}') {
		raw := c.RawKey()
		key := string(raw[1 : len(raw)-1])
		value := c.Value()
		twice = twice || seen[key]
		seen[key] = true
		f.Keys = append(f.Keys, key)
		length += len(raw) + 1 + len(value)
		switch key {
		case "messages", "input", "contents":
			if f.Messages == "" && value[0] == '[' && !crowded(value) {
				f.Messages = key
				twice = !r.messages(value) || twice
				continue
			}
		case "system", "system_prompt", "instructions", "systemInstruction", "system_instruction":
			if f.System == "" && value[0] != 'n' {
				f.System, r.System = key, value
				continue
			}
		case "tools":
			f.Tools, r.Tools = key, value
			continue
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, raw...), ':'), value...)
	}
	r.Rest = append(rest, '}')
	if length += max(0, len(f.Keys)-1); !twice && length == len(r.Payload) {
		r.Frame = &f
	}
	return r.parameters(object.Of("", r.Rest))
}

// maxRequestMessages bounds the messages of a request that are told apart; one with more is kept as its payload alone.
const maxRequestMessages = 1 << 17

// crowded reports whether an array has more elements than are told apart.
func crowded(array []byte) bool {
	if len(array) < 2*maxRequestMessages {
		return false
	}
	c := rawjson.NewCursor(array, rawjson.MaxDepth)
	n := 0
	for c.Open('['); c.More(']') && n <= maxRequestMessages; n++ {
		c.Value()
	}
	return n > maxRequestMessages
}

// messages takes the elements of an array, and reports whether there are no blanks between them.
func (r *Request) messages(array []byte) (compact bool) {
	length := 2
	c := rawjson.NewCursor(array, rawjson.MaxDepth)
	r.Messages = []Message{}
	for c.Open('['); c.More(']'); {
		raw := c.Value()
		if length += len(raw); len(r.Messages) > 0 {
			length++
		}
		msg := Message{Raw: raw}
		msg.Role, msg.ToolCallID = genaijson.Heading(raw)
		r.Messages = append(r.Messages, msg)
	}
	return length == len(array)
}

// scratch is memory for the items of a request.
type scratch struct {
	items []listItem
	keys  []memoKey
}

// scratches keeps a few of them; a sync.Pool would lose them to the collector between two turns.
type scratches chan *scratch

// maxScratchItems bounds what is kept between requests.
const maxScratchItems = 1 << 13

func (c scratches) get() *scratch {
	select {
	case s := <-c:
		return s
	default:
		return new(scratch)
	}
}

func (c scratches) put(s *scratch) {
	if cap(s.items) > maxScratchItems {
		return
	}
	clear(s.items)
	s.items, s.keys = s.items[:0], s.keys[:0]
	select {
	case c <- s:
	default:
	}
}

// ask takes the content of the request of attempt n. The caller holds the lock.
func (t *Turn) ask(n int, req *Request, a *attrs) {
	c, o := &t.content, t.origin
	again := c.drop(spans.ListRequest, n)
	c.drop(spans.ListParams, n)
	c.drop(spans.ListSections, n)
	if o.tracer.config.encoding == EncodingFull && o.capture == CaptureContent {
		t.askFull(req)
		return
	}
	s := o.tracer.memories.scratches.get()
	defer o.tracer.memories.scratches.put(s)
	m := o.tracer.memories.open(o)
	defer m.close()
	if again { // what was dropped is not there to be referred to
		m.request.complete()
	}
	m.asks(t.run)

	told := t.items(m, s, req)
	exact := o.capture == CaptureContent && req.framed() && (told || req.Frame.Provenance == "") && t.spelled(m, s, req)
	list, history, same := m.requestList(s.items)
	list.name, list.attempt = spans.ListRequest, n
	list.pack(o.run)
	t.run.history.Store(history)
	c.lists = append(slices.Grow(c.lists, 2), list)

	params := contentList{name: spans.ListParams, attempt: n, items: m.texts[:0]} // packed below
	add := func(kind spans.ProvenanceKind, place string, body []byte, parts ...part) {
		if body == nil {
			return
		}
		id := c.block(m, o, Piece{Body: body, JSON: true, Place: place}, parts...)
		params.add(id, spans.Item{Block: id.Short(), Provenance: spans.Provenance{Kind: kind}.Encode()})
		switch kind {
		case spans.ProvenanceSystem:
			a.digest(spans.PromptDigestKey, m.request.prompt.text(id))
		case spans.ProvenanceTools:
			a.digest(spans.ToolsDigestKey, m.request.tools.text(id))
		}
	}
	add(spans.ProvenanceSystem, PlaceSystem, req.System, t.sections(m, n, req)...)
	add(spans.ProvenanceTools, PlaceTools, req.Tools)
	add(spans.ProvenanceRest, PlaceRest, req.Rest)
	var frame []byte
	if exact {
		frame = m.request.frame(req.Frame, &o.tracer.config)
	}
	switch {
	case len(frame) > 0:
		id := spans.BlockOf(frame)
		if m.claim(id, false) { // ours, and small: no bound holds for it
			c.body(m, o, string(frame))
		} else {
			c.known += int64(len(frame))
		}
		params.add(id, spans.Item{Block: id.Short(), Provenance: string(spans.ProvenanceFrame)})
	case req.Payload != nil && o.capture == CaptureContent && o.tracer.config.redactor == nil:
		if id, ok := t.payloadBlock(m, req); ok {
			params.add(id, spans.Item{Block: id.Short(), Provenance: string(spans.ProvenancePayload)})
		}
	}
	history.sameParams(&params)
	params.pack(o.run)
	c.lists = append(c.lists, params)

	both := append(append(make([]byte, 0, 64), params.digest[:]...), list.digest[:]...)
	a.digest(spans.RequestDigestKey, spans.BlockOf(both).String())
	t.inputViews(req, same, a)
}

// items fills s with the items of the request's list. It reports whether they tell all of where the messages came from.
func (t *Turn) items(m *memory, s *scratch, req *Request) bool {
	c, o := &t.content, t.origin
	whole := true
	for i := range req.Messages {
		msg := &req.Messages[i]
		known, key := c.message(m, o, msg, t.old(req, i))
		from, all := c.provenance(o, &msg.Provenance)
		whole = whole && all
		it := listItem{id: known.id, from: from, item: spans.Item{Block: known.id.Short(), Envelope: known.envelope}}
		it.hash = m.of.itemHash(key, &it)
		s.items, s.keys = append(s.items, it), append(s.keys, key)
	}
	return whole
}

// old reports whether the i-th message is beyond the window of the request.
func (t *Turn) old(req *Request, i int) bool {
	window := t.tracer.config.window
	return window > 0 && i < len(req.Messages)-window
}

// spelled makes sure that each message can be given back as the loop spelled it: from its canonical form and the shapes, else as it
// came. It reports whether all can. With a redactor what counts is what it left.
func (t *Turn) spelled(m *memory, s *scratch, req *Request) bool {
	shapes := &m.request.shapes
	for {
		before, ok := len(*shapes), true
		for i := range req.Messages {
			if known, remembered := m.memos[s.keys[i]]; remembered && known.spelled == before+1 {
				if s.items[i].id != known.id { // the same message stood further up, and was kept as it came
					m.take(s, i, known)
				}
				continue
			}
			ok = t.spell(m, s, req, i) && ok
		}
		if !ok || len(*shapes) == before {
			return ok
		}
		// The shapes grew: what fitted before is looked at again.
	}
}

// spell is spelled for one message.
func (t *Turn) spell(m *memory, s *scratch, req *Request, i int) bool {
	c, o := &t.content, t.origin
	msg, it := &req.Messages[i], &s.items[i]
	raw, _ := o.tracer.config.redact(msg.piece())
	raw = validBytes(raw)
	shapes := &m.request.shapes
	shapes.Learn(raw)
	body, envelope, err := rawjson.AppendCanonical(m.text[:0], raw, msg.Envelope)
	if err != nil {
		return false
	}
	n := len(body)
	m.text = shapes.AppendSpelled(body, body, envelope)
	switch {
	case string(m.text[n:]) == string(raw) && it.id == spans.BlockOf(body):
	case string(shapes.AppendSpelled(nil, raw, nil)) == string(raw): // kept as it came as well
		known := memo{id: c.claim(m, o, raw, t.old(req, i)), spelled: len(*shapes) + 1}
		known.old = m.sent[known.id] == asOld
		m.remember(s.keys[i], known)
		m.take(s, i, known)
		return true
	default:
		return false
	}
	known, remembered := m.memos[s.keys[i]]
	if remembered {
		known.spelled = len(*shapes) + 1
		m.remember(s.keys[i], known)
	}
	return true
}

// take makes the i-th item refer to what known says.
func (m *memory) take(s *scratch, i int, known memo) {
	it := &s.items[i]
	it.id, it.item.Block, it.item.Envelope = known.id, known.id.Short(), known.envelope
	it.hash = m.of.itemHash(s.keys[i], it)
}

// payloadBlock keeps the payload as it came, made of its pieces as they stand in it. It does not where a bound kept one of them
// back: the payload could not be whole.
func (t *Turn) payloadBlock(m *memory, req *Request) (id spans.BlockID, ok bool) {
	c, text := &t.content, validBytes(req.Payload)
	parts := make([]part, len(req.Messages))
	for i := range req.Messages {
		parts[i].text, parts[i].old = validBytes(req.Messages[i].Raw), t.old(req, i)
	}
	list := standing(text, parts)
	for i := range list {
		list[i].id = c.claim(m, t.origin, list[i].text, list[i].old)
		if !m.whole(list[i].id) {
			return id, false
		}
	}
	return c.madeOf(m, t.origin, text, list), true
}

// framed reports whether the frame makes the payload of the other fields: who told them may have changed some since they were read.
// Of provenances and what stands behind them it takes the word of who made the frame. Pieces of the payload itself cost nothing.
func (r *Request) framed() bool {
	f, left := r.Frame, r.Payload
	if f == nil || left == nil {
		return false
	}
	ok := true
	next := func(text []byte) {
		if ok = ok && bytes.HasPrefix(left, text); ok {
			left = left[len(text):]
		}
	}
	token := func(text string) {
		if ok = ok && len(left) >= len(text) && string(left[:len(text)]) == text; ok {
			left = left[len(text):]
		}
	}
	rest := rawjson.NewCursor(r.Rest, rawjson.MaxDepth)
	rest.Open('{')
	token("{")
	for i, key := range f.Keys {
		if i > 0 {
			token(",")
		}
		token(`"`)
		token(key)
		token(`":`)
		switch {
		case key != "" && key == f.Provenance:
			return ok
		case key != "" && key == f.System:
			next(r.System)
		case key != "" && key == f.Tools:
			next(r.Tools)
		case key != "" && key == f.Messages:
			token("[")
			for j := range r.Messages {
				if j > 0 {
					token(",")
				}
				next(r.Messages[j].Raw)
			}
			token("]")
		default:
			var name []byte
			if rest.More('}') {
				name = rest.RawKey()
			}
			ok = ok && name != nil && string(name[1:len(name)-1]) == key
			next(rest.Value())
		}
	}
	token("}")
	return ok && len(left) == 0
}

// sections keeps the sections of the system prompt, each as its text stands inside the JSON string, so that the prompt can be made
// of them.
func (t *Turn) sections(m *memory, n int, req *Request) []part {
	if len(req.Sections) == 0 {
		return nil
	}
	parts := make([]part, 0, len(req.Sections))
	c, o := &t.content, t.origin
	l := contentList{name: spans.ListSections, attempt: n}
	for _, s := range req.Sections {
		text := rawjson.Quote(nil, s.Text)
		p := Piece{Body: text[1 : len(text)-1], Place: PlaceSection}
		id := c.block(m, o, p)
		if o.tracer.config.redactor == nil {
			parts = append(parts, part{text: p.Body, id: id})
		}
		l.add(id, spans.Item{Block: id.Short(), Provenance: cleanText(spans.Provenance{Kind: spans.ProvenanceSection, Name: cleanName(s.Name)}.Encode())})
	}
	c.lists = append(c.lists, l)
	return parts
}
