package search

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
)

const (
	maxText    = 1000 // bytes of what is looked for
	maxMatches = 1000 // that are counted of one block
	around     = 80   // bytes of a snippet on either side
	maxMatch   = 200  // bytes of a match that a snippet shows
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
	var s snippet
	for _, loc := range m.re.FindAllStringIndex(text, maxMatches) {
		if loc[0] == loc[1] {
			continue
		}
		if s.matches == 0 {
			s = cutOut(text, loc[0], loc[1])
		}
		s.matches++
	}
	return s, s.matches > 0
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
	b := make([]byte, 0, len(trimmed))
	for i := 0; i < len(trimmed); {
		switch c := trimmed[i]; {
		case c == '"':
			end := textEnd(trimmed, i)
			if end < 0 {
				return body // no JSON
			}
			from := i + 1
			i = skipSpace(trimmed, end+1)
			if i == len(trimmed) || trimmed[i] != ':' {
				b = append(appendText(b, trimmed[from:end]), '\n')
				continue
			}
			if i = skipSpace(trimmed, i+1); i == len(trimmed) || trimmed[i] != '{' && trimmed[i] != '[' {
				b = append(appendText(b, trimmed[from:end]), ": "...)
			}
		case isSpace(c) || strings.IndexByte("{}[],", c) >= 0:
			i++
		default: // a number, true, false, null
			end := i + 1
			for end < len(trimmed) && !isSpace(trimmed[end]) && strings.IndexByte(`{}[],:"`, trimmed[end]) < 0 {
				end++
			}
			b = append(append(b, trimmed[i:end]...), '\n')
			i = end
		}
	}
	return string(b)
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func skipSpace(s string, i int) int {
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	return i
}

// textEnd returns the position of the quote that ends the text beginning at i; -1 for none.
func textEnd(s string, i int) int {
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// appendText appends the text between the quotes of a JSON text, without its escapes; unchanged where one of them
// is wrong.
func appendText(b []byte, s string) []byte {
	var text string
	if strings.IndexByte(s, '\\') < 0 || json.Unmarshal([]byte(`"`+s+`"`), &text) != nil {
		text = s
	}
	return append(b, text...)
}

// about reads who says what a body holds, one of the words session.By…, and which message a row of the guide belongs
// to; empty where it does not say. A message with results of tools is theirs, unless it also holds text.
func about(body string) (by, message string) {
	var m struct {
		Message string `json:"message_id"`
	}
	_ = json.Unmarshal([]byte(body), &m)
	for _, s := range session.Sayings(body) {
		if s.Kind != session.SaidResult {
			return s.By, m.Message
		}
		by = session.ByTool
	}
	return by, m.Message
}
