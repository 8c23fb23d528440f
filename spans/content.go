package spans

import (
	"bytes"
	"encoding/base64"
	"iter"
	"strings"
	"sync"
	"unicode/utf8"
)

// Content is raw JSON, or text, as it was spelled. It is in blocks, named by their SHA-256. A block is a text or a
// template. A template is a text in which control characters, which raw JSON cannot contain, refer to what was cut out:
//
//	0x01 SHORTID     the text of that block, as it is
//	0x02 s, 0x02 t   the system prompt and the tool catalogue of the request
//	0x02 m SEP 0x02  its messages, with SEP between them
//	0x02 e           its next message
//	0x02 p           the provenances of its messages as JSON, with commas between them
//	0x03 C           a word that messages often contain: words holds it at C - '0'
//	0x01 C           the character C of the text itself, 0x01 to 0x03
//
// References are one level deep: what 0x01 refers to is no template. The second group is only in the block `rest`
// of a request, and what it refers to are templates without such references.

const (
	// MinLiteral is the length in bytes from which a string literal is a block of its own.
	MinLiteral = 48
	// MaxPiece bounds a block that Cut makes, in bytes.
	MaxPiece = 512 << 10

	markBlock = 0x01
	markPart  = 0x02
	markWord  = 0x03

	marks = "\x01\x02\x03"
)

// words are frequent in the JSON of messages and tools of all providers. A template names each by its position, so
// words are only added at the end. None begins another.
var words = strings.Fields(`
"type":"text" "text": "content": "role":"user" "role":"assistant" "role":"system" "role":"tool" "role":"toolResult"
"role":"model" "parts": "timestamp": "model": "provider": "usage": "name": "id": "status": "metadata":
"type":"thinking" "thinking": "signature": "stopReason": "stop_reason": "finish_reason": "toolUse" "tool_use"
"type":"toolCall" "type":"tool_use" "type":"tool_result" "type":"function" "type":"tool-call" "type":"tool-result"
"toolCallId": "toolName": "tool_calls": "tool_call_id": "tool_use_id": "call_id": "function": "arguments": "input":
"output": "result": "isError":false "isError":true "is_error": "details": "turnId": "loopId": "turnIndex":
"reasoning": "cache_read": "cache_write": "total_tokens": "cache_control":{"type":"ephemeral"} "path":
"type":"object" "type":"string" "type":"integer" "type":"boolean" "type":"array" "description": "properties":
"required": "additionalProperties":false "parameters": "items": "default": "minimum":`)

// inTemplate replaces what is in another way in a template.
var inTemplate = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for i, word := range words {
		pairs = append(pairs, word, string([]byte{markWord, '0' + byte(i)}))
	}
	for _, mark := range marks {
		pairs = append(pairs, string(mark), string([]rune{markBlock, mark}))
	}
	return strings.NewReplacer(pairs...)
})

// PartKind is a piece of a request that its block `rest` refers to.
type PartKind byte

// The parts of a request.
const (
	PartSystem     PartKind = 's'
	PartTools      PartKind = 't'
	PartMessages   PartKind = 'm'
	PartMessage    PartKind = 'e'
	PartProvenance PartKind = 'p'
)

// Piece is one piece of a template: a text, a block, or a part of a request.
type Piece struct {
	Text  string
	Block ShortID // of a block, else zero
	Part  PartKind
	Sep   string // between messages, of PartMessages
}

// Cut appends the template of raw, which is UTF-8, to dst. It calls block for each text that is cut out, in order;
// block returns the name of the text, which shares memory with raw. A literal that is all of raw stays.
func Cut(dst []byte, raw string, block func(text string) ShortID) []byte {
	start := len(dst)
	at, from := 0, 0 // from is where the text begins that was not written yet
	for at < len(raw) {
		i := strings.IndexByte(raw[at:], '"')
		if i < 0 {
			break
		}
		begin := at + i
		at = literalEnd(raw, begin)
		if at-begin < MinLiteral || at-begin == len(raw) && at-begin <= MaxPiece {
			continue
		}
		dst = appendPlain(dst, raw[from:begin])
		dst = appendPieces(dst, raw[begin:at], block)
		from = at
	}
	dst = appendPlain(dst, raw[from:])
	if len(dst)-start > MaxPiece {
		return appendPieces(dst[:start], raw, block)
	}
	return dst
}

