package inspect

import (
	"encoding/json"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// maxRules bounds how many permission rules are shown one by one.
const maxRules = 200

// factRules is the key of the fact that holds a session's rules.
const factRules = "rules"

// ruleLines returns rules one a line, as people read them.
func ruleLines(body string) []string {
	list := rawjson.Elements([]byte(body))
	if list == nil {
		return []string{argsText(body)}
	}
	return each(list, func(raw json.RawMessage) string { return argsText(string(raw)) })
}
