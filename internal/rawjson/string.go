package rawjson

import (
	"bytes"
	"unicode/utf8"
)

// String returns what the JSON string raw says, and whether raw is a string at all. Raw must be valid JSON.
func String(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inner := raw[1 : len(raw)-1]
	if !hasEscape(inner) {
		return string(inner), true
	}
	return string(appendUnescaped(nil, inner)), true
}

// AppendString appends what the JSON string raw says to dst. Raw must be a valid JSON string.
func AppendString(dst, raw []byte) []byte {
	inner := raw[1 : len(raw)-1]
	if !hasEscape(inner) {
		return append(dst, inner...)
	}
	return appendUnescaped(dst, inner)
}

// StringLen returns the number of bytes of what the JSON string raw says. Raw must be a valid JSON string.
func StringLen(raw []byte) int {
	inner := raw[1 : len(raw)-1]
	n := len(inner)
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			return n
		}
		r, size := Unescape(inner[i:])
		n += utf8.RuneLen(r) - size
		inner = inner[i+size:]
	}
}

// Quote appends text as a JSON string to dst. Bytes that are not UTF-8 become U+FFFD.
func Quote(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', "0123456789abcdef"[r>>4], "0123456789abcdef"[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

func hasEscape(inner []byte) bool { return bytes.IndexByte(inner, '\\') >= 0 }

func appendUnescaped(dst, inner []byte) []byte {
	for len(inner) > 0 {
		if inner[0] != '\\' {
			n := bytes.IndexByte(inner, '\\')
			if n < 0 {
				n = len(inner)
			}
			dst = append(dst, inner[:n]...)
			inner = inner[n:]
			continue
		}
		r, size := Unescape(inner)
		dst = utf8.AppendRune(dst, r)
		inner = inner[size:]
	}
	return dst
}

// Unescape returns the character that the escape at the start of b stands for, and its length. B must be the rest of a
// valid JSON string from there.
func Unescape(b []byte) (rune, int) {
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default:
		return rune(b[1]), 2
	}
	r := hex4(b[2:])
	if r < 0xd800 || r >= 0xe000 {
		return r, 6
	}
	if r < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if low := hex4(b[8:]); low >= 0xdc00 && low < 0xe000 {
			return (r-0xd800)<<10 | (low - 0xdc00) + 0x10000, 12
		}
	}
	return utf8.RuneError, 6
}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		r = r<<4 | rune(hexDigit(c))
	}
	return r
}

// hexDigit returns the value of a hexadecimal digit, or 255.
func hexDigit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	default:
		return 255
	}
}
