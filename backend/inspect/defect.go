package inspect

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// finding returns a defect in words.
func finding(d session.Defect) Finding {
	f := Finding{Code: d.Code, Text: Clean(string(d.Code))}
	known := spans.Defects()
	if i := slices.IndexFunc(known, func(k spans.Defect) bool { return k.Code == d.Code }); i >= 0 {
		f.Text, f.Observation = known[i].Brief, known[i].Observation
	}
	if d.Detail != "" {
		f.Text = strings.TrimSuffix(f.Text, ".") + ": " + Clean(d.Detail)
	}
	return f
}

// findings returns defects in words.
func findings(l []session.Defect) []Finding { return each(l, finding) }

func (f *Finding) label() string {
	return map[bool]string{true: "note", false: "defect"}[f.Observation]
}

// Defect returns what a defect says, in one line for people.
func Defect(d session.Defect) string { return finding(d).Text }
