package inspect

import (
	"encoding/json"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// maxRules bounds how many permission rules are shown one by one.
const maxRules = 200

// rulesOf returns the permission rules in force for a run at a time, as they came: those that the run was started with, else the fact of the
// session that counted then: what was told only later says nothing of that time. state says why they are not there: "not recorded", or "not
// captured" where only their digest is.
func rulesOf(t session.Tree, run *session.Run, at time.Time) (body, state string) {
	var ref *session.Ref
	if run.Rules.Len() > 0 {
		ref = &run.Rules.Items()[0]
	} else {
		for i := range t.Facts {
			f := &t.Facts[i]
			if f.Subject == "session" && f.Key == factRules && (at.IsZero() || !f.At.After(at)) {
				ref, state = f.Value, ""
				if ref == nil {
					state = StateNotCaptured
				}
			}
		}
	}
	if ref != nil {
		if body, ok := t.Blocks.Body(*ref); ok {
			return body, ""
		}
		return "", StateNotCaptured
	}
	if state == "" && run.RulesDigest != "" {
		state = StateNotCaptured
	}
	if state == "" {
		state = StateNotRecorded
	}
	return "", state
}

// noRules says that the rules are known, and there are none.
const noRules = "none in force"

// factRules is the key of the fact that holds a session's rules.
const factRules = "rules"

// ruleLines returns rules one a line, as people read them.
func ruleLines(body string) []string {
	var list []json.RawMessage
	if json.Unmarshal([]byte(body), &list) != nil {
		return []string{argsText(body)}
	}
	var out []string
	for _, raw := range list {
		out = append(out, argsText(string(raw)))
	}
	return out
}

// rulesLine says in one line of a run under which rules its calls ran, where those are others than of the run before.
func (r *renderer) rulesLine(n *node, p place) {
	text := r.rulesText(p)
	if text == r.rules {
		return
	}
	r.rules = text
	n.line("rules", dim, text)
}

func (r *renderer) rulesText(p place) string {
	body, state := rulesOf(p.tree, p.run, p.run.Start)
	digest := prefixed(" · digest ", Clean(prefix(p.run.RulesDigest, 8)))
	if state != "" {
		return state + digest
	}
	r.said = true
	lines := ruleLines(body)
	if len(lines) == 0 {
		return noRules + digest
	}
	text := plural(len(lines), "rule") + digest
	for i, line := range lines {
		text += []string{separator, "; "}[min(i, 1)] + Clean(line)
		if len(text) > maxScan {
			break
		}
	}
	return text
}

// rulesInForce lists the rules under which the calls of a turn ran.
func (r *renderer) rulesInForce(n *node, p place) {
	at := p.run.Start
	if r.o.Turn != nil && !r.o.Turn.Start.IsZero() {
		at = r.o.Turn.Start
	}
	body, state := rulesOf(p.tree, p.run, at)
	if state != "" {
		n.line("rules", dim, state+prefixed(" · digest ", Clean(prefix(p.run.RulesDigest, 8))))
		return
	}
	r.said = true
	lines := ruleLines(body)
	if len(lines) == 0 {
		n.line("rules", dim, noRules)
	}
	for i, line := range lines {
		if i == maxRules {
			n.line("", dim, "and "+plural(len(lines)-i, "more rule"))
			break
		}
		n.wrapped([]string{"rules", ""}[min(i, 1)], dim, Clean(line))
	}
}
