package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/replay"
)

// Replay says whether a turn can be asked again, what is missing, and, where a form was asked for, with which request body. Its JSON form is
// told in docs/replay.md; command line and API share it.
type Replay struct {
	Format    int    `json:"format"`
	Address   string `json:"address"`
	Tenant    string `json:"tenant,omitempty"`
	Session   string `json:"session"`
	Run       string `json:"run"`
	RunNumber int    `json:"run_number"`
	Turn      int64  `json:"turn"`
	Attempt   *int64 `json:"attempt,omitempty"` // of the request; nil where the turn has none
	Model     string `json:"model,omitempty"`
	Provider  string `json:"provider,omitempty"`

	replay.Check

	// Missing names the pieces of the request that are not there, Defects what is damaged.
	Missing []MissingPart    `json:"missing,omitempty"`
	Defects []session.Defect `json:"defects,omitempty"`

	// Body is the request in the form asked for; nil where none was, and where the request is not whole.
	Body *ReplayBody `json:"body,omitempty"`

	// Request is the captured request, nil where the turn has none.
	Request *Request `json:"-"`
}

// ReplayBody is a request body in a wire form.
type ReplayBody struct {
	*replay.Body
	Size int             `json:"bytes"`
	JSON session.RawJSON `json:"json"`
}

// NewReplay looks at a request of a turn of t: q is nil where the turn has none. The body is made where o.Form is not empty and the request is
// whole; the error says why it cannot be, and the rest is told nevertheless. Nothing is sent.
func NewReplay(t session.Tree, run *session.Run, turn *session.Turn, q *session.Request, o replay.Options) (*Replay, error) {
	r := &Replay{
		Format: session.TreeFormat, Tenant: t.Tenant, Session: t.ID, Run: run.ID, Turn: turn.Index, Model: turn.Model, Provider: turn.Provider,
	}
	for i, other := range t.Runs {
		if other == run {
			r.RunNumber = i + 1
		}
	}
	var payload session.Payload
	if q != nil {
		r.Request = NewRequest(t, run, turn, q)
		payload = r.Request.Payload
		r.Address, r.Attempt, r.Missing, r.Defects = r.Request.Address, &q.Attempt, r.Request.Missing, r.Request.Defects
	} else {
		r.Address = session.TurnAddress(t.ID, r.RunNumber, turn.Index)
	}
	r.Check = *replay.Examine(turn, q, payload)
	if r.Request != nil {
		if note := r.Request.Note(); note != "" {
			r.Notes = append(r.Notes, note)
		}
	}
	if o.Form == "" || payload.Bytes == nil {
		return r, nil
	}
	o.Fallback = replay.Told(turn)
	body, err := replay.Convert(payload.Bytes, o)
	if err != nil {
		return r, err
	}
	r.Body = &ReplayBody{Body: body, Size: len(body.Bytes), JSON: session.RawJSON(body.Bytes)}
	return r, nil
}

// Text writes whether the turn can be asked again, and what is missing. The error is the writer's.
func (r *Replay) Text(w io.Writer, o Options) error {
	d := newDrawer(w, o)
	d.field("session", Clean(r.Session))
	attempt := ""
	if r.Attempt != nil && r.Request.Attempts > 1 {
		attempt = "attempt " + strconv.FormatInt(*r.Attempt, 10)
	}
	d.field("turn", fmt.Sprintf("run %d", r.RunNumber), fmt.Sprintf("turn %d", r.Turn), attempt, Clean(r.Model), Clean(r.Provider))
	st := green
	switch r.Verdict {
	case replay.NotEligible:
		st = red
	case replay.Redacted:
		st = yellow
	}
	d.put(dim, padRight("replay", labelWidth+1))
	d.put(st, string(r.Verdict))
	d.flush()
	d.blank()
	const name, state = 13, 10
	for _, in := range r.Inputs {
		d.put(plainText, padRight(in.Input, name))
		st := plainText
		switch in.State {
		case replay.Missing:
			st = red
		case replay.Withheld, replay.Altered:
			st = yellow
		case replay.None:
			st = dim
		}
		d.put(st, padRight(string(in.State), state))
		text := Clean(in.Detail)
		if in.Input == replay.InputMessages && in.Count > 0 {
			text = plural(in.Count, "message") + ": " + text
		}
		for i, line := range wrap(text, d.width-name-state, maxWrap) {
			if i > 0 {
				d.flush()
				d.put(plainText, padRight("", name+state))
			}
			d.put(plainText, line)
		}
		d.flush()
	}
	d.blank()
	const most = 8
	for i, m := range r.Missing {
		if i == most {
			d.field("missing", fmt.Sprintf("and %d more", len(r.Missing)-i))
			break
		}
		d.field("missing", m.String())
	}
	for _, def := range r.Defects {
		d.field(defectLabel(def), defectText(def))
	}
	if r.Spelling != "" {
		d.field("spelled", "as "+string(r.Spelling), "suggested form "+string(r.Suggested))
	}
	if r.Body != nil {
		d.field("body", string(r.Body.Form), exact(int64(r.Body.Size))+" bytes", map[bool]string{true: "as it was captured"}[r.Body.Unchanged])
		for _, n := range r.Body.Notes {
			d.field("body", Clean(n.String()))
		}
	}
	for _, n := range r.Notes {
		d.field("note", Clean(n))
	}
	return d.err
}

