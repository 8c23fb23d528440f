// Package genaijson turns messages, as agent loops and providers spell them, into the JSON that the GenAI conventions
// of OpenTelemetry define for gen_ai.input.messages, gen_ai.output.messages and gen_ai.system_instructions, whole or as
// a preview of a bounded size.
//
// It reads the spellings of phi-core, clark-agent, Anthropic, OpenAI (chat messages and items of the responses API),
// content blocks of ACP, and the standard itself, each recognized by its keys alone:
//
//	text, reasoning     parts of these types
//	a call of a tool    tool_call{id, name, arguments}; arguments that are a JSON text inside a string become that JSON
//	its result          tool_call_response{id, name, is_error, response} under the role tool. Response is the text if the
//	                    result is a single one, else the result as it is spelled. Name and is_error are additions.
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
// bound bytes (a bound below [Min] counts as Min), and each string in it that is too long ends with …[+N bytes], N as
// the JSON spells them:
//
//   - the newest messages are kept while they fit; if not all do, each takes an equal share of the room that is left,
//     but no less than a quarter of the bound;
//   - all long strings of a message, or of a value, are cut to the same length, and a blob becomes a text that states
//     its media type and size;
//   - a value that is too large with short strings becomes a string; of a message that still is too large the last parts
//     are kept, behind a text of one character: …
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

// AppendMessages appends the array of gen_ai.input.messages. A message with results of tools and other content becomes
// several.
func AppendMessages(dst []byte, messages [][]byte, bound int) []byte {
	dst, _ = AppendNew(dst, messages, bound, nil)
	return dst
}

// AppendNew is AppendMessages without the results of those calls of tools that elsewhere reports by their ids. It
// returns as well how many of messages the array shows, in whole or in part.
func AppendNew(dst []byte, messages [][]byte, bound int, elsewhere func(callID string) bool) (b []byte, shown int) {
	texts, all := list(messages, limit(bound), elsewhere, false)
	if !all {
		texts, _ = list(messages, limit(bound), elsewhere, true)
	}
	slices.Reverse(texts)
	dst = append(append(dst, '['), bytes.Join(texts, []byte(`,`))...)
	return append(dst, ']'), len(texts)
}

// AppendOutput appends the array of one message of gen_ai.output.messages. The standard requires a finish reason: an
// empty one becomes "unknown".
func AppendOutput(dst, message []byte, finishReason string, bound int) []byte {
	s := style{frame: true, finish: cmp.Or(finishReason, "unknown")}
	return s.one(dst, message, reader{role: "assistant", oneRole: true}, bound)
}

// AppendSystem appends the array of parts of gen_ai.system_instructions. Raw is a string, an array of content blocks,
// or a message.
func AppendSystem(dst, raw []byte, bound int) []byte {
	return style{}.one(dst, raw, reader{oneRole: true}, bound)
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
	text, ok := shorten(raw, limit(bound))
	if !ok {
		text, _ = shorten(rawjson.Quote(nil, string(raw)), limit(bound))
	}
	return append(dst, text...)
}

// limit returns bound as the number of bytes that may be written.
func limit(bound int) int {
	if bound <= 0 {
		return math.MaxInt
	}
	return max(bound, Min)
}

// list writes messages, newest first, until one does not fit in bound, and reports whether all did. If fair is set
// none takes the room of others, and they are cut.
func list(messages [][]byte, bound int, elsewhere func(callID string) bool, fair bool) (texts [][]byte, all bool) {
	left := bound - len(`[]`)
	for i, raw := range slices.Backward(messages) {
		r := reader{role: roleUnknown}
		parts := r.read(raw, bound)
		if elsewhere != nil {
			parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Type == "tool_call_response" && elsewhere(p.ID) })
		}
		if len(parts) == 0 {
			continue
		}
		s := style{frame: true}
		text := s.render(parts, whole, false)
		if fair {
			if text = s.message(parts, min(left, max(left/(i+1), bound/4))); text == nil {
				text = s.message(parts, left)
			}
		}
		if text == nil || len(text) > left {
			return texts, false
		}
		left -= len(text) + len(`,`)
		texts = append(texts, text)
	}
	return texts, true
}

// style is how the parts of a message are written.
type style struct {
	frame  bool   // they stand in messages with a role
	finish string // finish reason of these, or empty
}

