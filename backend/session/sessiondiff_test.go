package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

// sketch makes a session of runs, each told in words: NAME[:QUESTION][@PARENT.TURN for a sub-agent][~PARENT for a branch][*GROUP for one of a
// parallel group][#INDEX,INDEX of its turns, else 0].
func sketch(t *testing.T, runs ...string) DiffTarget {
	t.Helper()
	s, blocks := &Session{ID: "s"}, &BlockSet{}
	for i, text := range runs {
		start := time.Unix(int64(100+i), 0)
		r := &Run{Span: Span{Start: start, End: start, Known: spans.KnownObserved}, Capture: spans.CaptureContent, Status: spans.RunStatusCompleted}
		text, indexes, given := strings.Cut(text, "#")
		if !given {
			indexes = "0"
		}
		if name, group, ok := strings.Cut(text, "*"); ok {
			n := 0
			if _, err := fmt.Sscan(group, &n); err != nil {
				t.Fatal(err)
			}
			text, r.GroupStart = name, time.Unix(int64(n), 0)
		}
		if name, parent, ok := strings.Cut(text, "~"); ok {
			text, r.ParentID, r.Continuation = name, parent, spans.ContinuationBranch
		}
		if name, at, ok := strings.Cut(text, "@"); ok {
			parent, turn, _ := strings.Cut(at, ".")
			text, r.ParentID, r.ParentToolCallID = name, parent, parent+turn+name
			for _, p := range s.Runs {
				for _, pt := range p.Turns {
					if p.ID == parent && fmt.Sprint(pt.Index) == turn {
						pt.ToolCalls = append(pt.ToolCalls, &ToolCall{Span: Span{End: start}, ID: r.ParentToolCallID, Name: "spawn"})
					}
				}
			}
		}
		name, question, _ := strings.Cut(text, ":")
		r.ID, r.Agent = name, "agent"
		for j, index := range strings.Split(indexes, ",") {
			turn := &Turn{Span: Span{Start: start, End: start, Known: spans.KnownObserved}, Capture: spans.CaptureContent}
			if _, err := fmt.Sscan(index, &turn.Index); err != nil {
				t.Fatal(err)
			}
			if j == 0 {
				body := fmt.Sprintf(`{"role":"user","content":%q}`, question)
				blocks.Add(Block{Body: body})
				turn.Input = NewRefs(Ref{Block: spans.BlockOfString(body).Short().String()})
			}
			r.Turns = append(r.Turns, turn)
		}
		s.Runs = append(s.Runs, r)
	}
	return DiffTarget{Session: s, Blocks: blocks}
}

