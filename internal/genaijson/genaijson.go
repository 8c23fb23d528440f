// Package genaijson turns messages, as agent loops and providers spell them, into the JSON that the GenAI conventions
// of OpenTelemetry define for gen_ai.input.messages, gen_ai.output.messages and gen_ai.system_instructions, whole or as
// a preview of a bounded size.
//
// It reads the spellings of phi-core, clark-agent, Anthropic, OpenAI (chat messages and items of the responses API),
// Gemini, Bedrock, Ollama, the AI SDK, LangChain, content blocks of ACP, and the standard itself, each recognized by
// its keys. Of a whole request or response it reads the messages:
//
//	text, reasoning     parts of these types
//	a call of a tool    tool_call{id, name, arguments}; arguments that are a JSON text inside a string become that JSON
//	its result          tool_call_response{id, name, is_error, response} under the role tool. Response is the text if the
//	                    result is a single one, the value of a result of the AI SDK, else the result as it is spelled.
//	                    Name and is_error are additions.
//	images, files ...   blob, uri or file; a data URL is a blob
//	extension messages  {type: extension, name, data}
//	an error message    {type: error, content}
//	hidden reasoning    {type: encrypted_reasoning, value} if there is no text of it
//	other blocks        as they are, if they have a type: a part of that type
//	anything else       a text part that holds it as it is spelled
//
// It drops what describes a message and is no content of it (usage, model, times, ids of messages), what tools and
// users get to see but models do not (details, narration), and signatures of reasoning. Invalid UTF-8 becomes U+FFFD.
// The cost is linear in the input.
//
// # Previews
//
// Every function appends one valid JSON value to dst. A bound of 0 or less cuts nothing. Else the value has at most
// bound bytes (a bound below [Min] counts as Min), and each text in it that is too long ends with …[+N bytes], N as the
// JSON spells them:
//
//   - the newest messages are kept while they fit; if not all do, each takes an equal share of the room that is left,
//     but no less than a quarter of the bound, and each of its parts an equal share of that; of parts that do not fit
//     at their least length the last half is kept, and so on;
//   - in arguments, results and other values the long strings are cut; a value that is too large without them becomes
//     a string;
//   - a blob becomes a text that states its media type and size;
//   - roles, types, ids, names and media types take at most a tenth of the bound each.
package genaijson

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Min is the least bound: a smaller one counts as Min.
const Min = 320

// AppendNew appends the array of gen_ai.input.messages, without the results of those calls of tools that elsewhere
// reports by their ids; nil reports none. A message with results of tools and other content becomes several. AppendNew
// returns as well how many of messages the array shows, in whole or in part.
func AppendNew(dst []byte, messages [][]byte, bound int, elsewhere func(callID string) bool) (b []byte, shown int) {
	w := newWriter(bound)
	w.frame = true
	texts, all := w.list(messages, elsewhere, false)
	if !all {
		texts, _ = w.list(messages, elsewhere, true)
	}
	start := len(dst)
	for _, text := range slices.Backward(texts) {
		dst = append(append(dst, ','), text...)
	}
	return rawjson.Enclose(dst, start, "[]"), len(texts)
}

// AppendOutput appends the array of one message of gen_ai.output.messages. The standard requires a finish reason: an
// empty one becomes "unknown".
func AppendOutput(dst, message []byte, finishReason string, bound int) []byte {
	w := newWriter(bound)
	w.frame, w.finish = true, cmp.Or(finishReason, "unknown")
	return w.one(dst, message, reader{role: "assistant", oneRole: true})
}

// AppendSystem appends the array of parts of gen_ai.system_instructions. Raw is a string, an array of content blocks,
// or a message.
func AppendSystem(dst, raw []byte, bound int) []byte {
	return newWriter(bound).one(dst, raw, reader{oneRole: true})
}

// AppendValue appends any JSON value, such as the arguments of a tool. Raw that is not JSON becomes a string; nothing
// becomes null.
func AppendValue(dst, raw []byte, bound int) []byte {
	raw = bytes.TrimSpace(validUTF8(raw))
	switch {
	case len(raw) == 0:
		raw = null
	case rawjson.Valid(raw, rawjson.MaxDepth) != nil:
		raw = rawjson.Quote(nil, string(raw))
	}
	return appendValue(dst, raw, limit(bound))
}

// limit returns bound as the number of bytes that may be written.
func limit(bound int) int {
	if bound <= 0 {
		return math.MaxInt
	}
	return max(bound, Min)
}

// A writer writes the parts of messages.
type writer struct {
	frame  bool   // parts are in messages with a role
	finish string // finish reason of these, or empty
	room   int    // for all
	name   int    // for a name
}

func newWriter(bound int) *writer { return &writer{room: limit(bound), name: limit(bound) / 10} }

// minContent is the room that the content of a part gets at least.
const minContent = 48

// list writes messages, newest first, until one does not fit, and reports whether all did. If fair is set none takes
// the room of others.
func (w *writer) list(messages [][]byte, elsewhere func(callID string) bool, fair bool) (texts [][]byte, all bool) {
	left := w.room - len(`[]`)
	for i, raw := range slices.Backward(messages) {
		parts := (&reader{role: roleUnknown}).read(raw)
		if elsewhere != nil {
			parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Type == "tool_call_response" && elsewhere(p.ID) })
		}
		if len(parts) == 0 {
			continue
		}
		room := left
		if fair {
			room = min(left, max(left/(i+1), w.room/4))
		}
		text := w.message(parts, room)
		if len(text) > left {
			return texts, false
		}
		left -= len(text) + len(`,`)
		texts = append(texts, text)
	}
	return texts, true
}

