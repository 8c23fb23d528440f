package diff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// store adds a body to a target, and returns a list of it alone.
func store(t *Target, body, provenance string) *session.Refs {
	if t.Blocks == nil {
		t.Blocks = &session.BlockSet{}
	}
	t.Blocks.Add(session.Block{Body: body})
	return session.NewRefs(session.Ref{Block: spans.BlockOfString(body).Short().String(), Provenance: provenance})
}

func compare(t *testing.T, a, b Target) *Diff {
	t.Helper()
	d := must.Get(Compare(a, b))(t)
	return d
}

// sketch makes a session of runs, each described by NAME[:QUESTION][@PARENT.TURN for a sub-agent][~PARENT for a
// branch] [*GROUP for one of a parallel group][#INDEX,INDEX of its turns, else 0].
func sketch(t *testing.T, runs ...string) Target {
	t.Helper()
	target := Target{Session: &session.Session{ID: "s"}}
	for i, text := range runs {
		start := time.Unix(int64(100+i), 0)
		observed := session.Span{Start: start, End: start, Known: spans.KnownObserved}
		r := &session.Run{Span: observed, Capture: spans.CaptureContent, Status: spans.RunStatusCompleted,
			Agent: "agent"}
		text, indexes, given := strings.Cut(text, "#")
		if !given {
			indexes = "0"
		}
		if name, group, ok := strings.Cut(text, "*"); ok {
			var n int64
			_, _ = fmt.Sscan(group, &n)
			text, r.GroupStart = name, time.Unix(n, 0)
		}
		if name, parent, ok := strings.Cut(text, "~"); ok {
			text, r.ParentID, r.Continuation = name, parent, spans.ContinuationBranch
		}
		if name, at, ok := strings.Cut(text, "@"); ok {
			parent, turn, _ := strings.Cut(at, ".")
			text, r.ParentID, r.ParentToolCallID = name, parent, parent+turn+name
			for _, p := range target.Session.Runs {
				for _, pt := range p.Turns {
					if p.ID == parent && fmt.Sprint(pt.Index) == turn {
						pt.ToolCalls = append(pt.ToolCalls, &session.ToolCall{Span: session.Span{End: start},
							ID: r.ParentToolCallID, Name: "spawn"})
					}
				}
			}
		}
		name, question, _ := strings.Cut(text, ":")
		r.ID = name
		for j, index := range strings.Split(indexes, ",") {
			turn := &session.Turn{Span: observed, Capture: spans.CaptureContent}
			_, _ = fmt.Sscan(index, &turn.Index)
			if j == 0 {
				turn.Input = store(&target, fmt.Sprintf(`{"role":"user","content":%q}`, question), "")
			}
			r.Turns = append(r.Turns, turn)
		}
		target.Session.Runs = append(target.Session.Runs, r)
	}
	return target
}

