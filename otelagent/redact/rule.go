package redact

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/speakeasy-api/jsonpath/pkg/jsonpath"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Rule says what to look for. Exactly one of Regexp and Path, or Provenance or Role without them: then the content of whole
// messages is replaced. With a Regexp or Path these, and Place, only say where it counts.
type Rule struct {
	// Name is what the mark shows: [redacted:NAME]. 64 characters at most, no brackets or control characters.
	Name string
	// Regexp is an expression as of package regexp, which cannot match the empty string. What it matches is replaced, or
	// only its group named secret.
	Regexp string
	// Path is a JSONPath (RFC 9535). The values it selects are replaced whole.
	Path string
	// Provenance are kinds of messages of a request.
	Provenance []spans.ProvenanceKind
	// Role are roles of messages, in the loop's words.
	Role []string
	// Place are the kinds of content: message, system, tools, rest, section, args, result, metadata, rules, config, summary, event, text.
	Place []string
}

// places are the kinds of content that Rule.Place and Apply know.
var places = []string{
	otelagent.PlaceMessage, otelagent.PlaceSystem, otelagent.PlaceTools, otelagent.PlaceRest, otelagent.PlaceSection, spans.ListArgs, spans.ListResult,
	spans.ListMetadata, spans.ListRules, otelagent.PlaceConfig, spans.ListSummary, otelagent.PlaceEvent, otelagent.PlaceText,
}

// provenances are the kinds that a message can have. The other kinds are of what a request holds beside its messages.
var provenances = []spans.ProvenanceKind{
	spans.ProvenanceSystemPrompt, spans.ProvenanceIdentityBlock, spans.ProvenanceMemoryTier, spans.ProvenanceLoopTurn,
	spans.ProvenanceSteering, spans.ProvenanceFollowUp, spans.ProvenanceUnknown,
}

const (
	maxName = 64
	maxExpr = 4096
)

// wrong is a problem of a rule: the key it is about, empty for the rule as a whole, and which of the key's values.
type wrong struct {
	key  string
	at   int
	text string
}

// compile returns the compiled rule, or all that is wrong with it.
func compile(def Rule) (*rule, []wrong) {
	var all []wrong
	add := func(key string, at int, format string, args ...any) {
		all = append(all, wrong{key, at, fmt.Sprintf(format, args...)})
	}
	r := &rule{mark: newMark(def.Name), provenance: def.Provenance, roles: def.Role, places: def.Place}
	switch {
	case def.Name == "":
		add("name", 0, "missing: the mark shows it")
	case !utf8.ValidString(def.Name) || utf8.RuneCountInString(def.Name) > maxName || strings.ContainsAny(def.Name, "[]") || strings.ContainsFunc(def.Name, unicode.IsControl):
		add("name", 0, "%s: want at most %d characters, none of them a bracket or control character", shown(def.Name), maxName)
	}
	switch {
	case def.Regexp != "" && def.Path != "":
		add("", 0, "has regexp and path: want one of them, the other in a rule of its own")
	case def.Regexp == "" && def.Path == "" && len(def.Provenance) == 0 && len(def.Role) == 0:
		add("", 0, "looks for nothing: want regexp, path, provenance or role")
	}
	if def.Regexp != "" {
		switch re, err := syntax.Parse(def.Regexp, syntax.Perl); {
		case len(def.Regexp) > maxExpr:
			add("regexp", 0, "%d bytes: want at most %d", len(def.Regexp), maxExpr)
		case err != nil:
			add("regexp", 0, "%s: %s; want an expression of Go's regexp (RE2)", shown(def.Regexp), reason(err))
		case shortest(re) == 0:
			add("regexp", 0, "%s: can match the empty string; want one that matches a character at least", shown(def.Regexp))
		default:
			if r.re, err = regexp.Compile(def.Regexp); err != nil {
				add("regexp", 0, "%s: %s; want an expression of Go's regexp (RE2)", shown(def.Regexp), reason(err))
				break
			}
			r.group = max(0, r.re.SubexpIndex("secret"))
		}
	}
	if def.Path != "" {
		path, ok := parsePath(def.Path)
		if !ok {
			add("path", 0, "%s: want a JSONPath of RFC 9535, such as $..password or $.headers['x-key'], of at most %d bytes", shown(def.Path), maxExpr)
		}
		r.path = path
	}
	for i, p := range def.Provenance {
		if !slices.Contains(provenances, p) {
			add("provenance", i, "%s: want one of %s", shown(string(p)), list(provenances))
		}
	}
	for i, p := range def.Place {
		if !slices.Contains(places, p) {
			add("place", i, "%s: want one of %s", shown(p), list(places))
		}
	}
	for i, role := range def.Role {
		if role == "" || len(role) > maxName {
			add("role", i, "%s: want 1 to %d bytes", shown(role), maxName)
		}
	}
	return r, all
}

// parsePath reads a JSONPath, by a library that may panic on what it does not expect.
func parsePath(text string) (path *jsonpath.JSONPath, ok bool) {
	defer func() {
		if recover() != nil {
			path, ok = nil, false
		}
	}()
	if len(text) > maxExpr {
		return nil, false
	}
	path, err := jsonpath.NewPath(text)
	if err != nil {
		return nil, false
	}
	return path, true
}

// shortest returns the least number of characters that re matches, 0 or 1 and more.
func shortest(re *syntax.Regexp) int {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL, syntax.OpNoMatch:
		return 1
	case syntax.OpCapture, syntax.OpPlus:
		return shortest(re.Sub[0])
	case syntax.OpRepeat:
		return min(1, re.Min) * shortest(re.Sub[0])
	case syntax.OpConcat:
		n := 0
		for _, sub := range re.Sub {
			n = max(n, shortest(sub))
		}
		return n
	case syntax.OpAlternate:
		n := 1
		for _, sub := range re.Sub {
			n = min(n, shortest(sub))
		}
		return n
	default: // anchors, boundaries, * and ?
		return 0
	}
}

// reason returns what regexp says is wrong without the expression, which is shown bounded beside it.
func reason(err error) string {
	var e *syntax.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return "invalid"
}

// shown quotes a value of a configuration for an error, bounded.
func shown(s string) string {
	const most = 64
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

func list[S ~string](words []S) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, ", ")
}

func dotted(key string) string {
	if key == "" {
		return ""
	}
	return "." + key
}
