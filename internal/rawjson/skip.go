package rawjson

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// The functions of this file return the position after the token at i and "", or the position of what is wrong and
// the reason.

// wrong returns the reason why the text at i is wrong.
func wrong(b []byte, i int, reason string) (int, string) {
	if i >= len(b) {
		return i, cut
	}
	return i, reason
}

// skip steps over a value.
func skip(b []byte, i, depth int) (int, string) {
	if i >= len(b) {
		return i, cut
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i, depth)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return skipNumber(b, i)
	}
	return skipLiteral(b, i)
}

// skipNested is skip of an object or array.
func skipNested(b []byte, i, depth int) (int, string) {
	if depth == 0 {
		return i, tooDeep
	}
	object, bracket := b[i] == '{', b[i]+2
	if i = blank(b, i+1); i < len(b) && b[i] == bracket {
		return i + 1, ""
	}
	for reason := ""; ; i = blank(b, i+1) {
		if object {
			if i >= len(b) || b[i] != '"' {
				return wrong(b, i, badKey)
			}
			if i, reason = skipString(b, i); reason != "" {
				return i, reason
			}
			if i = blank(b, i); i >= len(b) || b[i] != ':' {
				return wrong(b, i, badColon)
			}
			i = blank(b, i+1)
		}
		if i, reason = skip(b, i, depth-1); reason != "" {
			return i, reason
		}
		switch i = blank(b, i); {
		case i < len(b) && b[i] == bracket:
			return i + 1, ""
		case i >= len(b) || b[i] != ',':
			return wrong(b, i, badComma)
		}
	}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipString looks at eight bytes at once for a quote, a backslash or a control character: a byte of w is zero after
// the xor, or less than 0x20, exactly where the lowest bit of stops is set.
func skipString(b []byte, i int) (int, string) {
	for i++; ; i += 2 {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, slash := w^(ones*'"'), w^(ones*'\\')
			stops := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*0x20)&^w) & highs
			if stops != 0 {
				i += bits.TrailingZeros64(stops) >> 3
				if b[i] == '"' {
					return i + 1, ""
				}
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
			i++
		}
		switch {
		case i >= len(b):
			return i, cut
		case b[i] == '"':
			return i + 1, ""
		case b[i] != '\\':
			return i, badString
		case i+1 == len(b):
			return i, cut
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			for k := i + 2; k < i+6; k++ {
				if k == len(b) {
					return k, cut
				}
				if strings.IndexByte("0123456789abcdefABCDEF", b[k]) < 0 {
					return k, badEscape
				}
			}
			i += 4
		default:
			return i, badEscape
		}
	}
}

func skipLiteral(b []byte, i int) (int, string) {
	for _, literal := range [...]string{"true", "false", "null"} {
		if b[i] != literal[0] {
			continue
		}
		for k := range len(literal) {
			if i+k >= len(b) || b[i+k] != literal[k] {
				return wrong(b, i+k, badValue)
			}
		}
		return i + len(literal), ""
	}
	return i, badValue
}

func skipNumber(b []byte, i int) (int, string) {
	if b[i] == '-' {
		i++
	}
	end := digits(b, i)
	if end > i && b[i] == '0' {
		end = i + 1
	}
	if end > i && end < len(b) && b[end] == '.' {
		i = end + 1
		end = digits(b, i)
	}
	if end > i && end < len(b) && b[end]|0x20 == 'e' {
		if i = end + 1; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end = digits(b, i)
	}
	if end > i {
		return end, ""
	}
	return wrong(b, end, badNumber)
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

func blank(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}
