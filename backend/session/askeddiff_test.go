package session

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/spans"
)

// asking makes a session of one run whose loop tells its requests and no input: of each turn the messages, and the reply.
func asking(id string, turns ...[]string) DiffTarget {
	blocks := &BlockSet{}
	ref := func(body string) Ref {
		blocks.Add(Block{Body: body})
		return Ref{Block: spans.BlockOfString(body).Short().String()}
	}
	r := &Run{ID: id, Capture: spans.CaptureContent}
	for i, messages := range turns {
		var refs []Ref
		for _, m := range messages {
			refs = append(refs, ref(fmt.Sprintf(`{"content":%q,"id":%q,"role":"user"}`, m, id)))
		}
		r.Turns = append(r.Turns, &Turn{Index: int64(i), Capture: spans.CaptureContent, Requests: []*Request{{Messages: NewRefs(refs...)}}})
	}
	return DiffTarget{Session: &Session{ID: id, Runs: []*Run{r}}, Blocks: blocks}
}

// What a model was asked is compared where only the request tells it: what is new as input, what comes or goes besides as request, and each
// once.
func TestDiffOfRequests(t *testing.T) {
	for name, c := range map[string]struct {
		a, b [][]string
		want [][]DiffPart
		not  *RequestCompared
	}{
		"the same but for ids":    {a: [][]string{{"x"}, {"x", "y"}}, b: [][]string{{"x"}, {"x", "y"}}, want: [][]DiffPart{nil, nil}},
		"another question":        {a: [][]string{{"x"}, {"x", "y"}}, b: [][]string{{"z"}, {"z", "y"}}, want: [][]DiffPart{{DiffInput}, nil}},
		"a message that is gone":  {a: [][]string{{"x"}, {"x", "y"}, {"x", "y"}}, b: [][]string{{"x"}, {"y"}, {"y"}}, want: [][]DiffPart{nil, {DiffRequest}, nil}, not: &RequestCompared{OnlyA: 1}},
		"one more in later turns": {a: [][]string{{"x"}, {"x"}}, b: [][]string{{"x"}, {"x", "y"}}, want: [][]DiffPart{nil, {DiffInput}}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := asking("a", c.a...), asking("b", c.b...)
			d, err := DiffSessions(a, b, DiffOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got [][]DiffPart
			var told *RequestCompared
			for _, x := range d.Runs[0].Turns {
				got = append(got, x.Parts)
				if x.Request != nil {
					told = x.Request
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.not, told); diff != "" {
				t.Error(diff)
			}
			if same := !slices.ContainsFunc(c.want, func(l []DiffPart) bool { return l != nil }); d.Equal != same {
				t.Errorf("equal: %v", d.Equal)
			}
		})
	}
}

// A summary that says something else is a difference, however the counts are.
func TestDiffOfSummaries(t *testing.T) {
	compacted := func(summary string) DiffTarget {
		d := asking("s", []string{"x"})
		body := fmt.Sprintf(`{"role":"user","content":%q}`, summary)
		d.Blocks.Add(Block{Body: body})
		d.Session.Runs[0].Turns[0].Compactions = []*Compaction{{Kind: "summary", Summary: NewRefs(Ref{Block: spans.BlockOfString(body).Short().String()})}}
		return d
	}
	d, err := DiffSessions(compacted("I looked."), compacted("Never touch it. I looked."), DiffOptions{})
	if err != nil {
		t.Fatal(err)
	}
	turn := d.Runs[0].Turns[0]
	if diff := cmp.Diff([]DiffPart{DiffCompaction}, turn.Parts); diff != "" {
		t.Fatal(diff)
	}
	if c := turn.Compaction[0]; c.Path != "summary" || c.Text == nil {
		t.Errorf("%+v", c)
	}
}

// Where only digests or nothing were captured, requests are the same only where their digests are.
func TestDiffOfRequestsWithoutContent(t *testing.T) {
	const inA, inB = "x", "z"
	for name, c := range map[string]struct {
		capture spans.Capture
		b       string
		want    []DiffUnknown
	}{
		"the same digests": {capture: spans.CaptureDigests, b: inA},
		"other digests":    {capture: spans.CaptureDigests, b: inB, want: []DiffUnknown{{Part: DiffRequest, Why: DiffDigestsOnly, Side: "both"}}},
		"nothing captured": {capture: spans.CaptureNone, b: inA, want: []DiffUnknown{{Part: DiffRequest, Why: DiffNotCaptured, Side: "both"}}},
	} {
		t.Run(name, func(t *testing.T) {
			target := func(message string) DiffTarget {
				d := asking("s", []string{message})
				d.Blocks = &BlockSet{}
				turn := d.Session.Runs[0].Turns[0]
				turn.Capture = c.capture
				if c.capture == spans.CaptureNone {
					turn.Requests = nil
				}
				return d
			}
			d, err := DiffSessions(target(inA), target(c.b), DiffOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(slices.Clone(d.Runs[0].Turns[0].NotCompared), func(u DiffUnknown) bool { return u.Part != DiffRequest })
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if d.Runs[0].Turns[0].Request != nil {
				t.Error("counted what could not be read")
			}
		})
	}
}
