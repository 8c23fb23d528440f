// Package redact takes what must not leave out of content: the rules behind `otelagent send --redact FILE`.
//
// Rules say what to look for: text by a regular expression, values of JSON by a JSONPath, whole messages by where they come
// from. What they find is replaced by a mark that names the rule, [redacted:NAME], and nothing else: every other byte stays as
// it was spelled. docs/redaction.md is the reference of the file, and says what rules do not see.
//
// Nothing of what is looked at is kept, logged or put into an error.
package redact

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/speakeasy-api/jsonpath/pkg/jsonpath"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// maxDepth is the depth of nesting up to which JSON is taken as JSON: that of encoding/json, which most of it comes from.
const maxDepth = 10_000

// Rules is a compiled set of rules. It is safe for concurrent use. The nil Rules changes nothing.
type Rules struct {
	rules    []*rule
	defaults bool
}

// rule is a compiled Rule.
type rule struct {
	mark
	re         *regexp.Regexp
	group      int // that is replaced: 0 is the whole match
	path       *jsonpath.JSONPath
	provenance []spans.ProvenanceKind
	roles      []string
	places     []string
}

// mark is what stands where something was taken out.
type mark struct {
	text   string // [redacted:NAME]
	quoted []byte // as a JSON string
}

func newMark(name string) mark {
	text := "[redacted:" + name + "]"
	return mark{text: text, quoted: rawjson.Quote(nil, text)}
}

// Option configures New.
type Option interface {
	apply(config) config
}

type config struct {
	rules    []Rule
	defaults bool
}

type optionFunc func(config) config

func (f optionFunc) apply(c config) config { return f(c) }

// WithRules adds rules behind those given before. Where two rules find the same text the mark is that of the first.
func WithRules(rules ...Rule) Option {
	return optionFunc(func(c config) config { c.rules = append(slices.Clip(c.rules), rules...); return c })
}

// WithoutDefaults leaves the default set out, which is otherwise looked for besides all rules.
func WithoutDefaults() Option {
	return optionFunc(func(c config) config { c.defaults = false; return c })
}

