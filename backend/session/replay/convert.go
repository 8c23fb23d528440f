package replay

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/otelagent/otelagent/backend/session"
)

// Change says what kind a Note is of.
type Change string

const (
	// LeftOut: the form has no place for it.
	LeftOut Change = "left out"
	// Added: the form demands it, and the request does not say it.
	Added Change = "added"
	// Changed: it stands there in another way, or place.
	Changed Change = "changed"
	// Kept: it stands there as it was, and the provider may not like it.
	Kept Change = "kept"
)

// Note is one difference between a request and its body in another form.
type Note struct {
	Change Change `json:"change"`
	// What in plain words: kinds, keys and numbers, never a text of the conversation.
	What string `json:"what"`
	// Count is how often, and Where the first places: messages by their position in the request, from 0.
	Count int      `json:"count"`
	Where []string `json:"where,omitempty"`
}

func (n Note) String() string {
	s := string(n.Change) + ": " + n.What
	switch {
	case len(n.Where) == 0 && n.Count > 1:
		s += fmt.Sprintf(" (%d times)", n.Count)
	case len(n.Where) == 1 && n.Count == 1:
		s += " (" + n.Where[0] + ")"
	case len(n.Where) > 0:
		s += fmt.Sprintf(" (%d times, first %s)", n.Count, n.Where[0])
	}
	return s
}

// Options say how a body is made.
type Options struct {
	Form Form
	// Model is asked instead of the one of the request.
	Model string
	// Fallback is what the turn says was asked for. It stands where the request was kept without it.
	Fallback Fallback
	// System stands in the place of the system prompt; nil leaves that as it is.
	System *string
	// Whole turns streaming off where the request asks for it: the answer is wanted in one piece.
	Whole bool
}

// Fallback is what a turn tells of its request. What is nil or empty it does not tell.
type Fallback struct {
	Model, Level string
	MaxTokens    *int64
	Temperature  *float64
}

// Told returns what a turn tells of its request.
func Told(t *session.Turn) Fallback {
	return Fallback{Model: t.Model, Level: t.Level, MaxTokens: t.MaxTokens, Temperature: t.Temperature}
}

// Body is a request body for a provider.
type Body struct {
	Form     Form     `json:"form"`
	Spelling Spelling `json:"spelling"`
	// Bytes are JSON.
	Bytes []byte `json:"-"`
	// Unchanged says that Bytes are the request as it was captured.
	Unchanged bool   `json:"unchanged"`
	Notes     []Note `json:"notes,omitempty"`
}

// ErrNoRequest is the error about a payload that is no JSON object with messages.
var ErrNoRequest = errors.New("replay: the request is no JSON object with messages")

// Convert returns a captured request as a body of the form that o names. What is in that form already comes back byte for byte, but for what o
// replaces. payload is not changed, and Bytes may share its memory. The error is ErrNoRequest.
func Convert(payload []byte, o Options) (*Body, error) {
	r, err := read(payload)
	if o.Form == AsSent && (err == nil || o.Model == "" && o.System == nil) {
		b := &Body{Form: AsSent, Bytes: payload, Unchanged: true}
		if err == nil {
			b.Spelling = r.spelling
			b.replace(r, o)
		}
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	b := &Body{Form: o.Form, Spelling: r.spelling}
	if fits(payload, r, o.Form) {
		b.Bytes, b.Unchanged = payload, true
		b.replace(r, o)
		return b, nil
	}
	b.write(r, o)
	return b, nil
}

// write writes r in the form of o.
func (b *Body) write(r *request, o Options) {
	w := writer{request: r, same: r.spelling.own() == o.Form}
	switch {
	case o.Model != "":
		r.model = o.Model
	case r.model == "" && o.Fallback.Model != "":
		r.model = o.Fallback.Model
		w.add(Added, "the model that the turn names", "")
	case r.model == "":
		w.add(Kept, "that no model is named, which the provider refuses: name one", "")
	}
	for _, name := range r.params.fill(o.Fallback) {
		w.add(Added, name+" that the turn names", "")
	}
	if o.System != nil {
		r.system = nil
		if *o.System != "" {
			r.system = []part{{kind: text, text: *o.System}}
		}
	}
	switch o.Form {
	case Anthropic:
		b.Bytes = w.anthropic()
	case OpenAIChat:
		b.Bytes = w.chat()
	default:
		b.Bytes = w.responses()
	}
	b.Notes = w.notes()
}

// fill sets what the request does not say and the turn does, and names it.
func (p *params) fill(f Fallback) (names []string) {
	if p.maxTokens == nil && f.MaxTokens != nil {
		p.maxTokens, names = strconv.AppendInt(nil, *f.MaxTokens, 10), append(names, "max tokens")
	}
	if t := f.Temperature; p.temperature == nil && t != nil && !math.IsNaN(*t) && !math.IsInf(*t, 0) {
		p.temperature, names = strconv.AppendFloat(nil, *f.Temperature, 'g', -1, 64), append(names, "temperature")
	}
	if p.level == "" && p.budget == nil && f.Level != "" {
		p.level, names = f.Level, append(names, "reasoning level")
	}
	return names
}
