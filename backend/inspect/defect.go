package inspect

import (
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// isNote says that nothing need be wrong.
func isNote(def session.Defect) bool {
	info, ok := defectInfo(def.Code)
	return ok && info.Observation
}

func defectInfo(code spans.DefectCode) (spans.Defect, bool) {
	for _, d := range spans.Defects() {
		if d.Code == code {
			return d, true
		}
	}
	return spans.Defect{}, false
}

// Defect returns what a defect says, in one line for people.
func Defect(def session.Defect) string { return defectText(def) }

func defectText(def session.Defect) string {
	text := Clean(string(def.Code))
	if info, ok := defectInfo(def.Code); ok {
		text = info.Brief
	}
	if def.Detail != "" {
		text = strings.TrimSuffix(text, ".") + ": " + Clean(def.Detail)
	}
	return text
}
