package agenttest_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// Views show what is less than the provider counted after ≥, utility turns after the conversation, and the tokens of
// compactions apart. Exports have the conversation alone, and every token once.
func TestViewsOfLowerBounds(t *testing.T) {
	text := own(
		`{"type":"otelagent.turn_started","ts":"2026-11-21T09:00:00Z","run":"r","purpose":"utility"}`,
		`{"type":"otelagent.message_added","run":"r","message":{"role":"user","content":"Name this session."}}`,
		`{"type":"otelagent.turn_ended","ts":"2026-11-21T09:00:01Z","run":"r","usage":{"input":20,"output":5},`+
			`"cost":0.5,"currency":"USD","output":{"role":"assistant","content":"A title"}}`,
		`{"type":"otelagent.turn_started","ts":"2026-11-21T09:00:02Z","run":"r"}`,
		`{"type":"otelagent.message_added","run":"r","message":{"role":"user","content":"Hello"}}`,
		`{"type":"otelagent.turn_ended","ts":"2026-11-21T09:00:03Z","run":"r","usage":{"input":7,"output":2,`+
			`"lower_bound":true},"output":{"role":"assistant","content":"Hi"}}`,
		`{"type":"otelagent.compaction_ended","ts":"2026-11-21T09:00:04Z","run":"r","kind":"summary",`+
			`"usage":{"input":1000,"output":80,"lower_bound":true},"cost":0.25,"currency":"USD"}`)
	d, _ := dialects.Named("otelagent")
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	play.Events(t, event.NewRecorder(p.Tracer()), d.New().Events(strings.NewReader(text)))
	b := p.Batch()
	st := memstore.New()
	must.Do(t, st.Put(t.Context(), b))
	must.Do(t, project.Refresh(t.Context(), st))
	blocks := must.Get(session.NewBlockSet(blocksOf(b, "s")))(t)
	tree := session.Tree{Session: session.AssembleAll(b.Rows)[0], Blocks: blocks}
	report := must.Get(stats.Collect(t.Context(), st, stats.Options{}))(t)
	var show, list, sums, csv, rows bytes.Buffer
	o := inspect.Options{Width: 200}
	_, csvErr := export.CSV(&csv, session.Tree{Session: tree.Session, Blocks: blocks}, export.Options{})
	_, rowsErr := export.JSONL(&rows, session.Tree{Session: tree.Session, Blocks: blocks}, export.Options{})
	for _, err := range []error{inspect.Text(&show, tree, o),
		inspect.List(&list, []session.Summary{session.Summarize(tree.Session)}, o), inspect.Stats(&sums, report, o), csvErr,
		rowsErr} {
		must.Do(t, err)
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"show": {show.String(), []string{`1 turn · 1 utility call`, `tokens +≥27 in · ≥7 out`,
			`and in compactions · ≥1000 in · ≥80 out`,
			`USD 0.5000 reported for 1 turn · USD 0.2500 reported for 1 compaction`,
			`compaction · summary · used ≥1000 in, ≥80 out`, `(?s)turn 1 .*turn 0 · utility`}},
		"ls": {list.String(), []string{` 1 +0 +≥27 +≥7`}},
		"stats": {sums.String(), []string{
			`2 turns in 1 session · 1 of them utility calls`, `≥27 input · ≥7 output`, `≥1000 +≥80`}},
		"csv": {csv.String(), []string{`,27,7,0,0,0,0.5,USD`}},
		"jsonl": {rows.String(), []string{
			`otelagent[^\n]*usage[^\n]*27[^\n]*lower_bound[^\n]*compactions[^\n]*1000`, `Hello`,
			`"cost\\":{\\"USD\\":0.75}`, `compaction_ended[^\n]*1000[^\n]*lower_bound[^\n]*0.25`}},
	} {
		for _, want := range c.want {
			if !regexp.MustCompile(want).MatchString(c.text) {
				t.Errorf("%s: no %s in\n%s", name, want, c.text)
			}
		}
		if strings.Contains(c.text, "Name this session") && name != "show" {
			t.Errorf("%s has a message of a utility turn:\n%s", name, c.text)
		}
	}
}
