package clark

import (
	"bytes"
	stdcmp "cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// The shape of tree.json (interop/clark-agent/README.md), as far as the wire has it.
type (
	tree struct {
		Session *string   `json:"session"`
		Runs    []treeRun `json:"runs"`
	}
	treeRun struct {
		ID      string     `json:"run_id"`
		Parent  string     `json:"parent_run_id"`
		Status  string     `json:"status"`
		Stream  string     `json:"stream"`
		Session string     `json:"-"`
		Turns   []treeTurn `json:"turns"`
		Late    []string   `json:"late_inputs"`
	}
	treeTurn struct {
		Index       int64            `json:"index"`
		Inputs      []string         `json:"inputs"`
		Attempts    []treeAttempt    `json:"attempts"`
		StopReason  string           `json:"stop_reason"`
		Usage       *treeUsage       `json:"usage"`
		Text        string           `json:"text"`
		Calls       []treeCall       `json:"tool_calls"`
		Compactions []treeCompaction `json:"compactions"`
		Permissions []treePermission `json:"permissions"`
		Unrequested []string         `json:"unrequested_results"`

		// Of the attempts: gates with a list and conflicts in order, how many were discarded and what they cost.
		Gates     []treeGate     `json:"-"`
		Conflicts []treeConflict `json:"-"`
		Discarded int            `json:"-"`
		Wasted    treeUsage      `json:"-"`
		Error     string         `json:"-"`
	}
	treeAttempt struct {
		Messages    int           `json:"messages"`
		Tools       []string      `json:"tools"`
		Model       string        `json:"model_id"`
		Temperature *float64      `json:"temperature"`
		MaxTokens   *int64        `json:"max_output_tokens"`
		System      []string      `json:"system_messages"`
		Gates       []treeGate    `json:"gates"`
		Conflict    *treeConflict `json:"conflict"`
		Usage       *treeUsage    `json:"usage"`
		Error       string        `json:"error"`
		Discarded   bool          `json:"discarded"`
	}
	treeGate struct {
		Plugin string   `json:"plugin"`
		Allow  []string `json:"allow"`
	}
	treeConflict struct {
		Plugins []string `json:"plugins"`
		Chosen  string   `json:"chosen_plugin"`
		Allow   []string `json:"allow"`
	}
	treeUsage struct {
		Input      int64 `json:"input_tokens"`
		Output     int64 `json:"output_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
	}
	treeCall struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Args     any    `json:"args"`
		Result   string `json:"result_text"`
		Outcome  string `json:"outcome"`
		ChildRun *int   `json:"child_run"`
		Child    string `json:"child_run_id"`
		Executed bool   `json:"executed"`
		Lost     bool   `json:"unreported"`
	}
	treeCompaction struct {
		Plugin string `json:"plugin"`
		Before int64  `json:"before"`
		After  int64  `json:"after"`
	}
	treePermission struct {
		CallID string `json:"call_id"`
		Tool   string `json:"tool"`
		Action string `json:"action"`
		Source string `json:"source"`
		By     string `json:"source_plugin"`
		Why    string `json:"why"`
	}
)

// form is a way to give a recording.
type form struct {
	name       string
	inputs     func(t *testing.T, base string) [][]byte // in the order in which one Decoder reads them
	trajectory bool                                     // given by WithTrajectory
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	return files
}

func bare(t *testing.T, base string) [][]byte {
	list := [][]byte{readFile(t, base+".events.ndjson")}
	more, err := filepath.Glob(base + ".*.events.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range more {
		list = append(list, readFile(t, file))
	}
	return list
}

func enveloped(t *testing.T, base string) [][]byte {
	return [][]byte{readFile(t, base+".enveloped.ndjson")}
}

func trajectory(t *testing.T, base string) [][]byte {
	return [][]byte{readFile(t, base+".trajectory.jsonl")}
}

// then reads what one gives and then what the other does.
func then(one, other func(t *testing.T, base string) [][]byte) func(t *testing.T, base string) [][]byte {
	return func(t *testing.T, base string) [][]byte { return append(one(t, base), other(t, base)...) }
}

// together are the lines of both in one input: each event without its envelope and its record, in the order of time.
func together(recordFirst bool) func(t *testing.T, base string) [][]byte {
	return func(t *testing.T, base string) [][]byte {
		records := bytes.SplitAfter(trajectory(t, base)[0], []byte("\n"))
		var out []byte
		for text := range bytes.Lines(enveloped(t, base)[0]) {
			l := lineOf(t, text)
			event := append(bytes.Clone(l.raw), '\n')
			if l.stream != "" { // one of several
				event = fmt.Appendf(nil, "{\"run_id\":%q,\"event\":%s}\n", l.stream, l.raw)
			}
			if shapes[l.variant].record == "" {
				out = append(out, event...)
				continue
			}
			if recordFirst {
				out = append(append(out, records[0]...), event...)
			} else {
				out = append(append(out, event...), records[0]...)
			}
			records = records[1:]
		}
		if len(bytes.Join(records, nil)) > 0 {
			t.Fatalf("%d records have no event", len(records))
		}
		return [][]byte{out}
	}
}

var forms = []form{
	{"bare", bare, false},
	{"enveloped", enveloped, false},
	{"bare+trajectory", bare, true},
	{"enveloped+trajectory", enveloped, true},
	{"bare,trajectory", then(bare, trajectory), false},
	{"enveloped,trajectory", then(enveloped, trajectory), false},
	{"trajectory,bare", then(trajectory, bare), false},
	{"trajectory,enveloped", then(trajectory, enveloped), false},
	{"trajectory in bare", together(true), false},
	{"bare in trajectory", together(false), false},
}

// TestTree compares what becomes of every recording, in every form, with what those say who did it.
func TestTree(t *testing.T) {
	files := glob(t, "testdata/clark-agent-*/*.tree.json")
	if len(files) < 100 {
		t.Fatalf("%d trees", len(files))
	}
	for _, file := range files {
		base := strings.TrimSuffix(file, ".tree.json")
		for i, f := range forms {
			if testing.Short() && i%4 > 0 { // all forms take a minute under the race detector
				continue
			}
			t.Run(filepath.Base(filepath.Dir(base))+"/"+filepath.Base(base)+"/"+f.name, func(t *testing.T) {
				want := readTree(t, file)
				got, p := recorded(t, base, f)
				name := filepath.Base(base)
				expect(name, strings.HasSuffix(filepath.Dir(base), "0.2.0"), f, want)
				if mixes(name) {
					// Of runs of other producers that were recorded before, the tree keeps the records.
					whole := name == "strangers-shared-sink" && strings.HasPrefix(f.name, "trajectory,")
					if !whole && !mixedDefect(p) {
						t.Error("no defect says that the lines are mixed")
					}
					certain(name, want)
					certain(name, got)
				} else if mixedDefect(p) {
					t.Error("a defect says that the lines are mixed")
				}
				if diff := cmp.Diff(want.Runs, got.Runs, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-truth +tree):\n%s", diff)
				}
			})
		}
	}
}

// TestTrajectoryAlone compares what becomes of the trajectory alone: the runs, turns, calls and usage of the truth, without requests and
// what takes a whole list of messages to know.
func TestTrajectoryAlone(t *testing.T) {
	for _, file := range glob(t, "testdata/clark-agent-*/*.tree.json") {
		base := strings.TrimSuffix(file, ".tree.json")
		t.Run(filepath.Base(filepath.Dir(base))+"/"+filepath.Base(base), func(t *testing.T) {
			f := form{"trajectory", trajectory, false}
			want := readTree(t, file)
			got, p := recorded(t, base, f)
			name := filepath.Base(base)
			expect(name, strings.HasSuffix(filepath.Dir(base), "0.2.0"), f, want)
			if name == "parallel-children-shared-recorder" {
				if !mixedDefect(p) {
					t.Error("no defect says that the records are mixed")
				}
				certain(name, want)
				certain(name, got)
			}
			for _, s := range p.Sessions() {
				for _, r := range s.Runs {
					for _, turn := range r.Turns {
						if len(turn.Requests) > 0 {
							t.Errorf("run %s, turn %d: a record has no request", r.ID, turn.Index)
						}
					}
				}
			}
			for i := range want.Runs {
				for j := range want.Runs[i].Turns {
					turn := &want.Runs[i].Turns[j]
					turn.Attempts = nil
					turn.Compactions = slices.DeleteFunc(turn.Compactions, func(c treeCompaction) bool { return c.Before == c.After })
				}
			}
			if diff := cmp.Diff(want.Runs, got.Runs, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-truth +tree):\n%s", diff)
			}
		})
	}
}

// recorded sends a recording through the whole pipeline and returns what is in the tree.
func recorded(t *testing.T, base string, f form) (*tree, *agenttest.Pipeline) {
	t.Helper()
	d := NewDecoder(input.WithSession("given")) // for runs without identity
	if f.trajectory {
		d.WithTrajectory(bytes.NewReader(readFile(t, base+".trajectory.jsonl")))
	}
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	rec := event.NewRecorder(p.Tracer())
	for i, in := range f.inputs(t, base) {
		for ev, err := range d.Events(bytes.NewReader(in)) {
			if err != nil {
				t.Errorf("input %d: %v", i, err)
				continue
			}
			rec.Record(context.Background(), ev)
		}
	}
	rec.Close(context.Background())
	if n := rec.Lost(); n > 0 && !strings.Contains(base, "late-tool-updates") {
		t.Errorf("%d events lost", n)
	}
	return treeOf(t, p), p
}

// lineOf parses one line.
func lineOf(t *testing.T, text []byte) *line {
	t.Helper()
	sh := input.NewShell(Dialect, nil)
	l := parse(&sh, input.Line{Text: bytes.TrimSpace(text)})
	if l == nil {
		t.Fatalf("%s is rejected", text)
	}
	return l
}

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// readTree reads the truth, and sums up what the tree keeps as a sum.
func readTree(t *testing.T, file string) *tree {
	t.Helper()
	var want tree
	if err := json.Unmarshal(readFile(t, file), &want); err != nil {
		t.Fatal(err)
	}
	for i := range want.Runs {
		r := &want.Runs[i]
		r.Session = ""
		for j := range r.Turns {
			turn := &r.Turns[j]
			for k := range turn.Attempts {
				a := &turn.Attempts[k]
				for _, g := range a.Gates {
					if g.Allow != nil {
						turn.Gates = append(turn.Gates, g)
					}
				}
				if a.Conflict != nil {
					turn.Conflicts = append(turn.Conflicts, *a.Conflict)
				}
				if a.Discarded {
					turn.Discarded++
					if a.Usage != nil {
						turn.Wasted.add(a.Usage)
					}
				}
				turn.Error = a.Error
				a.Gates, a.Conflict, a.Usage, a.Error, a.Discarded = nil, nil, nil, "", false
			}
			// A call without any event: the run ended first.
			turn.Calls = slices.DeleteFunc(turn.Calls, func(c treeCall) bool { return c.Outcome == "unfinished" && !c.Executed })
			slices.SortStableFunc(turn.Calls, byID)
			for k := range turn.Calls {
				c := &turn.Calls[k]
				if c.ChildRun != nil && c.Child == "" {
					c.Child = want.Runs[*c.ChildRun].ID
				}
				if c.Lost {
					c.Result, c.Outcome = "", "unfinished"
				}
				c.ChildRun, c.Lost, c.Executed = nil, false, false
			}
			for k := range turn.Permissions {
				p := &turn.Permissions[k]
				if p.Why == "" {
					p.Why = "blocked by " + p.By
				}
				if p.Source == sourceBeforeCall && !strings.HasPrefix(p.Why, textBlockedBy) {
					p.By = "" // on no wire
				}
			}
		}
	}
	slices.SortStableFunc(want.Runs, func(a, b treeRun) int { return stdcmp.Compare(a.ID, b.ID) })
	return &want
}

// byID orders calls; ends may come in another order than the calls.
func byID(a, b treeCall) int { return stdcmp.Compare(a.ID, b.ID) }

func (u *treeUsage) add(v *treeUsage) {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
}

// treeOf is the tree of what arrived, in the shape of the truth.
func treeOf(t *testing.T, p *agenttest.Pipeline) *tree {
	t.Helper()
	got := &tree{}
	type placed struct {
		seq int64
		run treeRun
	}
	var runs []placed
	blocks, err := session.NewBlockSet(func(yield func(session.Block, error) bool) {
		for _, b := range p.Batch().Blocks {
			if !yield(b, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Sessions() {
		m := mapper{t, p, s, blocks}
		for _, r := range s.Runs {
			runs = append(runs, placed{r.Seq, m.run(r)})
		}
	}
	slices.SortStableFunc(runs, func(a, b placed) int {
		return stdcmp.Or(stdcmp.Compare(a.run.ID, b.run.ID), stdcmp.Compare(a.seq, b.seq)) // streams are read one after the other
	})
	for _, r := range runs {
		got.Runs = append(got.Runs, r.run)
	}
	return got
}

type mapper struct {
	t *testing.T
	p *agenttest.Pipeline
	s *session.Session

	blocks *session.BlockSet
}

// bodies are the texts of a list.
func (m mapper) bodies(refs *session.Refs) (list []string) {
	if refs == nil {
		return nil
	}
	for _, ref := range refs.Items() {
		list = append(list, m.body(ref))
	}
	return list
}

func (m mapper) body(ref session.Ref) string {
	body, ok := m.blocks.Body(ref)
	if !ok {
		m.t.Errorf("block %s did not arrive", ref.Block)
	}
	return body
}

func (m mapper) run(r *session.Run) treeRun {
	out := treeRun{ID: r.ID, Parent: r.ParentID, Status: string(r.Status)}
	if strings.Contains(r.ID, "#") {
		out.ID = "" // generated
	}
	if out.Status == string(spans.RunStatusCancelled) {
		out.Status = "aborted" // the loop's word
	}
	// What arrived behind the last turn stands at the end of what the run says it added.
	for _, text := range slices.Backward(m.bodies(r.Messages)) {
		s, ok := inputText(text)
		if !ok {
			break
		}
		out.Late = append([]string{s}, out.Late...)
	}
	for _, turn := range r.Turns {
		out.Turns = append(out.Turns, m.turn(r, turn))
	}
	return out
}

func (m mapper) turn(r *session.Run, t *session.Turn) treeTurn {
	out := treeTurn{Index: t.Index, StopReason: t.StopReason, Error: t.Error, Discarded: int(t.DiscardedAttempts)}
	for _, text := range m.bodies(t.Input) {
		if s, ok := inputText(text); ok {
			out.Inputs = append(out.Inputs, s)
		}
	}
	for _, text := range m.bodies(t.Output) {
		out.Text = allText(text)
	}
	if u := t.Reported; u != nil {
		out.Usage = &treeUsage{u.Input, u.Output, u.CacheWrite, u.CacheRead}
	}
	if u := t.Discarded; u != nil {
		out.Wasted = treeUsage{u.Input, u.Output, u.CacheWrite, u.CacheRead}
	}
	for _, req := range t.Requests {
		out.Attempts = append(out.Attempts, m.attempt(req))
	}
	for _, c := range t.ToolCalls {
		out.Calls = append(out.Calls, m.call(r, c))
		for _, p := range c.Permissions {
			out.Permissions = append(out.Permissions, treePermission{p.CallID, p.Tool, string(p.Action), string(p.Source), p.DecidedBy, p.Reason})
			if !p.Derived {
				m.t.Errorf("a refusal is not marked as derived: %+v", p)
			}
		}
	}
	slices.SortStableFunc(out.Calls, byID)
	for _, c := range t.Compactions {
		out.Compactions = append(out.Compactions, treeCompaction{c.Trigger, *c.MessagesBefore, *c.MessagesAfter})
	}
	for _, p := range t.Permissions {
		var list []string
		_ = json.Unmarshal([]byte(p.Pattern), &list) // empty where there is none
		switch {
		case p.Tool != "" || p.Outcome == outcomeOffered || p.Outcome == outcomeDiffers:
		case p.Outcome == outcomeResolved:
			c := treeConflict{Chosen: p.Option, Allow: list}
			for _, text := range m.bodies(p.Options) {
				if err := json.Unmarshal([]byte(text), &c.Plugins); err != nil {
					m.t.Error(err)
				}
			}
			out.Conflicts = append(out.Conflicts, c)
		default:
			out.Gates = append(out.Gates, treeGate{p.DecidedBy, list})
		}
	}
	for _, text := range m.bodies(t.Results) {
		if strings.Contains(text, `"plain_text_terminal_fallback_`) {
			out.Unrequested = append(out.Unrequested, allText(text))
		}
	}
	return out
}

