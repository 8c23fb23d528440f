package writer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// wholeReply returns a reply as one JSON object, and its text. A streamed one is put together; with an error it is
// what could be read.
func wholeReply(body []byte) (o *object.Object, text []byte, err error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\uFEFF")))
	if bytes.HasPrefix(body, []byte("{")) {
		o, err = object.Parse(body)
		if first, _, more := bytes.Cut(body, []byte("\n")); err == nil && !streamed(o) {
			return o, body, nil
		} else if err != nil && (!more || rawjson.Valid(first, object.MaxDepth) != nil) {
			return nil, nil, err
		}
	}
	var f fold
	return f.whole(f.all(body))
}

// whole returns the reply so far; err is a problem of its events.
func (f *fold) whole(err error) (o *object.Object, text []byte, _ error) {
	if f.root == nil {
		return nil, nil, cmp.Or(err, errNoReply)
	}
	text = appendNode(nil, f.root)
	if !f.done {
		err = cmp.Or(err, fmt.Errorf("the stream ends before the reply: %w", io.ErrUnexpectedEOF))
	}
	o, bad := object.Parse(text)
	if bad != nil {
		return nil, nil, cmp.Or(err, bad)
	}
	return o, text, err
}

// streamed reports whether o is an event of a stream.
func streamed(o *object.Object) bool {
	typ := o.Text("type")
	switch typ {
	case "message_start", "content_block_start", "content_block_delta", "message_delta", "MessageEnd", "TurnEnd":
		return true
	}
	return strings.HasPrefix(typ, "response.") || o.Text("object") == "chat.completion.chunk" ||
		string(o.Raw("done")) == "false"
}

var errNoStream = errors.New("want a JSON object, an array or lines of these, or server-sent events")

// events returns the JSON texts that a streamed body holds, in their order; of server-sent events the data.
func events(body []byte) iter.Seq[[]byte] {
	switch {
	case bytes.HasPrefix(body, []byte("[")):
		return array(body)
	case bytes.HasPrefix(body, []byte("{")):
		return func(yield func([]byte) bool) {
			for line := range bytes.Lines(body) {
				if line = bytes.TrimSpace(line); len(line) > 0 && !yield(line) {
					return
				}
			}
		}
	}
	return serverSent(body)
}

// array yields the elements of an array, and the rest of one that breaks off as it is.
func array(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c := rawjson.NewCursor(body, object.MaxDepth+1)
		for c.Open('['); c.More(']'); {
			at := c.Pos()
			value := c.Value()
			if value == nil {
				value = bytes.TrimSpace(body[at:])
			}
			if !yield(value) {
				return
			}
		}
	}
}

// serverSent yields the data of server-sent events.
func serverSent(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var l eventLines
		_ = l.write(body, yield) && l.write(endOfEvent, yield)
	}
}

// endOfEvent ends the last event of a stream.
var endOfEvent = []byte("\n\n")

// eventLines finds the events of a stream that comes in pieces.
type eventLines struct {
	line []byte // that has no end yet
	data []byte // of the event that has none
}

// write yields the events that end in the next piece: the data of server-sent ones, and lines that are JSON objects.
// What is yielded is valid until yield returns.
func (l *eventLines) write(piece []byte, yield func([]byte) bool) bool {
	for line := range bytes.Lines(piece) {
		if whole := line[len(line)-1] == '\n'; !whole || len(l.line) > 0 {
			if l.line = append(l.line, line...); !whole {
				break
			}
			line, l.line = l.line, emptied(l.line)
		}
		line = bytes.TrimPrefix(bytes.TrimRight(line, "\r\n"), []byte("\uFEFF"))
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case ok && len(l.data) > 0:
			l.data = append(l.data, '\n')
			fallthrough
		case ok:
			l.data = append(l.data, bytes.TrimPrefix(value, []byte(" "))...)
			continue
		case len(line) > 0 && line[0] == '{':
			l.data = append(l.data, line...)
		case len(line) > 0:
			continue
		}
		event := l.data
		if l.data = emptied(l.data); len(event) > 0 && !yield(event) {
			return false
		}
	}
	return true
}

