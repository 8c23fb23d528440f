package rawjson

import (
	"encoding/binary"
	"math/bits"
)

// skip returns the position behind the value at i and "", or the position of what is wrong and the reason.
func skip(b []byte, i, depth int) (int, string) {
	if i >= len(b) {
		return i, cut
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i, depth)
	case 't':
		return skipLiteral(b, i, "true")
	case 'f':
		return skipLiteral(b, i, "false")
	case 'n':
		return skipLiteral(b, i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return skipNumber(b, i)
	default:
		return i, badValue
	}
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
	var reason string
	for {
		if object {
			if _, i, reason = skipKey(b, i); reason != "" {
				return i, reason
			}
			i = blank(b, i)
		}
		if i, reason = skip(b, i, depth-1); reason != "" {
			return i, reason
		}
		if i = blank(b, i); i >= len(b) {
			return i, cut
		}
		switch b[i] {
		case ',':
			i = blank(b, i+1)
		case bracket:
			return i + 1, ""
		default:
			return i, badComma
		}
	}
}

// skipKey returns the positions behind the object key at i and behind its colon, and "", or in next the position of
// what is wrong and the reason.
func skipKey(b []byte, i int) (end, next int, reason string) {
	switch {
	case i >= len(b):
		return i, i, cut
	case b[i] != '"':
		return i, i, badKey
	}
	if end, reason = skipString(b, i); reason != "" {
		return end, end, reason
	}
	switch next = blank(b, end); {
	case next >= len(b):
		return end, next, cut
	case b[next] != ':':
		return end, next, badColon
	}
	return end, next + 1, ""
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// skipString looks at eight bytes at once for a quote, a backslash or a control character: a byte of w is zero after
// the xor, or less than 0x20, exactly where the lowest bit of stops is set.
func skipString(b []byte, i int) (int, string) {
	i++
	for {
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
		}
		if i+1 >= len(b) {
			return i, cut
		}
		switch b[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			for k := i + 2; k < i+6; k++ {
				if k >= len(b) {
					return k, cut
				}
				if hexDigit(b[k]) == 255 {
					return k, badEscape
				}
			}
			i += 6
		default:
			return i, badEscape
		}
	}
}

func skipLiteral(b []byte, i int, literal string) (int, string) {
	for k := range len(literal) {
		if i+k >= len(b) {
			return i + k, cut
		}
		if b[i+k] != literal[k] {
			return i + k, badValue
		}
	}
	return i + len(literal), ""
}

func skipNumber(b []byte, i int) (int, string) {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else {
		n := digits(b, i)
		if n == i {
			return number(b, i)
		}
		i = n
	}
	if i < len(b) && b[i] == '.' {
		n := digits(b, i+1)
		if n == i+1 {
			return number(b, n)
		}
		i = n
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digits(b, i)
		if n == i {
			return number(b, n)
		}
		i = n
	}
	return i, ""
}

// number is the answer where digits are missing.
func number(b []byte, i int) (int, string) {
	if i >= len(b) {
		return i, cut
	}
	return i, badNumber
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