// New compiles rules: the default set and what WithRules gives. The error joins everything that is wrong with them. Nil options
// are ignored.
func New(opts ...Option) (*Rules, error) {
	c := config{defaults: true}
	for _, o := range opts {
		if o != nil {
			c = o.apply(c)
		}
	}
	r := &Rules{defaults: c.defaults}
	var problems []error
	for i, def := range c.rules {
		compiled, wrong := compile(def)
		for _, w := range wrong {
			problems = append(problems, fmt.Errorf("redact: rules[%d]%s: %s", i, dotted(w.key), w.text))
		}
		if j := slices.IndexFunc(c.rules[:i], func(o Rule) bool { return o.Name == def.Name }); j >= 0 && def.Name != "" {
			problems = append(problems, fmt.Errorf("redact: rules[%d].name: %s is the name of rules[%d] too: each name once", i, shown(def.Name), j))
		}
		r.rules = append(r.rules, compiled)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return r, nil
}

// Defaults returns the default set alone: API keys and tokens, Authorization headers, private keys, credentials in URLs, passwords
// and secrets by the name before them, and e-mail addresses. docs/redaction.md lists them.
func Defaults() *Rules { return &Rules{defaults: true} }

// Apply returns body without what the rules find in it, and the number of places that were replaced: body itself when there
// were none. Body is neither changed nor kept. It never panics.
//
// Place says what body is, role and provenance what is known of a message: they choose among rules. With isJSON regular
// expressions see what JSON strings and keys say, unescaped, and the result is JSON again; a body that is no JSON after all is
// text to them, and rules by path do not reach it.
func (r *Rules) Apply(place, role string, provenance spans.ProvenanceKind, isJSON bool, body []byte) (out []byte, n int) {
	if r == nil || len(body) == 0 {
		return body, 0
	}
	var active []*rule
	for _, rule := range r.rules {
		if rule.applies(place, role, provenance) {
			active = append(active, rule)
		}
	}
	if len(active) == 0 && !r.defaults {
		return body, 0
	}
	a := applier{body: body, defaults: r.defaults}
	var whole *rule
	for _, rule := range active {
		switch {
		case rule.re != nil:
			a.regexps = append(a.regexps, rule)
		case rule.path != nil:
			a.paths = append(a.paths, rule)
		case whole == nil:
			whole = rule
		}
	}
	if !isJSON || !a.json() {
		a.edits = a.edits[:0]
		switch {
		case whole != nil && isJSON:
			a.edit(0, len(body), whole.quoted)
		case whole != nil:
			a.edit(0, len(body), []byte(whole.text))
		default:
			for _, f := range a.find(body) {
				a.edit(f.start, f.end, []byte(f.mark.text))
			}
		}
		return a.result()
	}
	inStrings := a.edits
	a.edits = nil
	if whole != nil {
		a.withhold(whole)
	}
	for _, rule := range a.paths {
		a.locate(rule)
	}
	a.edits = append(a.edits, inStrings...)
	return a.result()
}

func (r *rule) applies(place, role string, provenance spans.ProvenanceKind) bool {
	return (len(r.places) == 0 || slices.Contains(r.places, place)) &&
		(len(r.roles) == 0 || slices.Contains(r.roles, role)) &&
		(len(r.provenance) == 0 || slices.Contains(r.provenance, provenance))
}

// applier is one call of Apply.
type applier struct {
	body     []byte
	defaults bool
	regexps  []*rule
	paths    []*rule
	tree     *tree // of body, once a path was asked for
	edits    []edit
	found    []found // memory of find
	text     []byte  // memory of what a string says
}

// edit says that body[start:end] becomes with.
type edit struct {
	start, end int
	with       []byte
}

// edit notes an edit, but not one that changes nothing: what was replaced before is no place that is replaced now.
func (a *applier) edit(start, end int, with []byte) {
	if !bytes.Equal(a.body[start:end], with) {
		a.edits = append(a.edits, edit{start, end, with})
	}
}

// result carries the edits out. Of two that overlap one holds the other whole, as JSON values nest: the outer one counts, and
// of equal ones the one noted first.
func (a *applier) result() ([]byte, int) {
	if len(a.edits) == 0 {
		return a.body, 0
	}
	slices.SortStableFunc(a.edits, func(x, y edit) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(y.end, x.end))
	})
	out := make([]byte, 0, len(a.body)+64)
	done, n := 0, 0
	for _, e := range a.edits {
		if e.start < done {
			continue
		}
		out = append(append(out, a.body[done:e.start]...), e.with...)
		done = e.end
		n++
	}
	return append(out, a.body[done:]...), n
}

// found is a piece of text that a rule found.
type found struct {
	start, end int
	mark       *mark
	order      int
}

// find returns what the rules find in text, ordered and apart: pieces that overlap are one, with the mark of the first rule. It is
// valid until the next call.
func (a *applier) find(text []byte) []found {
	all := a.found[:0]
	for i, rule := range a.regexps {
		for _, m := range rule.re.FindAllSubmatchIndex(text, -1) {
			start, end := m[2*rule.group], m[2*rule.group+1]
			if start < 0 { // the group took no part: better too much than too little
				start, end = m[0], m[1]
			}
			if start < end {
				all = append(all, found{start, end, &rule.mark, i})
			}
		}
	}
	if a.defaults {
		all = defaultSet.find(all, text)
	}
	if len(all) > 1 {
		slices.SortFunc(all, func(x, y found) int {
			return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.order, y.order))
		})
		last := 0
		for _, f := range all[1:] {
			l := &all[last]
			if f.start >= l.end {
				last++
				all[last] = f
				continue
			}
			l.end = max(l.end, f.end)
			if f.order < l.order {
				l.mark, l.order = f.mark, f.order
			}
		}
		all = all[:last+1]
	}
	a.found = all
	return all
}

// Narrow reports whether a rule counts in some places, or for messages of some roles or provenance, only: then Apply must be told
// what a body is. Else it finds the same whatever it is told.
func (r *Rules) Narrow() bool {
	return r != nil && slices.ContainsFunc(r.rules, func(r *rule) bool { return len(r.places)+len(r.roles)+len(r.provenance) > 0 })
}
