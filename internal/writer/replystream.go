package writer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

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

// ReplyReader reads a streamed reply as it comes: server-sent events, or lines of JSON. It holds the reply so far, and
// not the stream. The zero value reads from the beginning.
type ReplyReader struct {
	line []byte // that has no end yet
	data []byte // of the event that has none

	root   node // the reply so far
	done   bool // it has its end
	last   bool // it was the last event
	events int
	first  error
	object object.Object // in whose memory events are read
}

// Write takes the next piece of the stream, and calls each with the events that end in it: the data of server-sent
// ones, and lines that are JSON objects. An event is valid until each returns.
func (r *ReplyReader) Write(piece []byte, each func(event []byte)) {
	for line := range bytes.Lines(piece) {
		if whole := line[len(line)-1] == '\n'; !whole || len(r.line) > 0 {
			if r.line = append(r.line, line...); !whole {
				break
			}
			line, r.line = r.line, emptied(r.line)
		}
		line = bytes.TrimPrefix(bytes.TrimRight(line, "\r\n"), []byte("\uFEFF"))
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case ok && len(r.data) > 0:
			r.data = append(r.data, '\n')
			fallthrough
		case ok:
			r.data = append(r.data, bytes.TrimPrefix(value, []byte(" "))...)
			continue
		case len(line) > 0 && line[0] == '{':
			r.data = append(r.data, line...)
		case len(line) > 0:
			continue
		}
		event := r.data
		if r.data = emptied(r.data); len(event) > 0 {
			r.take(event)
			each(event)
		}
	}
}

// emptied returns b for what comes next, unless its memory is too large to be kept for that.
func emptied(b []byte) []byte {
	if cap(b) > 64<<10 {
		return nil
	}
	return b[:0]
}

// End says that the stream has no more pieces.
func (r *ReplyReader) End() { r.Write([]byte("\n\n"), func([]byte) {}) }

// Ended reports whether the last event of the reply has come. Gemini's API marks none.
func (r *ReplyReader) Ended() bool { return r.last }

// Reply is [ParseReply] of the events so far.
func (r *ReplyReader) Reply() (TurnResult, error) {
	err := r.first
	if r.events == 0 {
		err = fmt.Errorf("the stream has no event: %w", io.ErrUnexpectedEOF)
	}
	return r.result(err)
}

// result returns the reply so far; err is a problem of its events.
func (r *ReplyReader) result(err error) (TurnResult, error) {
	if r.root.empty() {
		return readReply(nil, nil, cmp.Or(err, errNoReply))
	}
	text := r.root.appendTo(nil)
	if !r.done {
		err = cmp.Or(err, fmt.Errorf("the stream ends before the reply: %w", io.ErrUnexpectedEOF))
	}
	o, bad := object.Parse(text)
	if bad != nil {
		o = nil
	}
	return readReply(o, text, cmp.Or(err, bad))
}

// take takes one event. The first error counts; later events are read all the same.
func (r *ReplyReader) take(event []byte) {
	r.events++
	if string(event) == "[DONE]" { // the end of OpenAI's chat completions
		r.done, r.last = true, true
		return
	}
	err := r.object.Parse(event)
	if err == nil {
		r.event(&r.object, event)
		err = firstProblem(&r.object)
	}
	if err != nil && r.first == nil {
		r.first = fmt.Errorf("event %d: %w", r.events, err)
	}
}

// event takes one event. One of a type that is not known says nothing about the reply.
func (r *ReplyReader) event(o *object.Object, raw []byte) {
	switch typ := o.Text("type"); {
	case o.Has("choices"), o.Text("object") == "chat.completion.chunk":
		r.chat(o)
	case o.Has("candidates"), o.Has("usageMetadata"), o.Has("promptFeedback"):
		r.gemini(o)
	case strings.HasPrefix(typ, "response."):
		r.response(o, typ)
	case o.Has("message") && o.Has("done"): // of Ollama
		r.root.setAll(o, "message")
		r.root.child("message").merge(o.Object("message"))
		r.done = string(o.Raw("done")) == "true"
		r.last = r.done
	case typ == "error", o.Has("error"):
		if e := o.Raw("error"); e != nil {
			raw = e
		} // else of OpenAI's responses: its members are those of the error
		r.root.child("error").put(raw)
		r.done = true
	case typ == "MessageEnd", typ == "TurnEnd":
		if m := o.Object("message"); m.Text("role") == "assistant" {
			r.replace(o, "message", true)
		}
	default:
		r.anthropic(o, typ)
	}
}

