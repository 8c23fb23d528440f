package writer

import (
	"bytes"
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
	if err = f.read(body); f.root.kind == nodeNone {
		if err == nil {
			err = errNoReply
		}
		return nil, nil, err
	}
	if err == nil && !f.done {
		err = fmt.Errorf("the stream ends before the reply: %w", io.ErrUnexpectedEOF)
	}
	text = f.root.append(nil)
	o, bad := object.Parse(text)
	if err == nil {
		err = bad
	}
	if bad != nil {
		return nil, nil, err
	}
	return o, text, err
}

// streamed reports whether o is an event of a stream.
func streamed(o *object.Object) bool {
	typ, _ := rawjson.String(o.Raw("type"))
	switch typ {
	case "message_start", "content_block_start", "content_block_delta", "message_delta", "MessageEnd", "TurnEnd":
		return true
	}
	return strings.HasPrefix(typ, "response.") || isText(o, "object", "chat.completion.chunk")
}

var errNoStream = errors.New("want a JSON object, an array or lines of these, or server-sent events")

// events returns the JSON texts that a streamed body holds, in their order; of server-sent events the data.
func events(body []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		switch {
		case bytes.HasPrefix(body, []byte("[")):
			c := rawjson.NewCursor(body, object.MaxDepth+1)
			for c.Open('['); c.More(']'); {
				at := c.Pos()
				if value := c.Value(); value != nil {
					if !yield(value) {
						return
					}
				} else {
					yield(bytes.TrimSpace(body[at:]))
				}
			}
		case bytes.HasPrefix(body, []byte("{")):
			for line := range bytes.Lines(body) {
				if line = bytes.TrimSpace(line); len(line) > 0 && !yield(line) {
					return
				}
			}
		default:
			serverSent(body, yield)
		}
	}
}

// serverSent yields the data of server-sent events.
func serverSent(body []byte, yield func([]byte) bool) {
	var data []byte
	lines := 0 // of data
	for line := range bytes.Lines(body) {
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if lines > 0 && !yield(data) {
				return
			}
			lines = 0
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		switch lines++; lines {
		case 1:
			data = value
		case 2:
			data = bytes.Clone(data)
			fallthrough
		default:
			data = append(append(data, '\n'), value...)
		}
	}
	if lines > 0 {
		yield(data)
	}
}

// fold puts the whole reply together from its events.
type fold struct {
	root node
	done bool // the reply has its end
	err  error
}

// read takes all events of a body. The first error counts; later events are read all the same.
func (f *fold) read(body []byte) error {
	if len(body) == 0 {
		return fmt.Errorf("the body is empty: %w", io.ErrUnexpectedEOF)
	}
	n := 0
	for event := range events(body) {
		n++
		if string(event) == "[DONE]" { // the end of OpenAI's chat completions
			f.done = true
			continue
		}
		o, err := object.Parse(event)
		if err == nil {
			f.event(o, event)
			err = firstProblem(o)
		}
		if err != nil && f.err == nil {
			f.err = fmt.Errorf("event %d: %w", n, err)
		}
	}
	if n == 0 {
		return errNoStream
	}
	if place, full := f.root.full(""); full && f.err == nil {
		f.err = fmt.Errorf("%s: more than %d members or pieces, or %d elements", place, object.MaxMembers, object.MaxElements)
	}
	return f.err
}

// event takes one event. One of a type that is not known says nothing about the reply.
func (f *fold) event(o *object.Object, raw []byte) {
	switch typ, _ := rawjson.String(o.Raw("type")); {
	case o.Has("choices"), isText(o, "object", "chat.completion.chunk"):
		f.chat(o)
	case o.Has("candidates"), o.Has("usageMetadata"), o.Has("promptFeedback"):
		f.gemini(o)
	case strings.HasPrefix(typ, "response."):
		f.response(o, typ)
	case typ == "error" && !o.Has("error"): // of OpenAI's responses: its members are those of the error
		f.root.member("error").set(raw)
		f.done = true
	case o.Has("error"):
		f.root.member("error").set(o.Raw("error"))
		f.done = true
	case typ == "MessageEnd", typ == "TurnEnd":
		if m := o.Object("message"); isText(m, "role", "assistant") {
			f.root.set(o.Raw("message"))
			f.done = true
		}
	default:
		f.anthropic(o, typ)
	}
}

