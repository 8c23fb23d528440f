package otlprow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// TestPartialOutput: the reply so far goes with the live row, and comes back as the output of the turn; any other body
// stays a block.
func TestPartialOutput(t *testing.T) {
	const other = "another body"
	said := `{"role":"assistant","content":"` + strings.Repeat("as far as it ca", 20)
	for _, c := range []struct {
		name  string
		edit  func(ptrace.Span)
		inRow bool
		limit int
	}{
		{"of a live turn", func(ptrace.Span) {}, true, 0},
		{"longer than an attribute may be", func(ptrace.Span) {}, false, maxID},
		{"of one that was closed", func(s ptrace.Span) { s.Attributes().PutStr(string(spans.KnownAsKey), "closed") },
			false, 0},
		{"not partial", func(s ptrace.Span) { s.Attributes().PutBool(string(spans.PartialKey), false) }, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			td, s := one()
			s.SetName(spans.SpanTurn)
			s.Attributes().PutStr(string(spans.KnownAsKey), "live")
			s.Attributes().PutBool(string(spans.PartialKey), true)
			s.Attributes().PutInt(string(spans.TurnIndexKey), 0)
			s.Attributes().PutStr(session.PartialOutputKey, "not from outside")
			a := event(s, spans.EventBlocks)
			putSlice(a, "otelagent.block.bodies", other, said)
			putSlice(a, "otelagent.lists", "output 1\n"+spans.BlockOfString(said).Short().String())
			c.edit(s)
			batch, report := Decode(td, WithLimits(Limits{Attribute: c.limit}))
			if report.Stored != 1 || report.Cut != 1 /* what is not to come from outside */ {
				t.Fatalf("%+v", report)
			}
			want := []session.Block{bodyBlock(other), bodyBlock(said)}
			if c.inRow {
				want = want[:1]
			}
			if diff := cmp.Diff(want, batch.Blocks); diff != "" {
				t.Errorf("blocks: -want +got:\n%s", diff)
			}
			row := batch.Rows[0]
			tree := session.Assemble([]session.Row{row})
			set := &session.BlockSet{}
			for _, b := range append(batch.Blocks, tree.LiveBlocks()...) {
				set.Add(b)
			}
			turn := tree.Runs[0].Turns[0]
			if got := set.Read(turn.Output); len(got.Bodies) != 1 || got.Bodies[0] != said || !got.Whole() ||
				turn.Partial != (c.name != "not partial") {
				t.Errorf("output %+v, partial %v", got, turn.Partial)
			}
		})
	}
}