// emptied returns b for what comes next, unless its memory is too large to be kept for that.
func emptied(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b[:0]
}

// ReplyReader reads a streamed reply as it comes: server-sent events, or lines of JSON. It holds the reply so far, and
// not the stream. The zero value reads from the beginning.
type ReplyReader struct {
	lines eventLines
	reply fold
}

// Write takes the next piece of the stream, and calls each with the events that end in it. An event is valid until each
// returns.
func (r *ReplyReader) Write(piece []byte, each func(event []byte)) {
	r.lines.write(piece, func(event []byte) bool {
		r.reply.take(event)
		each(event)
		return true
	})
}

// End says that the stream has no more pieces.
func (r *ReplyReader) End() { r.Write(endOfEvent, func([]byte) {}) }

// Ended reports whether the last event of the reply has come. Gemini's API marks none.
func (r *ReplyReader) Ended() bool { return r.reply.last }

// Reply is [ParseReply] of the events so far.
func (r *ReplyReader) Reply() (TurnResult, error) {
	err := r.reply.first
	if r.reply.events == 0 {
		err = fmt.Errorf("the stream has no event: %w", io.ErrUnexpectedEOF)
	}
	return readReply(r.reply.whole(err))
}

// fold puts the whole reply together from its events.
type fold struct {
	root   node
	done   bool // the reply has its end
	last   bool // it was the last event
	events int
	first  error
	event  object.Object // in whose memory events are read
}

// all takes all events of a body.
func (f *fold) all(body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("the body is empty: %w", io.ErrUnexpectedEOF)
	}
	for event := range events(body) {
		f.take(event)
	}
	if f.events == 0 {
		return errNoStream
	}
	return f.first
}

// take takes one event. The first error counts; later events are read all the same.
func (f *fold) take(event []byte) {
	f.events++
	if string(event) == "[DONE]" { // the end of OpenAI's chat completions
		f.done, f.last = true, true
		return
	}
	err := f.event.Parse(event)
	if err == nil {
		f.read(&f.event, event)
		err = firstProblem(&f.event)
	}
	if err != nil && f.first == nil {
		f.first = fmt.Errorf("event %d: %w", f.events, err)
	}
}

// read reads one event. One of a type that is not known says nothing about the reply.
func (f *fold) read(o *object.Object, raw []byte) {
	switch typ := o.Text("type"); {
	case o.Has("choices"), o.Text("object") == "chat.completion.chunk":
		f.chat(o)
	case o.Has("candidates"), o.Has("usageMetadata"), o.Has("promptFeedback"):
		f.gemini(o)
	case strings.HasPrefix(typ, "response."):
		f.response(o, typ)
	case o.Has("message") && o.Has("done"):
		f.ollama(o)
	case typ == "error", o.Has("error"):
		if e := o.Raw("error"); e != nil {
			raw = e
		} // else of OpenAI's responses: its members are those of the error
		f.reply().set("error", bytes.Clone(raw))
		f.done = true
	case typ == "MessageEnd", typ == "TurnEnd":
		if m := o.Object("message"); m.Text("role") == "assistant" {
			f.end(o, "message")
		}
	default:
		f.anthropic(o, typ)
	}
}

// end takes a member that is the whole reply.
func (f *fold) end(o *object.Object, key string) {
	if o.Object(key) != nil {
		f.root = bytes.Clone(o.Raw(key))
		f.done = true
	}
}

// reply returns the reply so far.
func (f *fold) reply() *dict {
	d := dictOf(f.root)
	f.root = d
	return d
}

