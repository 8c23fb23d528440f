package inspect

import (
	"encoding/json"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// maxRules bounds how many permission rules are shown one by one.
const maxRules = 200

// rulesOf returns the permission rules of a run at a time: those of its start, else the fact of the session at that
// time. state says why they are not there: "not recorded", or "not captured" where only their digest is known.
func rulesOf(t session.Tree, run *session.Run, at time.Time) (body, state string) {
	var ref *session.Ref
	known := run.RulesDigest != ""
	if run.Rules.Len() > 0 {
		ref, known = &run.Rules.Items()[0], true
	} else {
		for i := range t.Facts {
			f := &t.Facts[i]
			if f.Subject == session.SubjectSession && f.Key == factRules && (at.IsZero() || !f.At.After(at)) {
				ref, known = f.Value, true
			}
		}
	}
	if ref != nil {
		if body, ok := t.Blocks.Body(*ref); ok {
			return body, ""
		}
	}
	if known {
		return "", StateNotCaptured
	}
	return "", StateNotRecorded
}

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
