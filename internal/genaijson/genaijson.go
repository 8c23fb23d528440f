// Package genaijson turns messages, as agent loops and providers spell them, into the JSON that the GenAI conventions of
// OpenTelemetry want in gen_ai.input.messages, gen_ai.output.messages, gen_ai.system_instructions and gen_ai.tool.definitions,
// cut to a size where one is given.
//
// It reads the spellings of phi-core, clark-agent, Anthropic, OpenAI (chat messages and items of the responses API), content
// blocks of ACP, and the standard itself, each recognized by its words alone:
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
// Left out is what describes a message and is no content of it (usage, model, times, ids of messages), what tools and users
// get to see but models do not (details, narration), and signatures of reasoning.
//
// Numbers and strings are copied as they are spelled. What is not UTF-8 becomes U+FFFD. The cost is linear in the input, whatever it is.
//
// # Sizes
//
// Every function appends one JSON value to dst. A max of 0 or less cuts nothing. Else the value has at most max bytes (no max
// counts as less than [Min]) and is what it is without a max if that fits. If not, blobs give way to a text part with their media
// type and size, room is shared so that the longest texts are cut first, and of a list too long for that the beginning is left out.
// Every cut leaves a mark that says how much is gone: "[cut: ...]" or "[left out: ...]". Ids, names and media types of more
// than 128 bytes are always cut, and a role of more than 40 is said to be unknown.
package genaijson

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Min is the least max: a smaller one counts as Min.
const Min = 320

const (
	maxWord = 40  // of roles and finish reasons, as JSON, where there is a max
	maxID   = 128 // of ids, names and media types
	maxNote = 80  // of a part that says what was left out, with a comma
)

var (
	roleUnknown   = []byte(`"unknown"`)
	roleAssistant = []byte(`"assistant"`)
	roleTool      = []byte(`"tool"`)
)

// AppendMessages appends the array that gen_ai.input.messages wants. The last messages are kept: if not all fit, a text part
// before the first one kept says how many are missing. A message with results of tools and other content becomes several.
func AppendMessages(dst []byte, messages [][]byte, max int) []byte {
	return appendMessages(dst, messages, roleUnknown, frame{open: "[", close: "]", messages: true}, max)
}

// AppendOutput appends the array of one message that gen_ai.output.messages wants. An empty finishReason, which the standard does not allow,
// becomes "unknown". If not all parts fit, the last are kept.
func AppendOutput(dst, message []byte, finishReason string, max int) []byte {
	var memory [maxWord]byte
	if finishReason == "" {
		finishReason = "unknown"
	}
	finish := rawjson.Quote(memory[:0], finishReason)
	if max > 0 && len(finish) > maxWord {
		finish = append(finish[:1+prefix(finish[1:len(finish)-1], maxWord-2)], '"')
	}
	return appendMessages(dst, [][]byte{message}, roleAssistant, frame{open: "[", close: "]", messages: true, finish: finish}, max)
}

// AppendSystem appends the array of parts that gen_ai.system_instructions wants. Raw is a string, an array of content blocks, or a message.
func AppendSystem(dst, raw []byte, max int) []byte {
	return appendMessages(dst, [][]byte{raw}, nil, frame{open: "[", close: "]"}, max)
}

// AppendValue appends any JSON value, such as arguments of a tool. If it has to be cut, long strings in it are; if that does
// not do, the later members of its arrays and objects go, each list of them saying so in a last one. What is not JSON
// becomes a string.
func AppendValue(dst, raw []byte, max int) []byte {
	raw = validUTF8(raw)
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	value := c.Value()
	if c.End() != nil {
		if len(bytes.TrimSpace(raw)) == 0 {
			return append(dst, "null"...)
		}
		return appendPlain(dst, raw, limit(max))
	}
	return appendValue(dst, value, limit(max))
}

// limit returns max as the number of bytes that may be written.
func limit(most int) int {
	if most <= 0 {
		return math.MaxInt
	}
	return max(most, Min)
}

func validUTF8(raw []byte) []byte {
	if utf8.Valid(raw) {
		return raw
	}
	return bytes.ToValidUTF8(raw, []byte("\uFFFD"))
}

// A frame is what stands around parts.
type frame struct {
	open, close string
	messages    bool   // parts stand in messages with a role
	finish      []byte // finish reason of messages, a JSON string, or nil
}

// size returns the size of a message with that role without parts. It takes no comma: parts count one each, and its first has none.
func (f *frame) size(role []byte) int {
	if !f.messages {
		return 0
	}
	n := len(`{"role":,"parts":[]}`) + len(role)
	if f.finish != nil {
		n += len(`,"finish_reason":`) + len(f.finish)
	}
	return n
}