// literalEnd returns where the string literal ends that begins at a quote; the end of raw where it does not.
func literalEnd(raw string, begin int) int {
	for at := begin + 1; ; {
		i := strings.IndexByte(raw[at:], '"')
		if i < 0 {
			return len(raw)
		}
		at += i + 1
		back := at - 2
		for back > begin && raw[back] == '\\' {
			back--
		}
		if (at-2-back)%2 == 0 {
			return at
		}
	}
}

// appendPieces appends references to text, in blocks of at most MaxPiece bytes, cut between runes.
func appendPieces(dst []byte, text string, block func(text string) ShortID) []byte {
	for len(text) > 0 {
		n := min(len(text), MaxPiece)
		for n < len(text) && n > MaxPiece-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		id := block(text[:n])
		dst = base64.RawURLEncoding.AppendEncode(append(dst, markBlock), id[:])
		text = text[n:]
	}
	return dst
}

// appendPlain appends text that is not cut.
func appendPlain(dst []byte, text string) []byte {
	b := bytes.NewBuffer(dst)
	_, _ = inTemplate().WriteString(b, text) // a buffer takes all
	return b.Bytes()
}

// AppendPart appends a reference to a part of a request. sep is that of PartMessages and holds no control characters
// but blanks.
func AppendPart(dst []byte, part PartKind, sep string) []byte {
	dst = append(dst, markPart, byte(part))
	if part == PartMessages {
		dst = append(append(dst, sep...), markPart)
	}
	return dst
}

// Pieces calls yield for each piece of a template until that returns false.
func Pieces(template string, yield func(Piece) bool) error {
	var text []byte
	flush := func() bool {
		more := len(text) == 0 || yield(Piece{Text: string(text)})
		text = text[:0]
		return more
	}
	for template != "" {
		i := strings.IndexAny(template, marks)
		if i < 0 {
			i = len(template)
		}
		text, template = append(text, template[:i]...), template[i:]
		if len(template) == 1 {
			return ErrEncoding
		}
		if template == "" {
			break
		}
		if len(text) >= MaxPiece && !flush() {
			return nil
		}
		var p Piece
		n := 2
		switch mark, next := template[0], template[1]; {
		case mark == markWord:
			if next < '0' || int(next-'0') >= len(words) {
				return ErrEncoding
			}
			text = append(text, words[next-'0']...)
		case mark == markBlock && next <= markWord:
			text = append(text, next)
		case mark == markBlock:
			if n = 1 + shortText; len(template) < n {
				return ErrEncoding
			}
			if p.Block, _ = ParseShortID(template[1:n]); p.Block == (ShortID{}) {
				return ErrEncoding
			}
		default:
			p.Part = PartKind(next)
			switch p.Part {
			case PartSystem, PartTools, PartMessage, PartProvenance:
			case PartMessages:
				end := strings.IndexByte(template[n:], markPart)
				if end < 0 {
					return ErrEncoding
				}
				p.Sep = template[n : n+end]
				n += end + 1
			default:
				return ErrEncoding
			}
		}
		if p != (Piece{}) && !(flush() && yield(p)) {
			return nil
		}
		template = template[n:]
	}
	flush()
	return nil
}

// Template returns the template of a text of which nothing is cut out: the text itself, if that IsPlain.
func Template(text string) string {
	if IsPlain(text) {
		return text
	}
	return string(appendPlain(nil, text))
}

// IsPlain reports whether a template is the text itself.
func IsPlain(template string) bool { return !strings.ContainsAny(template, marks) }

// Blocks yields the blocks that a template refers to.
func Blocks(template string) iter.Seq[ShortID] {
	return func(yield func(ShortID) bool) {
		_ = Pieces(template, func(p Piece) bool { // what is read before it breaks counts
			return p.Block == (ShortID{}) || yield(p.Block)
		})
	}
}