func (m mapper) attempt(req *session.Request) treeAttempt {
	var out treeAttempt
	messages := m.bodies(req.Messages)
	out.Messages = len(messages)
	for _, text := range messages {
		if msg := messageOf([]byte(text)); msg.String("role") == "system" {
			out.System = append(out.System, msg.String("content"))
		}
	}
	for _, ref := range req.Params.Items() {
		switch body := m.body(ref); ref.Provenance {
		case string(spans.ProvenanceTools):
			for _, tool := range object.Of("", []byte(`{"tools":`+body+`}`)).Objects("tools") {
				out.Tools = append(out.Tools, tool.String("name"))
			}
		case string(spans.ProvenanceRest):
			var rest struct {
				Model       string   `json:"model_id"`
				Temperature *float64 `json:"temperature"`
				MaxTokens   *int64   `json:"max_output_tokens"`
			}
			if err := json.Unmarshal([]byte(body), &rest); err != nil {
				m.t.Error(err)
			}
			out.Model, out.Temperature, out.MaxTokens = rest.Model, rest.Temperature, rest.MaxTokens
		}
	}
	return out
}

func (m mapper) call(r *session.Run, c *session.ToolCall) treeCall {
	out := treeCall{ID: c.ID, Name: c.Name, Outcome: string(c.Outcome), Child: c.ChildRunID}
	if out.Outcome == "" {
		out.Outcome = "unfinished"
	}
	for _, s := range m.p.Sessions() {
		for _, child := range s.Runs {
			if child.ParentID == r.ID && child.ParentToolCallID == c.ID && child.ID != r.ID && out.Child == "" &&
				!child.Start.Before(c.Start) && !child.Start.After(c.End) {
				out.Child = child.ID
			}
		}
	}
	for _, text := range m.bodies(c.Args) {
		if err := json.Unmarshal([]byte(text), &out.Args); err != nil {
			m.t.Error(err)
		}
	}
	for _, text := range m.bodies(c.Result) {
		out.Result = allText(text)
	}
	return out
}

