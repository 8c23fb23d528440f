package spans

import (
	"encoding/base64"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"
)

// Content is raw JSON, or text, as it was spelled. It stands in blocks, named by their SHA-256. A block is a text or a
// template. A template is a text in which control characters, which raw JSON cannot contain, refer to what was cut out:
//
//	0x01 SHORTID         the text of that block, as it is
//	0x02 s, 0x02 t       the system prompt and the tool catalogue of the request
//	0x02 m SEP 0x02      its messages, with SEP between them
//	0x02 e               its next message
//	0x02 p               the provenances of its messages as JSON, with commas between them
//	0x01 0x01, 0x01 0x02 the character 0x01, 0x02 of the text itself
//
// References are one level deep: what 0x01 refers to is no template. The second group stands only in the block `rest`
// of a request, and what it refers to are templates without such references.

const (
	// MinLiteral is the length in bytes from which a string literal is a block of its own.
	MinLiteral = 48
	// MaxPiece bounds a block that Cut makes, in bytes.
	MaxPiece = 512 << 10

	markBlock = 0x01
	markPart  = 0x02
)

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
	for {
		i := strings.IndexAny(text, "\x01\x02")
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(append(dst, text[:i]...), markBlock, text[i])
		text = text[i+1:]
	}
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

// Pieces calls yield for each piece of a template until that returns false. Texts share memory with it. The error wraps
// ErrEncoding and holds nothing of the template.
func Pieces(template string, yield func(Piece) bool) error {
	bad := func() error { return fmt.Errorf("spans: template: %w", ErrEncoding) }
	for template != "" {
		i := strings.IndexAny(template, "\x01\x02")
		if i != 0 {
			if i < 0 {
				i = len(template)
			}
			if !yield(Piece{Text: template[:i]}) {
				return nil
			}
			template = template[i:]
			continue
		}
		if len(template) < 2 {
			return bad()
		}
		var p Piece
		n := 2
		switch mark, next := template[0], template[1]; {
		case mark == markBlock && (next == markBlock || next == markPart):
			p.Text = template[1:2]
		case mark == markBlock:
			if n = 1 + shortText; len(template) < n {
				return bad()
			}
			var err error
			if p.Block, err = ParseShortID(template[1:n]); err != nil || p.Block == (ShortID{}) {
				return bad()
			}
		default:
			p.Part = PartKind(next)
			switch p.Part {
			case PartSystem, PartTools, PartMessage, PartProvenance:
			case PartMessages:
				end := strings.IndexByte(template[n:], markPart)
				if end < 0 {
					return bad()
				}
				p.Sep = template[n : n+end]
				n += end + 1
			default:
				return bad()
			}
		}
		if !yield(p) {
			return nil
		}
		template = template[n:]
	}
	return nil
}

// IsPlain reports whether a template is the text itself.
func IsPlain(template string) bool { return !strings.ContainsAny(template, "\x01\x02") }

// Blocks yields the blocks that a template refers to.
func Blocks(template string) iter.Seq[ShortID] {
	return func(yield func(ShortID) bool) {
		_ = Pieces(template, func(p Piece) bool { // what is read before it breaks counts
			return p.Block == (ShortID{}) || yield(p.Block)
		})
	}
}
