package genaijson

import (
	"bytes"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
)

const (
	// leastRoom is what every function here needs: a JSON string with a mark, whatever the number in it.
	leastRoom = 48
	// listRoom is what the end of a cut list needs: the mark, with a key, and the bracket.
	listRoom = 72
	// maxLevels bounds how often the input is looked at: every level of a list that is too large is passed once more.
	maxLevels = 8
)

func bitsLen(n int) int { return bits.Len(uint(n)) }

// appendCount writes n, which is not negative, as in 12,345.
func appendCount(dst []byte, n int) []byte {
	start := len(dst)
	dst = strconv.AppendInt(dst, int64(n), 10)
	for i := len(dst) - 3; i > start; i -= 3 {
		dst = append(dst, 0)
		copy(dst[i+1:], dst[i:])
		dst[i] = ','
	}
	return dst
}

// appendCut writes the end of a string of which begin was written and n bytes were not.
func appendCut(dst []byte, begin, n int) []byte {
	if len(dst) > begin {
		dst = append(dst, "... "...)
	}
	return append(appendCount(append(dst, "[cut: "...), n), ` bytes]"`...)
}

// beginRoom returns how much of a text of n bytes fits into room as a string with a mark.
func beginRoom(n, room int) int {
	var memory [32]byte
	return max(0, room-len(`"... [cut:  bytes]"`)-len(appendCount(memory[:0], n)))
}

// appendCutString writes the beginning of the JSON string raw and a mark, in at most room bytes, which are leastRoom or more
// but not as many as raw has.
func appendCutString(dst, raw []byte, room int) []byte {
	n := prefix(raw[1:len(raw)-1], beginRoom(len(raw), room))
	dst = append(dst, '"')
	begin := len(dst)
	dst = append(dst, raw[1:1+n]...)
	return appendCut(dst, begin, rawjson.StringLen(raw[n:]))
}

// prefix returns how many of the first room bytes of inner, which is what stands between the quotes of a JSON string, can stay without an
// escape or character being cut.
func prefix(inner []byte, room int) int {
	if room >= len(inner) {
		return len(inner)
	}
	i := 0
	for {
		next := bytes.IndexByte(inner[i:room], '\\')
		if next < 0 {
			break
		}
		n := escapeLen(inner[i+next:])
		if i+next+n > room {
			return i + next
		}
		i += next + n
	}
	for room > i && !utf8.RuneStart(inner[room]) {
		room--
	}
	return room
}

// escapeLen returns the length of the escape at the start of b, with the second half of a pair.
func escapeLen(b []byte) int {
	if b[1] != 'u' {
		return 2
	}
	if len(b) >= 12 && b[2]|0x20 == 'd' && bytes.IndexByte([]byte("89abAB"), b[3]) >= 0 &&
		b[6] == '\\' && b[7] == 'u' && b[8]|0x20 == 'd' && bytes.IndexByte([]byte("cdefCDEF"), b[9]) >= 0 {
		return 12
	}
	return 6
}

// quotedLen returns the length of what rawjson.Quote makes of text, which is UTF-8.
func quotedLen(text []byte) int {
	n := len(text) + 2
	for _, b := range text {
		n += escapeMore(b)
	}
	return n
}

// escapeMore returns how much longer rawjson.Quote makes b.
func escapeMore(b byte) int {
	switch {
	case b == '"' || b == '\\' || b == '\n':
		return 1
	case b < 0x20:
		return 5
	default:
		return 0
	}
}

// appendCutPlain does with text, which is UTF-8, what appendCutString does with a string.
func appendCutPlain(dst, text []byte, room int) []byte {
	left := beginRoom(len(text), room)
	n := 0
	for n < len(text) && left >= 1+escapeMore(text[n]) {
		left -= 1 + escapeMore(text[n])
		n++
	}
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	dst = rawjson.Quote(dst, string(text[:n]))
	dst = dst[:len(dst)-1]
	begin := len(dst)
	if n > 0 {
		begin--
	}
	return appendCut(dst, begin, len(text)-n)
}

