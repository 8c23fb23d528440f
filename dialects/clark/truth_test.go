package clark

import (
	stdcmp "cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/object"
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

// readTree reads the truth, and sums up what the tree keeps as a sum.
func readTree(t *testing.T, file string) *tree {
	t.Helper()
	var want tree
	must.Do(t, json.Unmarshal(readFile(t, file), &want))
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
	blocks := must.Get(session.NewBlockSet(func(yield func(session.Block, error) bool) {
		for _, b := range p.Batch().Blocks {
			if !yield(b, nil) {
				return
			}
		}
	}))(t)
	for _, s := range p.Sessions() {
		m := mapper{t, p, s, blocks}
		for _, r := range s.Runs {
			runs = append(runs, placed{r.Seq, m.run(r)})
		}
	}
	slices.SortStableFunc(runs, func(a, b placed) int {
		// streams are read one after the other
		return stdcmp.Or(stdcmp.Compare(a.run.ID, b.run.ID), stdcmp.Compare(a.seq, b.seq))
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
	// What arrived after the last turn is at the end of what the run says it added.
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
			out.Permissions = append(out.Permissions, treePermission{p.CallID, p.Tool, string(p.Action), string(p.Source),
				p.DecidedBy, p.Reason})
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
		case p.Tool != "" || p.Outcome == "offered" || p.Outcome == "offered_differs":
		case p.Outcome == "conflict_resolved":
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
