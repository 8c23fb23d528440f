package inspect

import "encoding/json"

// maxRules bounds how many permission rules are shown one by one.
const maxRules = 200

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
