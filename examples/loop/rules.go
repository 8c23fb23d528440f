package main

import (
	"encoding/json"
	"path"

	"github.com/otelagent/otelagent/spans"
)

// rule says whether a tool may do something, in the four fields of the agent guide.
type rule struct {
	Permission string                 `json:"permission"` // the tool
	Pattern    string                 `json:"pattern"`    // of what it is called with
	Action     spans.Action           `json:"action"`
	Source     spans.PermissionSource `json:"source"`
}

var defaultRules = []rule{
	{"list_files", "*", spans.ActionAllow, spans.PermissionSourceManifest},
	{"read_file", "*", spans.ActionAllow, spans.PermissionSourceManifest},
	{"read_file", ".*", spans.ActionDeny, spans.PermissionSourceManifest},
	{"write_file", "*.md", spans.ActionAllow, spans.PermissionSourceProject},
	{"review", "*.md", spans.ActionAllow, spans.PermissionSourceProject},
}

// decision is the rule that decided, the zero rule and a refusal when none did.
type decision struct {
	rule
	found bool
}

// decide returns the most specific rule that matches; of two that are as specific the one that refuses.
func decide(rules []rule, tool, target string) decision {
	best := decision{rule: rule{Permission: tool, Action: spans.ActionDeny, Source: spans.PermissionSourceManifest}}
	for _, r := range rules {
		if ok, err := path.Match(r.Pattern, target); r.Permission != tool || err != nil || !ok {
			continue
		}
		if !best.found || len(r.Pattern) > len(best.Pattern) || len(r.Pattern) == len(best.Pattern) &&
			r.Action == spans.ActionDeny {
			best = decision{r, true}
		}
	}
	return best
}

func (d decision) why() string {
	if !d.found {
		return "no rule allows it"
	}
	return string(d.Source) + " rule " + d.Permission + " " + d.Pattern
}

// target is what a tool is called with, as rules see it.
func target(args json.RawMessage) string {
	var a struct{ Path string }
	if json.Unmarshal(args, &a) != nil || a.Path == "" {
		return "."
	}
	return path.Clean(a.Path)
}
