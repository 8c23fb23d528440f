// Package redact removes secrets from content before it is hashed and sent: the rules after
// `otelagent send --redact FILE`.
//
// A rule finds text by a regular expression, members of JSON objects by a key, or whole messages by their provenance
// or role. A find is replaced by a mark that names the rule, [redacted:NAME]. Every other byte stays as it was
// spelled. docs/redaction.md is the reference. It also lists the content that rules do not see.
//
// The package keeps and logs none of the content, and no error holds any.
package redact

import (
	"bytes"
	"cmp"
	"errors"
	"regexp"
	"slices"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Config is a set of rules.
type Config struct {
	// Rules are in the order of their precedence: where two find the same text, the mark is that of the first.
	Rules []Rule
	// WithoutDefaults turns the default set off. Otherwise it applies after all rules.
	WithoutDefaults bool
}

// Rules is a compiled Config. It is safe for concurrent use. The nil Rules changes nothing.
type Rules struct {
	rules    []*rule
	defaults bool
}

var _ spans.Redactor = (*Rules)(nil)

// rule is a compiled Rule.
type rule struct {
	Rule
	mark  string // that replaces a find
	re    *regexp.Regexp
	group int            // that is replaced: 0 is the whole match
	key   *regexp.Regexp // of the last names of a path, each with a dot before it
	names int            // in key
}

func markOf(name string) string { return "[redacted:" + name + "]" }

func quote(text string) []byte { return rawjson.Quote(nil, text) }

// New compiles rules. Its error joins a *[Problem] for everything that is wrong with them.
func New(c Config) (*Rules, error) {
	r := &Rules{defaults: !c.WithoutDefaults}
	var all []error
	for i := range c.Rules {
		compiled, problems := compile(c.Rules, i)
		r.rules = append(r.rules, compiled)
		all = append(all, problems...)
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	return r, nil
}

// Defaults returns the default set alone: API keys and tokens, Authorization headers, private keys, credentials in
// URLs, passwords and secrets by the name before them, and e-mail addresses. docs/redaction.md lists them.
func Defaults() *Rules { return &Rules{defaults: true} }

// Scoped reports whether a rule is limited to places or provenances. If none is, Redact ignores these fields of a
// piece.
func (r *Rules) Scoped() bool {
	return r != nil && slices.ContainsFunc(r.rules, func(r *rule) bool {
		return len(r.Place)+len(r.Provenance) > 0
	})
}

// Redact returns the body of p without the finds, and the number of places that it replaced: the body itself when
// there are none. It neither changes nor keeps the body, and never panics.
//
// In JSON, regular expressions see strings and keys, unescaped, and the result is JSON again. A body that is not the
// JSON it claims to be is text: regular expressions see it as it is, and rules by key find nothing.
func (r *Rules) Redact(p spans.Redactable) (body []byte, places int) {
	if r == nil || len(p.Body) == 0 {
		return p.Body, 0
	}
	a := applier{body: p.Body, defaults: r.defaults}
	for _, rule := range r.rules {
		switch {
		case !rule.applies(p):
		case rule.re != nil:
			a.regexps = append(a.regexps, rule)
		case rule.key != nil:
			a.keys = append(a.keys, rule)
		case a.whole == nil:
			a.whole = rule
		}
	}
	switch {
	case p.JSON && a.json():
	case a.whole != nil && p.JSON:
		a.replace(0, len(p.Body), quote(a.whole.mark))
	case a.whole != nil:
		a.replace(0, len(p.Body), []byte(a.whole.mark))
	default:
		for _, f := range a.find(p.Body) {
			a.replace(f.start, f.end, []byte(f.mark))
		}
	}
	if a.places == 0 {
		return p.Body, 0
	}
	return append(a.out, a.body[a.done:]...), a.places
}

func (r *rule) applies(p spans.Redactable) bool {
	return (len(r.Place) == 0 || slices.Contains(r.Place, p.Place)) &&
		(len(r.Role) == 0 || slices.Contains(r.Role, p.Role)) &&
		(len(r.Provenance) == 0 || slices.Contains(r.Provenance, p.Provenance))
}

// applier is one call of Redact.
type applier struct {
	body     []byte
	defaults bool
	regexps  []*rule
	keys     []*rule
	whole    *rule // that replaces the content of the message, or nil

	hasContent bool // the message has a member named content

	out    []byte // the result for body[:done]
	done   int
	places int

	path []byte // names of the open members, each with a dot before it
}

// replace puts with in place of body[start:end], which follows all earlier places. A place that already holds the
// mark does not count.
func (a *applier) replace(start, end int, with []byte) {
	if bytes.Equal(a.body[start:end], with) {
		return
	}
	a.out = append(append(a.out, a.body[a.done:start]...), with...)
	a.done = end
	a.places++
}

// found is a piece of text that a rule finds.
type found struct {
	start, end int
	mark       string
	order      int // of the rule
}

// find returns the finds in text in order. Finds that overlap are one, with the mark of the first rule.
func (a *applier) find(text []byte) (merged []found) {
	var all []found
	for i, rule := range a.regexps {
		for _, m := range rule.re.FindAllSubmatchIndex(text, -1) {
			start, end := m[2*rule.group], m[2*rule.group+1]
			if start < 0 { // the group took no part: better too much than too little
				start, end = m[0], m[1]
			}
			if start < end {
				all = append(all, found{start, end, rule.mark, i})
			}
		}
	}
	if a.defaults {
		all = findDefaults(all, text, len(a.regexps))
	}
	slices.SortFunc(all, func(x, y found) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.order, y.order))
	})
	for _, f := range all {
		if len(merged) == 0 || f.start >= merged[len(merged)-1].end {
			merged = append(merged, f)
			continue
		}
		last := &merged[len(merged)-1]
		last.end = max(last.end, f.end)
		if f.order < last.order {
			last.mark, last.order = f.mark, f.order
		}
	}
	return merged
}