// Resent is an answer that was got by asking again, beside the recorded one. Its JSON form is told in docs/replay.md.
type Resent struct {
	Format  int    `json:"format"`
	Address string `json:"address"`
	// URL is where the request went, without a query; Status what came back.
	URL    string       `json:"url"`
	Status int          `json:"status"`
	TookNS int64        `json:"took_ns"`
	Body   *replay.Body `json:"sent"`
	Size   int          `json:"sent_bytes"`
	// Model and System say what was swapped.
	Model  string `json:"model_swapped,omitempty"`
	System bool   `json:"system_swapped,omitempty"`

	*replay.Comparison
}

// Text writes the answer, and how it differs from the recorded one. The error is the writer's.
func (r *Resent) Text(w io.Writer, o Options) error {
	d := newDrawer(w, o)
	a := r.Answered
	d.field("turn", Clean(r.Address))
	var swapped []string
	if r.Model != "" {
		swapped = append(swapped, "model "+Clean(r.Model))
	}
	if r.System {
		swapped = append(swapped, "system prompt")
	}
	if len(swapped) > 0 {
		d.field("with", "another "+strings.Join(swapped, " and "))
	}
	d.field("answer", Clean(a.Model), Clean(a.StopReason), Duration(time.Duration(r.TookNS)))
	if a.Text != "" {
		d.blank()
		lines(d, plainText, a.Text)
	}
	if len(a.Calls) > 0 && len(r.Calls) == 0 { // else they stand among the differences
		d.blank()
		for _, c := range a.Calls {
			d.field("calls", Clean(c.Name), Clean(string(c.Args)))
		}
	}
	for _, what := range a.Other {
		d.field("and", Clean(what))
	}
	d.blank()
	switch {
	case r.Recorded == nil:
		d.field("diff", "nothing was recorded to compare it with")
	case r.Same:
		d.field("diff", "the same text, the same calls")
	case r.Lines == "":
		d.field("diff", "the same text, other calls")
	default:
		d.field("diff", "another text")
		unified(d, r.Lines)
	}
	if r.Recorded != nil && !r.Whole {
		d.field("note", "the recorded answer is not all there")
	}
	for _, c := range r.Calls {
		st, sign := plainText, " "
		switch c.Change {
		case replay.CallAdded:
			st, sign = green, "+"
		case replay.CallRemoved:
			st, sign = red, "-"
		case replay.CallChanged:
			st, sign = yellow, "~"
		}
		args := c.Before
		if args == "" {
			args = c.After
		}
		text := sign + " " + Clean(c.Name) + " " + c.Change
		if c.Change != replay.CallChanged {
			text += "  " + Clean(string(args))
		}
		d.put(st, cut(text, d.width))
		d.flush()
		unified(d, c.Lines)
	}
	r.usage(d)
	return d.err
}

// usage draws the counts of both answers.
func (r *Resent) usage(d *drawer) {
	if r.Answered.Usage == nil && (r.Recorded == nil || r.Recorded.Usage == nil) {
		return
	}
	d.blank()
	const each = 9
	put := func(name string, cells ...string) {
		d.put(dim, padRight(name, labelWidth+1))
		for _, c := range cells {
			d.put(plainText, padLeft(c, each))
		}
		d.flush()
	}
	put("tokens", "in", "out", "thought", "read", "written")
	row := func(name string, a *replay.Answer) {
		if a == nil || a.Usage == nil {
			return
		}
		u := a.Usage
		put(name, exact(u.Input), exact(u.Output), exact(u.Reasoning), exact(u.CacheRead), exact(u.CacheWrite))
	}
	row("recorded", r.Recorded)
	row("answered", r.Answered)
}

// lines draws a text as its lines, with the blanks in them.
func lines(d *drawer, st style, text string) {
	for line := range strings.Lines(text) {
		d.diffLine(st, cleanLine(strings.TrimRight(line, "\r\n")))
	}
}

