package inspect

import (
	"fmt"
	"io"
	"strconv"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/session/replay"
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
func NewReplay(t Tree, run *session.Run, turn *session.Turn, q *session.Request, o replay.Options) (*Replay, error) {
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
		r.Address = turnAddress(place{t, run, r.RunNumber}, turn)
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
	o.Fallback = turn.Model
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