// one appends an array of one message, or of its parts.
func (s style) one(dst, raw []byte, r reader, bound int) []byte {
	room := limit(bound) - len(`[]`)
	text := s.message(r.read(raw, room), room)
	if text == nil {
		text = s.message([]Part{{Role: r.role}}, room)
	}
	return append(append(append(dst, '['), text...), ']')
}

// message writes a message in room bytes; nil if even its last part does not fit.
func (s style) message(parts []Part, room int) []byte {
	if text := s.render(parts, whole, false); len(text) <= room {
		return text
	}
	for cut := false; len(parts) > 0; parts, cut = parts[(len(parts)+1)/2:], true {
		for _, f := range []form{short, flat} {
			if text, ok := shorten(s.render(parts, f, cut), room); ok {
				return text
			}
		}
	}
	return nil
}

// form is how the content of parts is written.
type form int

const (
	whole form = iota
	short      // a blob is a text that states its media type and size
	flat       // and other values that are long are strings
)

// omitted stands for parts of a message that are left out.
const omitted = `{"type":"text","content":"…"},`

// render writes a message of parts; if cut is set, they are the last ones of it.
func (s style) render(parts []Part, f form, cut bool) (dst []byte) {
	end := ""
	if s.frame {
		if end = "]}"; s.finish != "" {
			end = string(append(rawjson.Quote([]byte(`],"finish_reason":`), s.finish), '}'))
		}
	}
	for i := range parts {
		p := &parts[i]
		opens := s.frame && (i == 0 || p.Role != parts[i-1].Role)
		if i > 0 && opens {
			dst = append(dst, end...)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if opens {
			dst = append(rawjson.Quote(append(dst, `{"role":`...), p.Role), `,"parts":[`...)
		}
		if i == 0 && cut {
			dst = append(dst, omitted...)
		}
		dst = p.append(dst, f)
	}
	return append(dst, end...)
}

// append writes p.
func (p *Part) append(dst []byte, f form) []byte {
	content, key := p.Content, p.key
	switch {
	case f == whole || len(content) <= minString:
	case p.Type == "blob":
		note := fmt.Sprintf("[%s, %d bytes]", cmp.Or(p.MIME, p.Modality), len(content)/4*3)
		p = &Part{Type: "text"}
		content, key = rawjson.Quote(nil, note), "content"
	case f == flat && !isString(content):
		content, key = rawjson.Quote(nil, string(content)), cmp.Or(key, "value")
	}
	if key == "" {
		return append(dst, content...)
	}
	dst = rawjson.Quote(append(dst, `{"type":`...), p.Type)
	for _, m := range [...][2]string{{"modality", p.Modality}, {"id", p.ID}, {"name", p.Name}, {"mime_type", p.MIME}} {
		if m[1] != "" {
			dst = rawjson.Quote(append(append(append(dst, `,"`...), m[0]...), `":`...), m[1])
		}
	}
	if p.IsError {
		dst = append(dst, `,"is_error":true`...)
	}
	dst = append(append(append(dst, `,"`...), key...), `":`...)
	return append(append(dst, content...), '}')
}

// minString is the length up to which strings are not cut.
const minString = 40

// shorten returns the JSON value raw in at most room bytes, all its long strings cut to one length. It reports false if
// that is not enough.
func shorten(raw []byte, room int) ([]byte, bool) {
	if len(raw) <= room {
		return raw, true
	}
	long, fixed := 0, len(raw)
	for start, end := range stringsOf(raw) {
		if end-start > minString {
			long++
			fixed -= end - start
		}
	}
	if long == 0 || (room-fixed)/long < minString {
		return nil, false
	}
	var dst []byte
	done := 0
	for start, end := range stringsOf(raw) {
		if end-start > minString {
			dst = appendCut(append(dst, raw[done:start]...), raw[start:end], (room-fixed)/long)
			done = end
		}
	}
	return append(dst, raw[done:]...), true
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
func charLen(b []byte) int {
	switch {
	case b[0] != '\\':
		_, n := utf8.DecodeRune(b)
		return n
	case b[1] != 'u':
		return 2
	case len(b) >= 12 && b[2]|0x20 == 'd' && b[6] == '\\' && b[7] == 'u':
		return 12 // mostly a pair that makes one character
	}
	return 6
}