func appendMessages(dst []byte, messages [][]byte, fallback []byte, f frame, max int) []byte {
	r := readers.Get().(*reader)
	defer r.free()
	r.fallback = fallback
	r.oneRole = !f.messages || f.finish != nil
	dst = append(dst, f.open...)
	begin := len(dst)
	if max <= 0 {
		r.most = math.MaxInt
		for i, raw := range messages {
			r.parts = r.parts[:0]
			r.message(i, raw)
			dst = f.append(dst, begin, r.parts, math.MaxInt, false)
		}
		return append(dst, f.close...)
	}
	max = limit(max)
	r.most = max / len(`{"type":""}`)
	parts, share, cut := r.choose(messages, &f, max-len(f.open)-len(f.close)+len(`,`))
	return append(f.append(dst, begin, parts, share, cut), f.close...)
}

// choose returns the parts of messages to be written within room, which includes a comma before the first, oldest first, how much content each may have, and whether
// that is less than all.
func (r *reader) choose(messages [][]byte, f *frame, room int) (parts []part, share int, cut bool) {
	// Parts of less than that make room for older ones only after these are gone.
	least := max(64, room/8)
	whole, sum, kept := 0, 0, 0
	i := len(messages)
read:
	for i > 0 {
		i--
		start := len(r.parts)
		r.message(i, messages[i])
		// Newest first, until it is known how many are kept.
		slices.Reverse(r.parts[start:])
		for k := start; k < len(r.parts); k++ {
			p := &r.parts[k]
			p.measure(&r.scratch)
			if k == 0 || !p.follows(&r.parts[k-1]) {
				p.around = f.size(p.role)
			}
			whole += p.around + p.whole
			sum += p.around + min(p.whole, p.head+min(p.size, least))
			if sum <= room-maxNote {
				kept = k + 1
			}
			if sum > room {
				cut = true
				break read
			}
		}
	}
	if !cut && whole <= room {
		slices.Reverse(r.parts)
		return r.parts, math.MaxInt, false
	}
	if cut {
		room -= maxNote
		r.parts = append(r.parts[:kept], r.leftOut(len(messages), i, kept))
	} else {
		kept = len(r.parts)
	}
	var s shares
	for k := range r.parts[:kept] {
		p := &r.parts[k]
		room -= p.around + p.head
		s.add(p.size)
	}
	// What was found to fit above fits; shares may find a little less.
	share = max(least, s.share(room))
	slices.Reverse(r.parts)
	return r.parts, share, true
}

// leftOut returns a part that says what is left out if only kept of the parts read so far are kept, of messages of which those before
// number i have not been read.
func (r *reader) leftOut(messages, i, kept int) part {
	if kept == 0 {
		p := part{message: r.parts[0].message, role: r.parts[0].role}
		if messages > 1 {
			return p.note(messages, 0)
		}
		return p.note(0, len(r.parts)+r.dropped)
	}
	oldest := r.parts[kept-1]
	n := 0
	for k := kept; k < len(r.parts) && r.parts[k].message == oldest.message; k++ {
		n++
	}
	if oldest.message == i {
		n += r.dropped
	}
	return oldest.note(oldest.message, n)
}

// append writes parts, whose messages begin at begin of dst, with share bytes of content each.
func (f *frame) append(dst []byte, begin int, parts []part, share int, cut bool) []byte {
	for k := range parts {
		p := &parts[k]
		if f.messages && (k == 0 || !p.follows(&parts[k-1])) {
			if k > 0 {
				dst = f.end(dst)
			}
			if len(dst) > begin {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, `{"role":`...), p.role...), `,"parts":[`...)
		} else if len(dst) > begin && dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = p.append(dst, share, cut)
	}
	if f.messages && len(parts) > 0 {
		dst = f.end(dst)
	}
	return dst
}

func (f *frame) end(dst []byte) []byte {
	dst = append(dst, ']')
	if f.finish != nil {
		dst = append(append(dst, `,"finish_reason":`...), f.finish...)
	}
	return append(dst, '}')
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// free gives the memory of r back, but not what was ever as large as messages seldom are, and no reference to the input.
func (r *reader) free() {
	if cap(r.parts) > 128 || cap(r.arena) > 1<<16 {
		return
	}
	clear(r.parts[:cap(r.parts)])
	*r = reader{parts: r.parts[:0], arena: r.arena[:0], scratch: r.scratch[:0]}
	readers.Put(r)
}