// one appends an array of one message, or of its parts.
func (w *writer) one(dst, raw []byte, r reader) []byte {
	room := w.room - len(`[]`)
	text := w.message(r.read(raw), room)
	if len(text) > room {
		text = w.parts([]Part{{Role: r.role}}, false, 0)
	}
	return append(append(append(dst, '['), text...), ']')
}

// message writes a message in room bytes, or in more if it needs them.
func (w *writer) message(parts []Part, room int) []byte {
	text := w.parts(parts, false, room)
	for n := len(parts); len(text) > room && n > 0; n /= 2 {
		cut := n < len(parts)
		around := len(w.parts([]Part{{Role: parts[0].Role}}, cut, 0))
		text = w.parts(parts[len(parts)-n:], cut, (room-around)*7/8/n) // the rest is for other roles and commas
	}
	return text
}

// omitted stands for parts of a message that are left out.
const omitted = `{"type":"text","content":"…"},`

// parts writes a message of parts, each in share bytes.
func (w *writer) parts(parts []Part, cut bool, share int) (dst []byte) {
	for i := range parts {
		p := &parts[i]
		opens := w.frame && (i == 0 || p.Role != parts[i-1].Role)
		if i > 0 && opens {
			dst = w.close(dst)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if opens {
			dst = w.open(dst, p)
		}
		if i == 0 && cut {
			dst = append(dst, omitted...)
		}
		dst = w.part(dst, p, share)
	}
	if w.frame {
		dst = w.close(dst)
	}
	return dst
}

func (w *writer) open(dst []byte, p *Part) []byte {
	return append(w.bounded(append(dst, `{"role":`...), p.Role), `,"parts":[`...)
}

func (w *writer) close(dst []byte) []byte {
	dst = append(dst, ']')
	if w.finish != "" {
		dst = w.bounded(append(dst, `,"finish_reason":`...), w.finish)
	}
	return append(dst, '}')
}

func (w *writer) bounded(dst []byte, text string) []byte {
	return appendCut(dst, rawjson.Quote(nil, text), w.name)
}

// part writes p in room bytes, or in more if it needs them.
func (w *writer) part(dst []byte, p *Part, room int) []byte {
	if p.Type == "" {
		return dst
	}
	if p.key == "" && len(p.Content) <= room {
		return append(dst, p.Content...)
	}
	if p.Type == "blob" && len(p.Content) > room {
		note := fmt.Sprintf("[%s, %d bytes]", cmp.Or(p.MIME, p.Modality), len(p.Content)/4*3)
		p = &Part{Type: "text", key: "content", Content: rawjson.Quote(nil, note)}
	}
	start := len(dst)
	dst = w.bounded(append(dst, `{"type":`...), p.Type)
	for _, m := range [...][2]string{{"modality", p.Modality}, {"id", p.ID}, {"name", p.Name}, {"mime_type", p.MIME}} {
		if m[1] != "" {
			dst = w.bounded(append(append(append(dst, `,"`...), m[0]...), `":`...), m[1])
		}
	}
	if p.IsError {
		dst = append(dst, `,"is_error":true`...)
	}
	dst = append(append(append(dst, `,"`...), cmp.Or(p.key, "value")...), `":`...)
	return append(appendValue(dst, p.Content, max(room-(len(dst)-start)-len(`}`), minContent)), '}')
}

// appendValue writes the JSON value raw, or what room, minContent or more, has place for.
func appendValue(dst, raw []byte, room int) []byte {
	if len(raw) <= room {
		return append(dst, raw...)
	}
	if isString(raw) {
		return appendCut(dst, raw, room)
	}
	long, fixed := 0, len(raw)
	for start, end := range stringsOf(raw) {
		if end-start > minContent {
			long++
			fixed -= end - start
		}
	}
	if long == 0 || (room-fixed)/long < minContent {
		return appendCut(dst, rawjson.Quote(nil, string(raw)), room)
	}
	done := 0
	for start, end := range stringsOf(raw) {
		if end-start > minContent {
			dst = appendCut(append(dst, raw[done:start]...), raw[start:end], (room-fixed)/long)
			done = end
		}
	}
	return append(dst, raw[done:]...)
}

// stringsOf yields the start and the end of every string in the JSON value raw, keys included.
func stringsOf(raw []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for i := 0; i < len(raw); i++ {
			if raw[i] != '"' {
				continue
			}
			start := i
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
			if !yield(start, i+1) {
				return
			}
		}
	}
}

// appendCut writes the JSON string raw, or the beginning of it with a mark of how much is missing, in at most room
// bytes, which are 32 or more.
func appendCut(dst, raw []byte, room int) []byte {
	if len(raw) <= room {
		return append(dst, raw...)
	}
	text := raw[1 : len(raw)-1]
	room -= len(`"…[+ bytes]"`) + len(fmt.Sprint(len(text)))
	n := 0
	for n+charLen(text[n:]) <= room {
		n += charLen(text[n:])
	}
	return fmt.Appendf(append(append(dst, '"'), text[:n]...), `…[+%d bytes]"`, len(text)-n)
}

// charLen returns the length of the first character of b, which is from inside a JSON string, or of its escape.
func charLen(b []byte) (n int) {
	if b[0] == '\\' {
		_, n = rawjson.Unescape(b)
	} else {
		_, n = utf8.DecodeRune(b)
	}
	return n
}
