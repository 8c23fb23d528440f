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

// Replay says whether a turn can be asked again, and holds its request as a body where an API was asked for.
// docs/replay.md describes its JSON form, which command line and API share.
type Replay struct {
	TurnHead
	Attempt  *int64 `json:"attempt,omitempty"` // of the request; nil where the turn has none
	Model    string `json:"model,omitempty"`
	Provider string `json:"provider,omitempty"`

	replay.Report
	Notes []string `json:"notes,omitempty"`

	// Missing are the parts of the request that are not there, Defects those that are damaged.
	Missing []MissingPart    `json:"missing,omitempty"`
	Defects []session.Defect `json:"defects,omitempty"`

	// Body is nil where no API was asked for, and where the request is not whole.
	Body *ReplayBody `json:"body,omitempty"`

	// Request is the captured request, nil where the turn has none.
	Request *Request `json:"-"`
}

// ReplayBody is a request body.
type ReplayBody struct {
	*replay.Body
	Size int             `json:"bytes"`
	JSON session.RawJSON `json:"json"`
}

// NewReplay checks a request of a turn of t; q is nil where the turn has none. It makes the body where o names an API
// and the request is whole. The error says why it cannot; the rest is there nevertheless. It sends nothing.
func NewReplay(
	t session.Tree, run *session.Run, turn *session.Turn, q *session.Request, o replay.Options,
) (*Replay, error) {
	r := &Replay{TurnHead: newTurnHead(t, run, turn), Model: turn.Model, Provider: turn.Provider}
	var payload session.Payload
	if q != nil {
		r.Request, r.Attempt = NewRequest(t, run, turn, q), &q.Attempt
		payload, r.Address, r.Missing, r.Defects = r.Request.Payload, r.Request.Address, r.Request.Missing, r.Request.Defects
	}
	r.Report = *replay.Check(turn, q, payload)
	if r.Request != nil && r.Request.Note() != "" {
		r.Notes = []string{r.Request.Note()}
	}
	if o.API == "" || payload.Bytes == nil {
		return r, nil
	}
	o.Turn = turn
	body, err := replay.Convert(payload.Bytes, o)
	if err == nil {
		r.Body = &ReplayBody{Body: body, Size: len(body.Bytes), JSON: session.RawJSON(body.Bytes)}
	}
	return r, err
}

// Text writes whether the turn can be asked again, its inputs, and what is missing. The error is the writer's.
func (r *Replay) Text(w io.Writer, o Options) error {
	d := newDrawer(w, o)
	d.field("session", Clean(r.Session))
	attempt := ""
	if r.Attempt != nil && r.Request.Attempts > 1 {
		attempt = "attempt " + strconv.FormatInt(*r.Attempt, 10)
	}
	place := fmt.Sprintf("run %d · turn %d", r.RunNumber, r.Turn)
	d.field("turn", place, attempt, Clean(r.Model), Clean(r.Provider))
	d.field("replay", map[bool]string{false: "not eligible", true: "eligible"}[r.Eligible])
	for _, s := range r.Reasons {
		d.field("reason", Clean(s))
	}
	d.missing(r.Missing)
	d.defects(r.Defects)
	d.line()
	for _, in := range r.Inputs {
		d.field(in.Input, Clean(in.Detail))
	}
	d.field("form", string(r.Suggested)+" (suggested)")
	for _, n := range r.Notes {
		d.field("note", Clean(n))
	}
	return d.err
}

// Resent is a new answer and the recorded one. docs/replay.md describes its JSON form.
type Resent struct {
	Format  int    `json:"format"`
	Address string `json:"address"`
	// URL is where the request went, without a query; Status is that of the answer.
	URL    string       `json:"url"`
	Status int          `json:"status"`
	TookNS int64        `json:"took_ns"`
	Body   *replay.Body `json:"sent"`

	*replay.Comparison
}