func (f *fold) anthropic(o *object.Object, typ string) {
	switch typ {
	case "message_start":
		if o.Object("message") != nil {
			f.root.set(o.Raw("message"))
		}
	case "content_block_start":
		if o.Object("content_block") != nil {
			f.block(o).set(o.Raw("content_block"))
		}
	case "content_block_delta":
		block := f.block(o)
		for key, value := range o.Object("delta").All() {
			switch {
			case key == "type":
			case key == "partial_json":
				block.member("input").join(value, nodeJSON)
			case key == "citation":
				block.member("citations").push(value)
			default:
				block.member(key).merge(key, value)
			}
		}
	case "message_delta":
		for key, value := range o.Object("delta").All() {
			f.root.member(key).set(value)
		}
		for key, value := range o.Object("usage").All() { // sums so far
			f.root.member("usage").member(key).set(value)
		}
	case "message_stop":
		f.done = true
	}
}

// block returns the content block that an event of Anthropic is about.
func (f *fold) block(o *object.Object) *node {
	at := o.Count("index")
	if at == nil {
		o.Require("index")
		return nil
	}
	return f.root.member("content").item(*at)
}

func (f *fold) chat(o *object.Object) {
	for key, value := range o.All() {
		if key != "choices" && value[0] != 'n' {
			f.root.member(key).set(value)
		}
	}
	choice := first(o, "choices")
	if choice == nil {
		return
	}
	to := f.root.member("choices").item(0)
	if v := choice.Raw("finish_reason"); v != nil {
		to.member("finish_reason").set(v)
		f.done = true
	}
	delta := "delta"
	if !choice.Has(delta) {
		delta = "message" // a server that answers at once
	}
	message := to.member("message")
	for key, value := range choice.Object(delta).All() {
		message.member(key).merge(key, value)
	}
}

func (f *fold) response(o *object.Object, typ string) {
	switch typ {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		if o.Object("response") != nil {
			f.root.set(o.Raw("response"))
			f.done = true
		}
	case "response.created":
		if o.Object("response") != nil {
			f.root.set(o.Raw("response"))
		}
	case "response.output_item.done":
		if at := o.Count("output_index"); at != nil && o.Object("item") != nil {
			f.root.member("output").item(*at).set(o.Raw("item"))
		}
	}
}

func (f *fold) gemini(o *object.Object) {
	for key, value := range o.All() {
		if key != "candidates" {
			f.root.member(key).set(value)
		}
	}
	f.done = f.done || o.Has("promptFeedback")
	candidate := first(o, "candidates")
	if candidate == nil {
		return
	}
	to := f.root.member("candidates").item(0)
	for key, value := range candidate.All() {
		if key != "content" {
			to.member(key).set(value)
		}
	}
	f.done = f.done || candidate.Has("finishReason")
	content := candidate.Object("content")
	for key, value := range content.All() {
		if key != "parts" {
			to.member("content").member(key).set(value)
		}
	}
	for _, raw := range content.List("parts") {
		f.part(to.member("content").member("parts"), raw)
	}
}

// part adds a part to those of a Gemini reply. A text continues the text before it.
func (f *fold) part(parts *node, raw []byte) {
	o := object.Of("", raw)
	if last := parts.last(); o.Has("text") && last.find("text") != nil && last.find("thoughtSignature") == nil &&
		(last.find("thought") != nil) == o.Has("thought") {
		for key, value := range o.All() {
			if key == "text" {
				last.member(key).join(value, nodeString)
			} else {
				last.member(key).set(value)
			}
		}
		return
	}
	if isText(o, "text", "") && !o.Has("thoughtSignature") {
		return
	}
	parts.push(raw)
}
