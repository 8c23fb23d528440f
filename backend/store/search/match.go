package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
)

const (
	maxText    = 1000    // bytes of what is looked for
	maxMatches = 1000    // that are counted of one block
	maxEmpty   = 1 << 20 // that are looked at where some match nothing
	around     = 80      // bytes of a snippet on either side
	maxMatch   = 200     // bytes of a match that a snippet shows
)

// matcher finds a text or a regular expression.
type matcher struct {
	text string
	re   *regexp.Regexp // nil: text
}

// snippet is the text around the first match.
type snippet struct {
	before, match, after string
	matches              int
}

func newMatcher(o Options) (*matcher, error) {
	switch {
	case o.Text == "":
		return nil, fmt.Errorf("the text is empty: %w", ErrText)
	case len(o.Text) > maxText:
		return nil, fmt.Errorf("the text has %d bytes, at most %d: %w", len(o.Text), maxText, ErrText)
	case !o.Regexp && !o.IgnoreCase:
		return &matcher{text: o.Text}, nil
	}
	expr := o.Text
	if !o.Regexp {
		expr = regexp.QuoteMeta(expr)
	}
	if o.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		why := "it cannot be read"
		var syntax *syntax.Error
		if errors.As(err, &syntax) {
			why = syntax.Code.String() // not what it says of the text, which may be content
		}
		return nil, fmt.Errorf("the text is no regular expression: %s: %w", why, ErrText)
	}
	return &matcher{re: re}, nil
}

// find returns the first match, and how many there are. Matches of nothing are none.
func (m *matcher) find(text string) (snippet, bool) {
	if m.re == nil {
		at := strings.Index(text, m.text)
		if at < 0 {
			return snippet{}, false
		}
		s := cutOut(text, at, at+len(m.text))
		s.matches = min(strings.Count(text, m.text), maxMatches)
		return s, true
	}
	nothing := func(loc []int) bool { return loc[0] == loc[1] }
	all := m.re.FindAllStringIndex(text, maxMatches)
	if len(all) == maxMatches && slices.ContainsFunc(all, nothing) { // which hide those behind them
		all = m.re.FindAllStringIndex(text, maxEmpty)
	}
	if all = slices.DeleteFunc(all, nothing); len(all) == 0 {
		return snippet{}, false
	}
	s := cutOut(text, all[0][0], all[0][1])
	s.matches = min(len(all), maxMatches)
	return s, true
}

// cutOut makes the snippet of a match: of its line, and of whole characters.
func cutOut(text string, at, end int) snippet {
	begin := strings.LastIndexByte(text[:at], '\n') + 1
	stop := len(text)
	if n := strings.IndexByte(text[end:], '\n'); n >= 0 {
		stop = end + n
	}
	from, to := max(begin, at-around), min(stop, end+around)
	for from < at && !utf8.RuneStart(text[from]) {
		from++
	}
	for to < stop && to > end && !utf8.RuneStart(text[to]) {
		to--
	}
	show := min(end, at+maxMatch)
	for show < end && show > at && !utf8.RuneStart(text[show]) {
		show--
	}
	s := snippet{before: text[from:at], match: text[at:show], after: text[end:to]}
	if show < end {
		s.match += "…"
	}
	if from > begin {
		s.before = "…" + s.before
	}
	if to < stop {
		s.after += "…"
	}
	// Copies: a snippet must not keep the whole body.
	s.before, s.match, s.after = strings.Clone(strings.ToValidUTF8(s.before, "\ufffd")),
		strings.Clone(strings.ToValidUTF8(s.match, "\ufffd")), strings.Clone(strings.ToValidUTF8(s.after, "\ufffd"))
	return s
}

// plain returns the text in a body that is JSON: each text and number on a line of its own, after its key
// where it has one, without the signs between them and without escapes. Any other body stays as it is.
func plain(body string) string {
	trimmed := strings.TrimLeft(body, " \t\r\n")
	if trimmed == "" || !strings.ContainsRune(`{["`, rune(trimmed[0])) {
		return body
	}
	c := rawjson.NewCursor([]byte(body), rawjson.MaxDepth)
	if text := appendPlain(nil, &c); c.End() == nil {
		return string(text)
	}
	return body
}

// appendPlain appends the text of the next value.
func appendPlain(b []byte, c *rawjson.Cursor) []byte {
	switch {
	case c.Open('{'):
		for c.More('}') {
			key := c.Key()
			if next := c.Peek(); next != '{' && next != '[' {
				b = append(append(b, key...), ": "...)
			}
			b = appendPlain(b, c)
		}
		return b
	case c.Open('['):
		for c.More(']') {
			b = appendPlain(b, c)
		}
		return b
	}
	if value := c.Value(); len(value) > 0 && value[0] == '"' {
		b = rawjson.AppendString(b, value)
	} else {
		b = append(b, value...)
	}
	return append(b, '\n')
}

// about reads who says what a body holds, one of the words session.By…, and which message a row of the guide belongs
// to; empty where it does not say. A message with results of tools is theirs, unless it also holds text.
func about(body string) (by, message string) {
	var m struct {
		Message string `json:"message_id"`
	}
	_ = json.Unmarshal([]byte(body), &m)
	for _, s := range session.MessageParts(body) {
		if s.Kind != session.PartResult {
			return s.By, m.Message
		}
		by = session.ByTool
	}
	return by, m.Message
}