// Text writes the answer, and how it differs from the recorded one. The error is the writer's.
func (r *Resent) Text(w io.Writer, o Options) error {
	d := newDrawer(w, o)
	d.field("turn", Clean(r.Address))
	d.field("answer", Clean(r.Answered.Model), Duration(time.Duration(r.TookNS)))
	lines(d, plainText, r.Answered.Text)
	for _, c := range r.Answered.Calls {
		d.field("call", Clean(c.Name), Clean(string(c.Args)))
	}
	for _, what := range r.Answered.Other {
		d.field("and", Clean(what))
	}
	switch {
	case r.Recorded == nil:
		d.field("diff", "nothing was recorded to compare it with")
	case r.Same:
		d.field("diff", "the same text, the same calls")
	default:
		d.field("diff", "another answer")
		unified(d, r.Diff)
	}
	if r.Recorded != nil && !r.Whole {
		d.field("note", "parts of the recorded answer are missing")
	}
	outcome(d, "recorded", r.Recorded)
	outcome(d, "answered", r.Answered)
	return d.err
}

// outcome draws stop reason and usage of an answer.
func outcome(d *drawer, name string, a *replay.Answer) {
	if a == nil {
		return
	}
	var tokens []string
	if a.Usage != nil {
		tokens = usageWords(*a.Usage)
	}
	d.field(name, append([]string{Clean(a.StopReason)}, tokens...)...)
}

// lines draws a text as its lines, with the blanks in them.
func lines(d *drawer, st style, text string) {
	for line := range strings.Lines(text) {
		for i, l := range wrap(cleanLine(strings.TrimRight(line, "\r\n")), d.width-2, unbounded) {
			d.line(strings.Repeat("  ", min(i, 1)), st.of(l)) // what goes on is indented
		}
	}
}

// unified draws a unified diff, without the names of its sides.
func unified(d *drawer, diff string) {
	styles := map[byte]style{'+': green, '-': red, '@': cyan}
	n := 0
	for line := range strings.Lines(diff) {
		if n++; n > 2 {
			lines(d, styles[line[0]], line)
		}
	}
}

// ToolReplay is one tool call with its recorded result, and with a new one where a command ran it again.
// docs/replay.md describes its JSON form.
type ToolReplay struct {
	Format  int    `json:"format"`
	Address string `json:"address"` // of the turn
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	// Input is JSON as it was captured, empty where it is missing.
	Input session.RawJSON `json:"input,omitempty"`
	// Recorded is the result as the model saw it, Run that of the command. They are nil where there is none.
	Recorded *ToolResult `json:"recorded,omitempty"`
	Run      *ToolResult `json:"run,omitempty"`
	// Same is set for the same text but for line feeds at the end, and for an error where one was recorded and only there.
	Same bool `json:"same"`
	// Diff is a unified diff from recorded to run.
	Diff string `json:"diff,omitempty"`
}

// ToolResult is the result of a tool.
type ToolResult struct {
	Text  string `json:"text"`
	Error bool   `json:"is_error"`
}

// Compare compares the result of the command with the recorded one.
func (t *ToolReplay) Compare() {
	if t.Recorded != nil {
		before, after := strings.TrimRight(t.Recorded.Text, "\n"), strings.TrimRight(t.Run.Text, "\n")
		t.Same = before == after && t.Recorded.Error == t.Run.Error
		t.Diff = replay.Lines("recorded", "run", before, after)
	}
}

// Text writes the call, its results, and how they differ. The error is the writer's.
func (t *ToolReplay) Text(w io.Writer, o Options) error {
	d := newDrawer(w, o)
	d.field("turn", Clean(t.Address))
	d.field("call", Clean(t.ID), Clean(t.Name), Clean(t.Outcome))
	var input bytes.Buffer
	if json.Indent(&input, []byte(t.Input), "", "  ") == nil {
		d.field("input", "JSON")
		lines(d, plainText, input.String())
	} else {
		d.field("input", "missing")
	}
	for i, r := range []*ToolResult{t.Recorded, t.Run} {
		name := []string{"result", "run"}[i]
		switch {
		case r != nil:
			d.field(name, map[bool]string{false: "ok", true: "error"}[r.Error])
			lines(d, plainText, r.Text)
		case i == 0:
			d.field(name, "missing")
		}
	}
	if t.Recorded != nil && t.Run != nil {
		d.field("diff", map[bool]string{false: "another result", true: "the same result"}[t.Same])
		unified(d, t.Diff)
	}
	return d.err
}