func (f *fold) anthropic(o *object.Object, typ string) {
	switch typ {
	case "message_start":
		f.end(o, "message")
		f.done = false
	case "content_block_start", "content_block_delta":
		at := o.Count("index")
		if at == nil {
			o.Require("index")
			return
		}
		blocks := f.reply().list("content")
		if typ == "content_block_start" && o.Object("content_block") != nil {
			blocks.set(*at, bytes.Clone(o.Raw("content_block")))
		}
		block, delta := blocks.dict(*at), o.Object("delta")
		if piece := delta.Raw("partial_json"); piece != nil {
			block.join("input", piece, true)
		}
		if citation := delta.Raw("citation"); citation != nil {
			citations := block.list("citations")
			citations.set(citations.next, bytes.Clone(citation))
		}
		block.merge(delta, "type", "partial_json", "citation")
	case "message_delta":
		f.reply().setAll(o.Object("delta"))
		f.reply().dict("usage").setAll(o.Object("usage")) // sums so far
	case "message_stop":
		f.done, f.last = true, true
	}
}

func (f *fold) chat(o *object.Object) {
	f.reply().setAll(o, "choices")
	choice := first(o, "choices")
	if choice == nil {
		return
	}
	to := f.reply().list("choices").dict(0)
	if v := choice.Raw("finish_reason"); v != nil {
		to.set("finish_reason", bytes.Clone(v))
		f.done = true
	}
	delta := "delta"
	if !choice.Has(delta) {
		delta = "message" // a server that answers at once
	}
	to.dict("message").merge(choice.Object(delta))
}

func (f *fold) response(o *object.Object, typ string) {
	switch typ {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		f.end(o, "response")
		f.last = true
	case "response.created":
		f.end(o, "response")
		f.done = false
	case "response.output_item.added", "response.output_item.done":
		if at := o.Count("output_index"); at != nil && o.Object("item") != nil {
			f.reply().list("output").set(*at, bytes.Clone(o.Raw("item")))
		}
	case "response.content_part.added", "response.reasoning_summary_part.added":
		if list, at := f.parts(o); list != nil && o.Object("part") != nil {
			list.set(at, bytes.Clone(o.Raw("part")))
		}
	case "response.output_text.delta", "response.reasoning_summary_text.delta":
		if list, at := f.parts(o); list != nil && o.Has("delta") {
			list.dict(at).join("text", o.Raw("delta"), false)
		}
	case "response.function_call_arguments.delta":
		if at := o.Count("output_index"); at != nil && o.Has("delta") {
			f.reply().list("output").dict(*at).join("arguments", o.Raw("delta"), false)
		}
	}
}

// parts returns the parts of the item of the output that an event is about, and the index of the part; nil where it
// states none.
func (f *fold) parts(o *object.Object) (*items, int64) {
	item, at, list := o.Count("output_index"), o.Count("content_index"), "content"
	if o.Has("summary_index") {
		at, list = o.Count("summary_index"), "summary"
	}
	if item == nil || at == nil {
		return nil, 0
	}
	return f.reply().list("output").dict(*item).list(list), *at
}

func (f *fold) gemini(o *object.Object) {
	f.reply().setAll(o, "candidates")
	f.done = f.done || o.Has("promptFeedback")
	candidate := first(o, "candidates")
	if candidate == nil {
		return
	}
	to := f.reply().list("candidates").dict(0)
	to.setAll(candidate, "content")
	f.done = f.done || candidate.Has("finishReason")
	content := candidate.Object("content")
	to.dict("content").setAll(content, "parts")
	for _, raw := range content.List("parts") {
		to.dict("content").list("parts").part(raw)
	}
}

func (f *fold) ollama(o *object.Object) {
	f.reply().setAll(o, "message")
	f.reply().dict("message").merge(o.Object("message"))
	f.done = string(o.Raw("done")) == "true"
	f.last = f.done
}

// part adds a part to those of a Gemini reply. A text continues the text before it.
func (l *items) part(raw []byte) {
	o := object.Of("", raw)
	last := dictOf(l.elements[l.next-1])
	has := func(key string) bool { return last.members[key] != nil }
	if o.Has("text") && has("text") && !has("thoughtSignature") && has("thought") == o.Has("thought") {
		last.setAll(o, "text")
		last.join("text", o.Raw("text"), false)
		l.set(l.next-1, last)
	} else if string(o.Raw("text")) != `""` || o.Has("thoughtSignature") {
		l.set(l.next, bytes.Clone(raw))
	}
}
