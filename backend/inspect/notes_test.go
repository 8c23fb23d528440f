package inspect_test

import (
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// What need not be wrong is a note, and a run known from its children only is open in plain words.
func TestObservationsAreNotes(t *testing.T) {
	run := &session.Run{ID: "r", Status: spans.RunStatusOpen, Turns: []*session.Turn{}}
	run.Missing, run.Start = true, at(0)
	run.Defects = []session.Defect{{Code: spans.DefectChildNotSeen}}
	s := &session.Session{ID: "s", Runs: []*session.Run{run}, Defects: []session.Defect{{Code: spans.DefectChildNotSeen}}}
	out := render(t, session.Tree{Session: s}, inspect.Options{Width: 80})
	if strings.Contains(out, "defect") || strings.Count(out, "note") != 2 || !strings.Contains(out, "its end was not seen yet") {
		t.Error(out)
	}
}

// The header counts what was denied as the summary does: tool calls and inputs.
func TestDeniedInputsAreCounted(t *testing.T) {
	run := &session.Run{ID: "r", Status: spans.RunStatusRejected, Turns: []*session.Turn{},
		Permissions: []*session.Permission{{Action: spans.ActionDeny, Target: spans.PermissionTargetInput}}}
	out := render(t, session.Tree{Session: &session.Session{ID: "s", Runs: []*session.Run{run}}}, inspect.Options{Width: 80})
	if !strings.Contains(out, "1 input denied") {
		t.Error(out)
	}
}