func TestDiffAlignment(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []string
		want string // runs beside each other by their names, and turns by their indexes where these are not 0
	}{
		{"same", []string{"r1:x", "r2:y"}, []string{"q1:x", "q2:y"}, "r1=q1 r2=q2"},
		{"one asked otherwise", []string{"r1:x", "r2:y", "r3:z"}, []string{"q1:x", "q2:other", "q3:z"}, "r1=q1 r2=q2 r3=q3"},
		{"one less", []string{"r1:x", "r2:y", "r3:z"}, []string{"q1:x", "q3:z"}, "r1=q1 r2- r3=q3"},
		{"one more", []string{"r1:x", "r3:z"}, []string{"q1:x", "q2:y", "q3:z"}, "r1=q1 +q2 r3=q3"},
		{"another one beside its like", []string{"r1:x", "r2:y", "r3:z", "r4:u"}, []string{"q1:x", "q3:z", "q4:v"}, "r1=q1 r2- r3=q3 r4=q4"},
		{"nothing in common", []string{"r1:x", "r2:y"}, []string{"q1:u"}, "r1=q1 r2-"},
		{"a branch is no run that goes on", []string{"r1:x", "r2:y~r1"}, []string{"q1:x", "q2:u"}, "r1=q1 r2- +q2"},
		{"a branch in another place", []string{"r1:x", "r2:y~r1", "r3:z"}, []string{"q1:x", "q3:z", "q2:y~q1"}, "r1=q1 r2=q2 r3=q3"},
		{"sub-agents in another order", []string{"r1:x", "k1:one@r1.0", "k2:two@r1.0"}, []string{"q1:x", "l2:two@q1.0", "l1:one@q1.0"}, "r1=q1 k1=l1 k2=l2"},
		{"sub-agents of one turn beside those of it", []string{"r1:x#0,1", "k1:one@r1.0", "k2:two@r1.1"}, []string{"q1:x#0,1", "l2:u@q1.1", "l1:v@q1.0"}, "r1=q1(0=0 1=1) k1=l1 k2=l2"},
		{"a sub-agent below one of its own", []string{"r1:x", "k1:one@r1.0", "m1:three@k1.0"}, []string{"q1:x", "l1:one@q1.0", "n1:three@l1.0"}, "r1=q1 k1=l1 m1=n1"},
		{"sub-agents of a run that is not there", []string{"r1:x", "r2:y", "k2:one@r2.0"}, []string{"q1:x"}, "r1=q1 r2- k2-"},
		{"parallel", []string{"r1:x*5", "r2:y*5", "r3:u*9"}, []string{"q2:y*3", "q1:x*3", "q3:v*7"}, "r1=q1 r2=q2 r3=q3"},
		{"turns by index", []string{"r1:x#0,1,2"}, []string{"q1:x#0,2,3"}, "r1=q1(0=0 1- 2=2 +3)"},
		{"turns of one index", []string{"r1:x#0,1,1"}, []string{"q1:x#0,1,2"}, "r1=q1(0=0 1=1 1- +2)"},
		{"turns that count from another number", []string{"r1:x#0,1,2"}, []string{"q1:x#7,8"}, "r1=q1(0=7 1=8 2-)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := DiffSessions(sketch(t, c.a...), sketch(t, c.b...), DiffOptions{})
			if err != nil {
				t.Fatal(err)
			}
			beside := func(a, b string) string {
				switch {
				case b == "":
					return a + "-"
				case a == "":
					return "+" + b
				}
				return a + "=" + b
			}
			var got []string
			for _, r := range d.Runs {
				a, b := "", ""
				if r.A != nil {
					a = r.A.ID
				}
				if r.B != nil {
					b = r.B.ID
				}
				text := beside(a, b)
				var turns []string
				for _, x := range r.Turns {
					i, j := "", ""
					if x.A != nil {
						i = fmt.Sprint(x.A.Index)
					}
					if x.B != nil {
						j = fmt.Sprint(x.B.Index)
					}
					turns = append(turns, beside(i, j))
				}
				if len(turns) > 1 {
					text += "(" + strings.Join(turns, " ") + ")"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseDiffParts(t *testing.T) {
	got, err := ParseDiffParts(" usage,, cost ")
	if diff := cmp.Diff([]DiffPart{DiffUsage, DiffCost}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := ParseDiffParts("usage,everything"); err == nil || !strings.Contains(err.Error(), `"everything" is no part of a turn: want some of input, request, system, `) {
		t.Error(err)
	}
}

// FuzzDiffSessions compares turns of which a message, an argument, a result, a prompt and a catalogue are anything.
func FuzzDiffSessions(f *testing.F) {
	f.Add(`{"role":"assistant","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"1","name":"bash","input":{"a":1}}]}`, `{"role":"assistant","content":"ho"}`, uint8(0))
	f.Add(`[{"name":"bash","description":"a"}]`, `[{"name":"bash","description":"b"},{"name":"c"}]`, uint8(3))
	f.Add(`{"content":[{"type":"text","text":"x"}],"details":{"n":1}}`, `"x"`, uint8(7))
	f.Add(``, `{`, uint8(255))
	f.Fuzz(func(t *testing.T, x, y string, lost uint8) {
		if len(x)+len(y) > 16<<10 {
			return
		}
		target := func(body string) DiffTarget {
			blocks := &BlockSet{}
			ref := func(bit int, provenance spans.ProvenanceKind) *Refs {
				if lost&(1<<bit) == 0 {
					blocks.Add(Block{Body: body})
				}
				return NewRefs(Ref{Block: spans.BlockOfString(body).Short().String(), Provenance: string(provenance)})
			}
			params := NewRefs(append(ref(3, spans.ProvenanceSystem).Items(), append(ref(4, spans.ProvenanceTools).Items(), ref(5, spans.ProvenanceRest).Items()...)...)...)
			turn := &Turn{Capture: spans.CaptureContent, Output: ref(0, ""), Input: ref(6, ""), Requests: []*Request{{Params: params}},
				ToolCalls: []*ToolCall{{ID: "c", Name: "bash", Args: ref(1, ""), Result: ref(2, "")}}}
			return DiffTarget{Session: &Session{ID: "s", Runs: []*Run{{ID: "r", Turns: []*Turn{turn}}}}, Blocks: blocks}
		}
		a, b := target(x), target(y)
		d, err := DiffSessions(a, b, DiffOptions{})
		if err != nil {
			t.Fatal(err)
		}
		back, _ := DiffSessions(b, a, DiffOptions{})
		if d.Equal != back.Equal || !cmp.Equal(d.Counts, back.Counts) || !cmp.Equal(d.Runs[0].Turns[0].Parts, back.Runs[0].Turns[0].Parts) {
			t.Errorf("turned round: %+v and %+v", d.Runs[0].Turns[0].Parts, back.Runs[0].Turns[0].Parts)
		}
		if x == y && (d.Counts.Changed > 0 || !d.Equal) {
			t.Errorf("%q differs from itself: %+v %+v", x, d.First, d.NotCompared)
		}
		if self, _ := DiffSessions(a, a, DiffOptions{}); !self.Equal {
			t.Errorf("%q differs from itself: %+v %+v", x, self.First, self.NotCompared)
		}
	})
}

// Events of a run have no word for how it ended, and a saved session has one: that is no difference of two runs.
func TestDiffOfStatusWords(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{{"", "Completed", true}, {"Completed", "Completed", true}, {"Completed", "Stopped", false}} {
		var of [2]DiffTarget
		for i, word := range []string{c.a, c.b} {
			of[i], _ = talk(1, "x")
			of[i].Session.Runs[0].StatusWord = word
		}
		d, err := DiffSessions(of[0], of[1], DiffOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if same := len(d.Runs[0].Fields) == 0; same != c.same {
			t.Errorf("%q and %q: %+v", c.a, c.b, d.Runs[0].Fields)
		}
	}
}
