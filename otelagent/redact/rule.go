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

	"github.com/otelagent/otelagent/spans"
)

// Rule finds what is to be replaced. It has a Regexp or a Key, or Provenance or Role without them: then the content of
// whole messages is replaced. With a Regexp or Key, the fields Provenance, Role and Place limit where the rule
// applies; all that are set must hold.
type Rule struct {
	// Name is what the mark shows: [redacted:NAME]. At most 64 characters, no brackets or control characters.
	Name string
	// Regexp is an expression of package regexp that cannot match the empty string. Its matches are replaced, or only
	// the group named secret.
	Regexp string
	// Key selects members of JSON objects, such as password, headers.x-key or *_token. Their values are replaced whole.
	// It is a list of names between dots, which the last names of the path to a member match, at any depth and in any
	// case: a leading *. changes nothing. In a name, * is any run of characters. Elements of arrays have no name. Dots
	// in the name of a member separate names too.
	Key string
	// Provenance lists kinds of messages of a request.
	Provenance []spans.ProvenanceKind
	// Role lists roles of messages, as the loop names them.
	Role []string
	// Place lists kinds of content: message, system, tools, rest, args, result, metadata, rules, config,
	// summary, event, text.
	Place []string
}

// places are the kinds of content that Rule.Place and Redact know.
var places = []string{
	spans.PlaceMessage, spans.PlaceSystem, spans.PlaceTools, spans.PlaceRest,
	spans.ListArgs, spans.ListResult, spans.ListMetadata, spans.ListRules, spans.PlaceConfig, spans.ListSummary,
	spans.PlaceEvent, spans.PlaceText,
}

// provenances are the kinds that a message can have. The other kinds are of the rest of a request.
var provenances = []spans.ProvenanceKind{
	spans.ProvenanceSystemPrompt, spans.ProvenanceIdentityBlock, spans.ProvenanceMemoryTier, spans.ProvenanceLoopTurn,
	spans.ProvenanceSteering, spans.ProvenanceFollowUp, spans.ProvenanceUnknown,
}

const (
	maxName = 64
	maxExpr = 4096
	maxKey  = 512
)

// Problem is something wrong with a rule.
type Problem struct {
	Rule int    // index of the rule
	Key  string // the field as files spell it, such as regexp; empty for the rule as a whole
	At   int    // index of the value, where the field is a list
	Text string
}

// Error returns the problem and where it is, such as rules[2].regexp.
func (p *Problem) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("redact: rules[%d].%s", p.Rule, p.Key), ".") + ": " + p.Text
}

// compile returns the compiled rule i, or all that is wrong with it.
func compile(rules []Rule, i int) (*rule, []error) {
	def := rules[i]
	r := &rule{Rule: def, mark: markOf(def.Name)}
	var all []error
	wrong := func(key string, at int, format string, args ...any) {
		all = append(all, &Problem{i, key, at, fmt.Sprintf(format, args...)})
	}
	earlier := slices.IndexFunc(rules, func(o Rule) bool { return o.Name == def.Name })
	switch {
	case def.Name == "":
		wrong("name", 0, "missing: the mark shows it")
	case !utf8.ValidString(def.Name), utf8.RuneCountInString(def.Name) > maxName,
		strings.ContainsAny(def.Name, "[]"), strings.ContainsFunc(def.Name, unicode.IsControl):
		wrong("name", 0, "%.64q: want at most %d characters, none of them a bracket or control character",
			def.Name, maxName)
	case earlier < i:
		wrong("name", 0, "%.64q is the name of rules[%d] too: each name once", def.Name, earlier)
	}
	switch {
	case def.Regexp != "" && def.Key != "":
		wrong("", 0, "has regexp and key: want one of them, the other in a rule of its own")
	case def.Regexp == "" && def.Key == "" && len(def.Provenance)+len(def.Role) == 0:
		wrong("", 0, "looks for nothing: want regexp, key, provenance or role")
	}
	if def.Regexp != "" {
		var text string
		if r.re, text = compileRegexp(def.Regexp); text != "" {
			wrong("regexp", 0, "%s", text)
		} else {
			r.group = max(0, r.re.SubexpIndex("secret"))
		}
	}
	if def.Key != "" {
		if r.key, r.names = compileKey(def.Key); r.key == nil {
			wrong("key", 0, "%.64q: want names between dots, such as password, headers.x-key or *_token, "+
				"without brackets, of at most %d bytes", def.Key, maxKey)
		}
	}
	for at, p := range def.Provenance {
		if !slices.Contains(provenances, p) {
			wrong("provenance", at, "%.64q: want one of %s", p, list(provenances))
		}
	}
	for at, p := range def.Place {
		if !slices.Contains(places, p) {
			wrong("place", at, "%.64q: want one of %s", p, list(places))
		}
	}
	for at, role := range def.Role {
		if role == "" || len(role) > maxName {
			wrong("role", at, "%.64q: want 1 to %d bytes", role, maxName)
		}
	}
	return r, all
}

// compileRegexp returns the compiled expression, or what is wrong with it.
func compileRegexp(expr string) (*regexp.Regexp, string) {
	if len(expr) > maxExpr {
		return nil, fmt.Sprintf("%d bytes: want at most %d", len(expr), maxExpr)
	}
	re, err := regexp.Compile(expr)
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return nil, fmt.Sprintf("%.64q: %s; want an expression of Go's regexp (RE2)", expr, e.Code)
	}
	for _, text := range []string{"", "a", "-", "\n"} { // Redact ignores empty matches that these texts do not have
		if m := re.FindStringIndex(text); m != nil && m[0] == m[1] {
			return nil, fmt.Sprintf("%.64q: can match the empty string; want one that matches a character at least",
				expr)
		}
	}
	return re, ""
}

// compileKey returns an expression for the last names of a path, each with a dot before it, and how many they are. It
// returns nil for a wrong key, JSONPath included, which would match nothing.
func compileKey(key string) (*regexp.Regexp, int) {
	for strings.HasPrefix(key, "*.") { // at any depth, as every key
		key = key[len("*."):]
	}
	names := strings.Split(key, ".")
	if len(key) > maxKey || slices.Contains(names, "") || names[0] == "$" || strings.ContainsAny(key, "[]") {
		return nil, 0
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta("."+key), `\*`, `[^.]*`)
	re, _ := regexp.Compile(`(?i)^` + pattern + `$`) // nil where key is not UTF-8
	return re, len(names)
}

func list[S ~string](all []S) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(all), " ", ", "), "[]")
}