// inputText is the text of a message from the user's side, of a custom one its kind.
func inputText(raw string) (text string, ok bool) {
	m := messageOf([]byte(raw))
	switch m.String("role") {
	case "user", "system":
		return allText(raw), true
	case "custom":
		return m.String("kind"), true
	}
	return "", false
}

// allText are the text blocks of a message together.
func allText(raw string) (text string) {
	m := messageOf([]byte(raw))
	if content := m.Raw("content"); content != nil && content[0] == '"' {
		return m.String("content")
	}
	for _, block := range m.Objects("content") {
		if block.String("type") == "text" {
			text += block.String("text")
		}
	}
	return text
}

// expect changes truth and tree where the wire lacks a fact, or has another one. docs/dialects.md lists what it
// changes.
func expect(name string, old bool, f form, want *tree) {
	for i := range want.Runs {
		want.Runs[i].Stream = ""
	}
	switch name {
	case "child-own-sink":
		if strings.HasPrefix(f.name, "bare") && !strings.Contains(f.name, " in ") {
			unlink(want) // the stream of the child is read behind that of its parent, and nothing says when it ran
		}
	case "parallel-children-own-sinks":
		unlink(want) // no line says which of the two calls began which
	case "abort-before-model": // a turn began on the wire, with the prompt
		want.Runs[0].Turns = []treeTurn{{Inputs: want.Runs[0].Late}}
		want.Runs[0].Late = nil
	case "answer-marked-failed", "empty-outcome-budget": // the loop reported its end
		want.Runs[0].Status = "completed"
	case "blocked-by-hooks", "blocked-in-sequence":
		if old { // a refused call had a start as well: only a refusal without a reason can be distinguished from a failure
			for i := range want.Runs[0].Turns {
				turn := &want.Runs[0].Turns[i]
				for j := range turn.Calls {
					if c := &turn.Calls[j]; c.Outcome == "denied" && !strings.HasPrefix(c.Result, textBlockedBy) {
						c.Outcome = "error"
					}
				}
				turn.Permissions = slices.DeleteFunc(turn.Permissions, func(p treePermission) bool { return !strings.HasPrefix(p.Why, textBlockedBy) })
			}
		}
	case "fatal-tool": // the wire just stops
		want.Runs[0].Status = "aborted"
	case "nameless-parent": // which call began it stands nowhere
		unlink(want)
	case "child-without-identities":
		unlink(want)
	case "call-outside-list-unexplained":
		for i := range want.Runs[0].Turns {
			for j := range want.Runs[0].Turns[i].Permissions {
				want.Runs[0].Turns[i].Permissions[j].By = "tool_gate"
			}
		}
	}
}

// mixes reports whether the lines do not say whose they are, in any form.
func mixes(name string) bool {
	switch name {
	case "parallel-children-shared-recorder", "parallel-children-shared-sink", "strangers-shared-sink":
		return true
	}
	return false
}

func mixedDefect(p *agenttest.Pipeline) bool {
	for _, s := range p.Sessions() {
		for _, r := range s.Runs {
			if slices.ContainsFunc(r.Defects, func(d session.Defect) bool { return d.Code == spans.DefectRunsMixed }) {
				return true
			}
		}
	}
	return false
}

// certain keeps of a tree what is certain where lines are mixed: which runs there were, and all of the parent but which
// of its calls began which child.
func certain(name string, t *tree) {
	unlink(t)
	for i := range t.Runs {
		r := &t.Runs[i]
		if r.Parent != "" || name == "strangers-shared-sink" {
			r.Turns, r.Late, r.Status = nil, nil, ""
		}
	}
}

// unlink takes off which call spawned which run.
func unlink(t *tree) {
	for _, r := range t.Runs {
		for _, turn := range r.Turns {
			for i := range turn.Calls {
				turn.Calls[i].Child = ""
			}
		}
	}
}
