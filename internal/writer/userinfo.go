package writer

import (
	"bytes"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// withoutUserinfo returns a configuration as it came, but for users and passwords in its URLs. It is raw itself when
// there are none.
func withoutUserinfo(raw []byte) []byte {
	if bytes.IndexByte(raw, '@') < 0 && bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	masked, found := appendMasked(nil, &c, false)
	switch {
	case c.End() != nil: // no JSON
		return []byte(maskURLs(string(raw), false))
	case !found:
		return raw
	}
	return masked
}

// appendMasked appends the next value, masked, and reports whether there was anything to mask. Value is always a URL
// where url says so, else only where it has a scheme.
func appendMasked(dst []byte, c *rawjson.Cursor, url bool) (_ []byte, found bool) {
	switch c.Peek() {
	case '{':
		c.Open('{')
		dst = append(dst, '{')
		for n := 0; c.More('}'); n++ {
			if n > 0 {
				dst = append(dst, ',')
			}
			key := c.RawKey()
			dst = append(append(dst, key...), ':')
			var hit bool
			dst, hit = appendMasked(dst, c, string(key) == `"base_url"`)
			found = found || hit
		}
		return append(dst, '}'), found
	case '[':
		c.Open('[')
		dst = append(dst, '[')
		for n := 0; c.More(']'); n++ {
			if n > 0 {
				dst = append(dst, ',')
			}
			var hit bool
			dst, hit = appendMasked(dst, c, url)
			found = found || hit
		}
		return append(dst, ']'), found
	}
	value := c.Value()
	text, ok := rawjson.String(value)
	if !ok {
		return append(dst, value...), false
	}
	masked := maskURLs(text, url)
	if masked == text {
		return append(dst, value...), false
	}
	return rawjson.Quote(dst, masked), true
}

// maskURLs takes what stands before the @ of an authority out of each URL of text.
func maskURLs(text string, url bool) string {
	var b strings.Builder
	rest := text
	for {
		before, after, scheme := strings.Cut(rest, "://")
		if !scheme {
			if !url || b.Len() > 0 {
				b.WriteString(rest)
				return b.String()
			}
			after = rest
		} else {
			b.WriteString(before)
			b.WriteString("://")
		}
		end := strings.IndexAny(after, "/?#\\ \t\n\"'<>")
		if end < 0 {
			end = len(after)
		}
		if at := strings.LastIndexByte(after[:end], '@'); at >= 0 {
			after = after[at+1:]
		}
		if !scheme {
			b.WriteString(after)
			return b.String()
		}
		rest = after
	}
}