// unified draws a unified diff, without the names of its sides.
func unified(d *drawer, diff string) {
	heads := 2
	for line := range strings.Lines(diff) {
		if heads--; heads >= 0 {
			continue
		}
		st := plainText
		switch line[0] {
		case '+':
			st = green
		case '-':
			st = red
		case '@':
			st = cyan
		}
		lines(d, st, line)
	}
}

// ToolReplay is one tool call: its input, what it gave, and, where it was run again, what it gives now. Its JSON form is told in docs/replay.md.
type ToolReplay struct {
	Format  int    `json:"format"`
	Address string `json:"address"` // of the turn
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	// Input is JSON as it was captured; InputState says why it is not there: missing or withheld.
	Input      session.RawJSON `json:"input,omitempty"`
	InputState string          `json:"input_state,omitempty"`
	// Recorded is what the model saw of the result; nil where that is not there.
	Recorded *ToolResult `json:"recorded,omitempty"`
	// Run is what running it again gave; nil where it was not run.
	Run *ToolRun `json:"run,omitempty"`
}

// ToolResult is what a tool gave.
type ToolResult struct {
	Text  string `json:"text"`
	Error bool   `json:"is_error"`
}

// ToolRun is one execution of a command with the input of a recorded call.
type ToolRun struct {
	Command []string `json:"command"`
	Exit    int      `json:"exit"`
	TookNS  int64    `json:"took_ns"`
	ToolResult
	// Same: the same text, but for line feeds at the end, and an error where one was recorded and only there.
	Same bool `json:"same"`
	// Reproduced says whether a recorded error came again; nil where none was recorded.
	Reproduced *bool `json:"error_reproduced,omitempty"`
	// Lines is a unified diff from recorded to run.
	Lines string `json:"lines,omitempty"`
}

// Compare sets what follows from the recorded result.
func (t *ToolReplay) Compare() {
	run := t.Run
	if t.Recorded == nil {
		return
	}
	before, after := strings.TrimRight(t.Recorded.Text, "\n"), strings.TrimRight(run.Text, "\n")
	run.Same = before == after && t.Recorded.Error == run.Error
	run.Lines = replay.Lines("recorded", "run", before, after)
	if t.Recorded.Error {
		again := run.Error
		run.Reproduced = &again
	}
}

// Text writes the call, and how a result differs from the recorded one. The error is the writer's.
func (t *ToolReplay) Text(w io.Writer, o Options) error {
	d := newDrawer(w, o)
	d.field("turn", Clean(t.Address))
	d.field("call", Clean(t.ID), Clean(t.Name), Clean(t.Outcome))
	if t.InputState != "" {
		d.field("input", t.InputState)
	} else {
		d.blank()
		d.put(dim, "input")
		d.flush()
		var b bytes.Buffer
		if json.Indent(&b, []byte(t.Input), "", "  ") != nil {
			b.Reset()
			b.WriteString(string(t.Input))
		}
		lines(d, plainText, b.String())
	}
	switch {
	case t.Recorded == nil:
		d.field("result", "not recorded")
	case t.Run == nil || !t.Run.Same:
		d.blank()
		d.put(dim, map[bool]string{false: "recorded result", true: "recorded result, an error"}[t.Recorded.Error])
		d.flush()
		lines(d, plainText, t.Recorded.Text)
	}
	if t.Run == nil {
		return d.err
	}
	d.blank()
	d.field("run", Clean(strings.Join(t.Run.Command, " ")), fmt.Sprintf("exit %d", t.Run.Exit), Duration(time.Duration(t.Run.TookNS)))
	if t.Run.Text == "" {
		d.field("output", "nothing on standard output")
	}
	switch {
	case t.Recorded == nil:
		d.field("diff", "nothing was recorded to compare it with")
		lines(d, plainText, t.Run.Text)
		return d.err
	case t.Run.Reproduced != nil && *t.Run.Reproduced:
		d.field("error", "reproduced")
	case t.Run.Reproduced != nil:
		d.field("error", "not reproduced")
	case t.Run.Error:
		d.field("error", "it fails now, and did not then")
	}
	if t.Run.Lines == "" {
		d.field("diff", "the same result")
	}
	diff := t.Run.Lines
	if t.Run.Text == "" {
		diff = strings.TrimSuffix(strings.TrimSuffix(diff, "\n"), "\n+") // an empty line, which was not printed
	}
	unified(d, diff)
	return d.err
}

// ReplayAddress returns the address of a turn of t, as commands take it.
func ReplayAddress(t session.Tree, run *session.Run, turn *session.Turn) string {
	for i, other := range t.Runs {
		if other == run {
			return session.TurnAddress(t.ID, i+1, turn.Index)
		}
	}
	return ""
}
