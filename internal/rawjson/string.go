package rawjson

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// String returns what the JSON string raw says, and whether raw is a string at all. Raw must be valid JSON.
func String(raw []byte) (string, bool) {
	if len(raw) < len(`""`) || raw[0] != '"' {
		return "", false
	}
	return string(Text(raw)), true
}

// Text returns what the JSON string raw says, in the memory of raw where it has no escapes; any other value as it is
// spelled. Raw must be valid JSON or empty.
func Text(raw []byte) []byte {
	switch {
	case len(raw) < len(`""`) || raw[0] != '"':
		return raw
	case bytes.IndexByte(raw, '\\') < 0:
		return raw[1 : len(raw)-1]
	}
	return AppendString(make([]byte, 0, len(raw)), raw)
}

// AppendString appends what the JSON string raw says to dst. Raw must be a valid JSON string.
func AppendString(dst, raw []byte) []byte {
	for inner := raw[1 : len(raw)-1]; ; {
		n := bytes.IndexByte(inner, '\\')
		if n < 0 {
			return append(dst, inner...)
		}
		r, size := Unescape(inner[n:])
		dst = utf8.AppendRune(append(dst, inner[:n]...), r)
		inner = inner[n+size:]
	}
}

// AppendCompact appends a JSON value without the blanks between its tokens to dst. Raw must be valid JSON: nothing is
// checked again, which takes json.Compact most of its time.
func AppendCompact(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		start := i
		for i < len(raw) && raw[i] > ' ' {
			if raw[i] != '"' {
				i++
			} else {
				i, _ = skipString(raw, i)
			}
		}
		dst = append(dst, raw[start:i]...)
	}
	return dst
}

// Quote appends text as a JSON string to dst. Bytes that are not UTF-8 become U+FFFD.
func Quote(dst []byte, text string) []byte {
	dst = append(slices.Grow(dst, len(text)+len(`""`)), '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// Unescape returns the character that the escape at the start of b stands for, and its length. B must be the rest of a
// valid JSON string from there.
func Unescape(b []byte) (rune, int) {
	if i := strings.IndexByte("bfnrt", b[1]); i >= 0 {
		return rune("\b\f\n\r\t"[i]), 2
	} else if b[1] != 'u' {
		return rune(b[1]), 2
	}
	r := hex(b[2:6])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex(b[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func hex(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits), 16, 32)
	return rune(n)
}