// appendCutValue writes what room, leastRoom or more, has place for of the valid JSON value raw, which is longer than that.
func appendCutValue(dst, raw []byte, room int) []byte {
	if raw[0] == '"' {
		return appendCutString(dst, raw, min(room, wanted(raw)))
	}
	var s shares
	fixed := len(raw)
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	eachString(&c, func(text []byte, _ int) {
		fixed -= len(text)
		s.add(wanted(text))
	})
	share := 0
	if fixed < room {
		share = s.share(room - fixed)
	}
	if share < leastRoom {
		return appendBeginning(dst, raw, room, maxLevels)
	}
	done := 0
	c.Reset(raw, rawjson.MaxDepth)
	eachString(&c, func(text []byte, end int) {
		if n := min(share, wanted(text)); n < len(text) {
			dst = appendCutString(append(dst, raw[done:end-len(text)]...), text, n)
			done = end
		}
	})
	return append(dst, raw[done:]...)
}

// eachString calls f with every string in the next value that is no key, and with the position behind it.
func eachString(c *rawjson.Cursor, f func(text []byte, end int)) {
	switch {
	case c.Open('{'):
		for c.More('}') {
			c.RawKey()
			eachString(c, f)
		}
	case c.Open('['):
		for c.More(']') {
			eachString(c, f)
		}
	default:
		if v := c.Value(); len(v) > 0 && v[0] == '"' {
			f(v, c.Pos())
		}
	}
}

// wanted returns how much of the JSON string text is worth its room, at most.
func wanted(text []byte) int {
	if len(text) >= 512 && (bytes.HasPrefix(text, []byte(`"data:`)) || isBase64(text[1:257])) {
		return leastRoom
	}
	return len(text)
}

// isBase64 reports whether b, of some hundred bytes, can only be base64: no other text is so long without a blank or a point and has
// all kinds of characters.
func isBase64(b []byte) bool {
	var upper, lower, digit bool
	for _, c := range b {
		switch {
		case 'A' <= c && c <= 'Z':
			upper = true
		case 'a' <= c && c <= 'z':
			lower = true
		case '0' <= c && c <= '9':
			digit = true
		case c != '+' && c != '/' && c != '-' && c != '_' && c != '\\':
			return false
		}
	}
	return upper && lower && digit
}

// appendBeginning writes the beginning of the JSON value raw, keeping the structure of its first levels, in at most room
// bytes, which are leastRoom or more.
func appendBeginning(dst, raw []byte, room, levels int) []byte {
	if len(raw) <= room {
		return append(dst, raw...)
	}
	if raw[0] == '"' {
		return appendCutString(dst, raw, min(room, wanted(raw)))
	}
	opening, closing, mark := byte('['), byte(']'), `"[cut: `
	if raw[0] == '{' {
		opening, closing, mark = '{', '}', `"...":"[cut: `
	}
	if raw[0] != opening || levels == 0 || room < leastRoom+listRoom {
		return appendCutPlain(dst, raw, room)
	}
	end := len(dst) + room - listRoom
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	c.Open(opening)
	dst = append(dst, opening)
	all, kept := 0, 0
	for full := false; c.More(closing); all++ {
		var key []byte
		if opening == '{' {
			key = c.RawKey()
		}
		v := c.Value()
		left := end - len(dst) - len(key) - len(`,:`)
		allowed := left
		if c.Peek() != closing {
			// Large members leave half of the room to those behind them.
			allowed = max(left/2, min(left, leastRoom))
		}
		if full = full || len(v) > allowed && allowed < leastRoom; full {
			continue
		}
		if all > 0 {
			dst = append(dst, ',')
		}
		if key != nil {
			dst = append(append(dst, key...), ':')
		}
		dst = appendBeginning(dst, v, allowed, levels-1)
		kept++
	}
	if kept < all {
		if kept > 0 {
			dst = append(dst, ',')
		}
		dst = appendCount(append(dst, mark...), all-kept)
		dst = appendCount(append(dst, " of "...), all)
		dst = append(dst, ` members]"`...)
	}
	return append(dst, closing)
}