func TestAlignment(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b []string
		want string // pairs of runs by their names, and turns by their indexes where these are not 0
	}{
		{"same", []string{"r1:x", "r2:y"}, []string{"q1:x", "q2:y"}, "r1=q1 r2=q2"},
		{"one asked otherwise", []string{"r1:x", "r2:y", "r3:z"}, []string{"q1:x", "q2:other", "q3:z"},
			"r1=q1 r2=q2 r3=q3"},
		{"one less", []string{"r1:x", "r2:y", "r3:z"}, []string{"q1:x", "q3:z"}, "r1=q1 r2- r3=q3"},
		{"one more", []string{"r1:x", "r3:z"}, []string{"q1:x", "q2:y", "q3:z"}, "r1=q1 +q2 r3=q3"},
		{"another one next to its like", []string{"r1:x", "r2:y", "r3:z", "r4:u"}, []string{"q1:x", "q3:z", "q4:v"},
			"r1=q1 r2- r3=q3 r4=q4"},
		{"nothing in common", []string{"r1:x", "r2:y"}, []string{"q1:u"}, "r1=q1 r2-"},
		{"a branch is no run that goes on", []string{"r1:x", "r2:y~r1"}, []string{"q1:x", "q2:u"}, "r1=q1 r2- +q2"},
		{"a branch in another place", []string{"r1:x", "r2:y~r1", "r3:z"}, []string{"q1:x", "q3:z", "q2:y~q1"},
			"r1=q1 r2=q2 r3=q3"},
		{"sub-agents in another order", []string{"r1:x", "k1:one@r1.0", "k2:two@r1.0"},
			[]string{"q1:x", "l2:two@q1.0", "l1:one@q1.0"}, "r1=q1 k1=l1 k2=l2"},
		{"sub-agents of one turn next to those of it", []string{"r1:x#0,1", "k1:one@r1.0", "k2:two@r1.1"},
			[]string{"q1:x#0,1", "l2:u@q1.1", "l1:v@q1.0"}, "r1=q1(0=0 1=1) k1=l1 k2=l2"},
		{"a sub-agent below one of its own", []string{"r1:x", "k1:one@r1.0", "m1:three@k1.0"},
			[]string{"q1:x", "l1:one@q1.0", "n1:three@l1.0"}, "r1=q1 k1=l1 m1=n1"},
		{"sub-agents of a run that is not there", []string{"r1:x", "r2:y", "k2:one@r2.0"}, []string{"q1:x"},
			"r1=q1 r2- k2-"},
		{"parallel", []string{"r1:x*5", "r2:y*5", "r3:u*9"}, []string{"q2:y*3", "q1:x*3", "q3:v*7"},
			"r1=q1 r2=q2 r3=q3"},
		{"parallel after another run", []string{"r0:w", "r1:x*5"}, []string{"q1:y*3", "q0:w"}, "r0=q0 r1=q1"},
		{"turns by index", []string{"r1:x#0,1,2"}, []string{"q1:x#0,2,3"}, "r1=q1(0=0 1- 2=2 +3)"},
		{"turns of one index", []string{"r1:x#0,1,1"}, []string{"q1:x#0,1,2"}, "r1=q1(0=0 1=1 1- +2)"},
		{"turns that count from another number", []string{"r1:x#0,1,2"}, []string{"q1:x#7,8"}, "r1=q1(0=7 1=8 2-)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := compare(t, sketch(t, c.a...), sketch(t, c.b...))
			inPairs := func(p *Pair, name func(*Place) string) string {
				switch {
				case p.B == nil:
					return name(p.A) + "-"
				case p.A == nil:
					return "+" + name(p.B)
				}
				return name(p.A) + "=" + name(p.B)
			}
			var got []string
			for _, r := range d.Runs {
				text := inPairs(&r, func(p *Place) string { return p.ID })
				var turns []string
				for _, x := range r.Turns {
					turns = append(turns, inPairs(&x, func(p *Place) string { return fmt.Sprint(*p.Index) }))
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

// asking makes a session of one run whose loop reports its requests and no input: of each turn the messages.
func asking(id string, turns ...[]string) Target {
	r := &session.Run{ID: id, Capture: spans.CaptureContent}
	d := Target{Session: &session.Session{ID: id, Runs: []*session.Run{r}}}
	for i, messages := range turns {
		var refs []session.Ref
		for _, m := range messages {
			refs = append(refs, store(&d, fmt.Sprintf(`{"content":%q,"id":%q,"role":"user"}`, m, id), "").Items()...)
		}
		r.Turns = append(r.Turns, &session.Turn{Index: int64(i), Capture: spans.CaptureContent,
			Requests: []*session.Request{{Messages: session.NewRefs(refs...)}}})
	}
	return d
}

// Where only requests report what a model was asked, new messages are input, and messages that come or go besides are
// of the request.
func TestRequests(t *testing.T) {
	for name, c := range map[string]struct {
		a, b [][]string
		want [][]Part
	}{
		"the same except ids": {[][]string{{"x"}, {"x", "y"}}, [][]string{{"x"}, {"x", "y"}}, [][]Part{nil, nil}},
		"another question": {[][]string{{"x"}, {"x", "y"}}, [][]string{{"z"}, {"z", "y"}}, [][]Part{{Input},
			nil}},
		"a message that is gone": {[][]string{{"x"}, {"x", "y"}, {"x", "y"}}, [][]string{{"x"}, {"y"}, {"y"}},
			[][]Part{nil, {Request}, nil}},
		"one more in later turns": {[][]string{{"x"}, {"x"}}, [][]string{{"x"}, {"x", "y"}}, [][]Part{nil, {Input}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := compare(t, asking("a", c.a...), asking("b", c.b...))
			var got [][]Part
			for _, x := range d.Runs[0].Turns {
				got = append(got, x.Parts)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if same := !slices.ContainsFunc(c.want, func(l []Part) bool { return l != nil }); d.Equal != same {
				t.Errorf("equal: %v", d.Equal)
			}
		})
	}
}

// A loop that reports its input may send more: a message that no turn reports is of the request.
func TestRequestBesidesInput(t *testing.T) {
	target := func(memory string) Target {
		d := asking("s", []string{memory, "x"})
		d.Session.Runs[0].Turns[0].Input = store(&d, `{"role":"user","content":"x"}`, "")
		return d
	}
	d := compare(t, target("likes tea"), target("likes coffee"))
	turn := d.Runs[0].Turns[0]
	if diff := cmp.Diff([]Part{Request}, turn.Parts); diff != "" || len(turn.Changes) != 1 ||
		turn.Changes[0].Path != "request.user" {
		t.Error(diff, turn.Changes)
	}
	if d := compare(t, target("likes tea"), target("likes tea")); !d.Equal {
		t.Errorf("%+v", d.First)
	}
}

// Where only digests or nothing were captured, requests are the same only where their digests are.
func TestRequestsWithoutContent(t *testing.T) {
	target := func(capture spans.Capture, message string) Target {
		d := asking("s", []string{message})
		d.Blocks = &session.BlockSet{}
		turn := d.Session.Runs[0].Turns[0]
		if turn.Capture = capture; capture == spans.CaptureNone {
			turn.Requests = nil
		}
		return d
	}
	for _, c := range []struct {
		capture spans.Capture
		b       string
		want    Why
	}{{spans.CaptureDigests, "x", ""}, {spans.CaptureDigests, "z", DigestsOnly}, {spans.CaptureNone, "x", NotCaptured}} {
		turn := compare(t, target(c.capture, "x"), target(c.capture, c.b)).Runs[0].Turns[0]
		is := slices.Contains(turn.NotCompared, Unknown{Part: Request, Why: c.want, Side: "both"})
		if is != (c.want != "") || slices.Contains(turn.Parts, Request) {
			t.Errorf("%+v: %v, %v", c, turn.NotCompared, turn.Parts)
		}
	}
}

// Attempts of one turn may have other prompts and tools. The turn has digests of those of the last one.
func TestAttempts(t *testing.T) {
	d := asking("s", []string{"x"}, []string{"y"})
	turns := d.Session.Runs[0].Turns
	for i, turn := range turns {
		prompt := store(&d, fmt.Sprintf(`"prompt %d"`, i), string(spans.ProvenanceSystem))
		tools := store(&d, fmt.Sprintf(`[{"name":"tool %d"}]`, i), string(spans.ProvenanceTools))
		turn.Requests[0].Params = session.NewRefs(slices.Concat(prompt.Items(), tools.Items())...)
	}
	turn := turns[0]
	turn.PromptDigest, turn.Requests = "of the last", append(turn.Requests, turns[1].Requests...)
	a, b := d, d
	a.Run, a.Turn, a.Request = d.Session.Runs[0], turn, turn.Requests[0]
	b.Run, b.Turn, b.Request = a.Run, turn, turn.Requests[1]
	parts := compare(t, a, b).Runs[0].Turns[0].Parts
	if !slices.Contains(parts, System) || !slices.Contains(parts, Tools) {
		t.Error(parts)
	}
}

// A call whose span lacks its id is no other one than the reply asks for.
func TestCallWithoutID(t *testing.T) {
	d := asking("s", []string{"x"})
	run := d.Session.Runs[0]
	turn := run.Turns[0]
	turn.Capture, turn.ToolCalls = spans.CaptureContent, []*session.ToolCall{{ID: "ls", Name: "ls"}}
	const ask = `{"type":"tool_use","id":"1","name":"ls","input":{}}`
	for content, want := range map[string]int{ask: 1, ask + "," + ask: 2} {
		turn.Output = store(&d, `{"role":"assistant","content":[`+content+`]}`, "")
		if l := newSide(d).calls(run, turn); len(l) != want {
			t.Errorf("%d calls of %s", len(l), content)
		}
	}
}

// A summary that says something else is a difference, whatever its counts are.
func TestSummaries(t *testing.T) {
	compacted := func(summary string) Target {
		d := asking("s", []string{"x"})
		refs := store(&d, fmt.Sprintf(`{"role":"user","content":%q}`, summary), "")
		d.Session.Runs[0].Turns[0].Compactions = []*session.Compaction{{Kind: "summary", Summary: refs}}
		return d
	}
	turn := compare(t, compacted("I looked."), compacted("Never touch it. I looked.")).Runs[0].Turns[0]
	if diff := cmp.Diff([]Part{Compaction}, turn.Parts); diff != "" ||
		turn.Changes[0].Path != "compaction[0].summary.user" {
		t.Error(diff, turn.Changes)
	}
}

func TestParseParts(t *testing.T) {
	got, err := ParseParts(" usage,, cost ")
	if diff := cmp.Diff([]Part{Usage, Cost}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	const want = `"everything" is no part of a turn: want some of input, request, system, `
	if _, err := ParseParts("usage,everything"); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// FuzzCompare compares turns of which a message, an argument, a result, a prompt and a catalogue are anything.
func FuzzCompare(f *testing.F) {
	f.Add(`{"role":"assistant","content":[{"type":"text","text":"hi"},{"type":"tool_use","id":"1","name":"bash",`+
		`"input":{"a":1}}]}`,
		`{"role":"assistant","content":"ho"}`, uint8(0))
	f.Add(`[{"name":"bash","description":"a"}]`, `[{"name":"bash","description":"b"},{"name":"c"}]`, uint8(3))
	f.Add(`{"content":[{"type":"text","text":"x"}],"details":{"n":1}}`, `"x"`, uint8(7))
	f.Add(``, `{`, uint8(255))
	f.Fuzz(func(t *testing.T, x, y string, lost uint8) {
		if len(x)+len(y) > 16<<10 {
			return
		}
		target := func(body string) Target {
			d := Target{}
			ref := func(bit int, provenance spans.ProvenanceKind) *session.Refs {
				keep := &d
				if lost&(1<<bit) != 0 {
					keep = &Target{}
				}
				return store(keep, body, string(provenance))
			}
			params := session.NewRefs(slices.Concat(ref(3, spans.ProvenanceSystem).Items(), ref(4,
				spans.ProvenanceTools).Items(),
				ref(5, spans.ProvenanceRest).Items())...)
			turn := &session.Turn{Capture: spans.CaptureContent, Output: ref(0, ""), Input: ref(6, ""),
				Requests:  []*session.Request{{Params: params}},
				ToolCalls: []*session.ToolCall{{ID: "c", Name: "bash", Args: ref(1, ""), Result: ref(2, "")}}}
			d.Session = &session.Session{ID: "s", Runs: []*session.Run{{ID: "r", Turns: []*session.Turn{turn}}}}
			return d
		}
		a, b := target(x), target(y)
		d, back := compare(t, a, b), compare(t, b, a)
		if d.Equal != back.Equal || d.Counts != back.Counts || !slices.Equal(d.Runs[0].Turns[0].Parts,
			back.Runs[0].Turns[0].Parts) {
			t.Errorf("not symmetric: %+v and %+v", d.Runs[0].Turns[0].Parts, back.Runs[0].Turns[0].Parts)
		}
		if x == y && !d.Equal {
			t.Errorf("%q differs from itself: %+v %+v", x, d.First, d.NotCompared)
		}
		if self := compare(t, a, a); !self.Equal {
			t.Errorf("%q differs from itself: %+v %+v", x, self.First, self.NotCompared)
		}
	})
}