// replace takes a member that is the reply so far, or all of it.
func (r *ReplyReader) replace(o *object.Object, key string, done bool) {
	if o.Object(key) != nil {
		r.root.put(o.Raw(key))
		r.done = done
	}
}

func (r *ReplyReader) anthropic(o *object.Object, typ string) {
	switch typ {
	case "message_start":
		r.replace(o, "message", false)
	case "content_block_start", "content_block_delta":
		at := o.Count("index")
		if at == nil {
			o.Require("index")
			return
		}
		block, delta := r.root.child("content").element(*at), o.Object("delta")
		if typ == "content_block_start" && o.Object("content_block") != nil {
			block.put(o.Raw("content_block"))
		}
		if piece := delta.Raw("partial_json"); piece != nil {
			block.child("input").join(piece, growsJSON)
		}
		if citation := delta.Raw("citation"); citation != nil {
			list := block.child("citations")
			list.grow(growsArray)
			list.element(list.next).put(citation)
		}
		block.merge(delta, "type", "partial_json", "citation")
	case "message_delta":
		r.root.setAll(o.Object("delta"))
		r.root.child("usage").setAll(o.Object("usage")) // sums so far
	case "message_stop":
		r.done, r.last = true, true
	}
}

func (r *ReplyReader) chat(o *object.Object) {
	r.root.setAll(o, "choices")
	choice := first(o, "choices")
	if choice == nil {
		return
	}
	to := r.root.child("choices").element(0)
	if v := choice.Literal("finish_reason"); len(v) > len(`""`) { // servers have it empty before the end
		to.child("finish_reason").put(v)
		r.done = true
	}
	delta := "delta"
	if !choice.Has(delta) {
		delta = "message" // a server that answers at once
	}
	to.child("message").merge(choice.Object(delta))
}

// responseParts says what events of OpenAI's responses are about: an item of the output, or its part in a list of the
// item; where to is empty, member replaces it, else member continues that string of it.
var responseParts = map[string]struct{ list, member, to string }{
	"response.output_item.added":             {member: "item"},
	"response.output_item.done":              {member: "item"},
	"response.content_part.added":            {list: "content", member: "part"},
	"response.reasoning_summary_part.added":  {list: "summary", member: "part"},
	"response.output_text.delta":             {list: "content", member: "delta", to: "text"},
	"response.reasoning_summary_text.delta":  {list: "summary", member: "delta", to: "text"},
	"response.function_call_arguments.delta": {member: "delta", to: "arguments"},
}

func (r *ReplyReader) response(o *object.Object, typ string) {
	switch typ {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		r.replace(o, "response", true)
		r.last = true
	case "response.created":
		r.replace(o, "response", false)
	}
	e, known := responseParts[typ]
	if !known {
		return
	}
	item, part := o.Count("output_index"), new(int64)
	if e.list != "" {
		part = o.Count(e.list + "_index")
	}
	if item == nil || part == nil {
		return
	}
	to := r.root.child("output").element(*item)
	if e.list != "" {
		to = to.child(e.list).element(*part)
	}
	switch {
	case e.to != "" && o.Has(e.member):
		to.child(e.to).join(o.Raw(e.member), growsString)
	case e.to == "" && o.Object(e.member) != nil:
		to.put(o.Raw(e.member))
	}
}

func (r *ReplyReader) gemini(o *object.Object) {
	r.root.setAll(o, "candidates")
	r.done = r.done || o.Has("promptFeedback")
	candidate := first(o, "candidates")
	if candidate == nil {
		return
	}
	to, content := r.root.child("candidates").element(0), candidate.Object("content")
	to.setAll(candidate, "content")
	r.done = r.done || candidate.Has("finishReason")
	to.child("content").setAll(content, "parts")
	for _, raw := range content.List("parts") {
		to.child("content").child("parts").part(raw)
	}
}

// part adds a part to those of a Gemini reply. A text continues the text before it.
func (n *node) part(raw []byte) {
	o := object.Of("", raw)
	var last node
	if before := n.members[strconv.FormatInt(n.next-1, 10)]; n.kind == growsArray && before != nil {
		last = *before
		last.grow(growsObject)
	}
	has := func(key string) bool { return last.members[key] != nil }
	n.grow(growsArray)
	if o.Has("text") && has("text") && !has("thoughtSignature") && has("thought") == o.Has("thought") {
		last.setAll(o, "text")
		last.child("text").join(o.Raw("text"), growsString)
		*n.element(n.next - 1) = last
	} else if string(o.Raw("text")) != `""` || o.Has("thoughtSignature") {
		n.element(n.next).put(raw)
	}
}
