package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Input is one input of a model.
type Input struct {
	Input string `json:"input"`
	// Detail names roles, numbers, tools and parameters, never content. It is "none" where there is no such input.
	Detail string `json:"detail"`
}

// Report says whether a turn can be asked again. docs/replay.md describes its JSON form.
type Report struct {
	Eligible bool `json:"eligible"`
	// Reasons say what is missing. There is one at least where the turn is not eligible.
	Reasons []string `json:"reasons,omitempty"`
	// Inputs are those that are known, in a fixed order.
	Inputs []Input `json:"inputs,omitempty"`
	// Suggested is the API that the turn would be asked on.
	Suggested message.API `json:"suggested_form"`
}

// Check says whether a request of a turn can be asked again. Q is nil where the turn has none; payload is that of q.
func Check(turn *session.Turn, q *session.Request, payload session.Payload) *Report {
	c := &Report{}
	var r *message.Request
	var err error
	if payload.Bytes != nil {
		r, err = message.ReadRequest(payload.Bytes)
	}
	reason := func(s string) { c.Reasons = append(c.Reasons, s) }
	switch {
	case q == nil && turn.Capture != spans.CaptureContent && turn.Capture != spans.CaptureDigests && turn.Capture != "":
		reason("content was not captured")
	case payload.Bytes == nil && turn.Capture == spans.CaptureDigests:
		reason("captured as digests: only sizes and hashes are recorded")
	case q == nil:
		reason("the loop recorded no request")
	case payload.Bytes == nil:
		reason("the request is not whole")
	case err != nil:
		reason(err.Error())
	case q.Param(spans.ProvenanceRest).Block == "":
		reason("the loop recorded no parameters")
	}
	if payload.Redacted {
		reason("a redactor changed the request")
	}
	model := turn.Model
	if r != nil {
		model = cmp.Or(r.Model, model)
		c.request(r)
	}
	if model == "" {
		reason("no model is named")
	}
	c.input("model", model)
	variant := turn.Variant
	if turn.Level != "" {
		variant = strings.TrimPrefix(variant+", reasoning "+turn.Level, ", ")
	}
	c.input("variant", variant)
	c.Eligible, c.Suggested = len(c.Reasons) == 0, Suggest(r, turn.Provider)
	return c
}

func (c *Report) input(name, detail string) {
	c.Inputs = append(c.Inputs, Input{Input: name, Detail: cmp.Or(detail, "none")})
}

// request adds what a whole request holds.
func (c *Report) request(r *message.Request) {
	n, size := map[string]int{}, 0
	for _, m := range r.Messages {
		n[m.Role]++
		for _, p := range m.Parts {
			switch {
			case p.Type == "blob":
				n[p.Modality]++
			case p.Modality != "":
				n[p.Modality+" by reference"]++
			}
		}
	}
	for _, p := range r.System {
		text, _ := p.Text()
		size += len(text)
	}
	var messages, tools []string
	for _, name := range slices.Sorted(maps.Keys(n)) {
		messages = append(messages, fmt.Sprintf("%d %s", n[name], name))
	}
	for _, t := range r.Tools {
		tools = append(tools, message.Brief(t.Name))
	}
	c.input("messages", strings.Join(messages, ", "))
	c.input("system", fmt.Sprintf("%d bytes", size))
	c.input("tools", strings.Join(tools, ", "))
	c.input("params", strings.Join(r.Stated, ", "))
}
