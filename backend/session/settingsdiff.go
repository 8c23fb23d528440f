package session

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/spans"
)

// request compares system prompt, catalogue, and all other parameters.
func (t *turnDiffer) request() {
	if _, lost := t.lost(); lost {
		return
	}
	x, y := t.differ.a.lastRequest(t.a), t.differ.b.lastRequest(t.b)
	t.named(DiffSystem, spans.ProvenanceSystem, x, y, t.a.PromptDigest, t.b.PromptDigest, changedSystem, &t.out.System)
	t.named(DiffTools, spans.ProvenanceTools, x, y, t.a.ToolsDigest, t.b.ToolsDigest, changedTools, &t.out.Tools)
	t.params(x, y)
}

// lastRequest returns what was answered; its Request is nil where none was told.
func (s *diffed) lastRequest(t *Turn) heldRequest {
	h := heldRequest{blocks: s.Blocks}
	if n := len(t.Requests); n > 0 {
		h.Request = t.Requests[n-1]
	}
	return h
}

// paramsTold says whether it is known of which parts a request is made.
func (h *heldRequest) paramsTold() bool {
	return h.Request != nil && h.Params != nil && h.Params.Complete
}

// named compares the system prompt or the catalogue.
func (t *turnDiffer) named(part DiffPart, kind spans.ProvenanceKind, x, y heldRequest, digestA, digestB string, changes func(before, after string) []namedChange, dst *[]TextDiff) {
	if t.ignored[part] {
		return
	}
	if !x.paramsTold() || !y.paramsTold() {
		switch {
		case digestA == "" || digestB == "":
			t.untold(part, digestA != "" || x.paramsTold(), digestB != "" || y.paramsTold())
		case digestA != digestB:
			t.once(part, digestA+" "+digestB, func() { *dst = []TextDiff{{Change: changeChanged, Digests: true, BlockA: digestA, BlockB: digestB}} })
		}
		return
	}
	before, after, changed, known := changedParam(x, y, kind)
	blockA, _, knownA := x.param(x.blocks, kind)
	blockB, _, knownB := y.param(y.blocks, kind)
	switch {
	case !known:
		if t.a.Capture == spans.CaptureContent && !knownA || t.b.Capture == spans.CaptureContent && !knownB { // they differ, and how was lost
			t.lostParam(part, knownA, knownB, x, y, kind)
		}
		t.once(part, blockA+" "+blockB, func() { *dst = []TextDiff{digestDiff(blockA, blockB)} })
	case changed:
		t.once(part, blockA+" "+blockB, func() {
			for _, c := range changes(before, after) {
				l := t.compare(c.name, c.before, c.after)
				l.Change = c.word()
				*dst = append(*dst, l)
			}
		})
	}
}

// lostParam notes that a body is not there.
func (t *turnDiffer) lostParam(part DiffPart, knownA, knownB bool, x, y heldRequest, kind spans.ProvenanceKind) {
	why := func(known bool, h heldRequest, capture spans.Capture) DiffWhy {
		if known {
			return ""
		}
		for _, ref := range h.Params.Items() {
			if ref.Provenance == string(kind) {
				return bodyLost(h.blocks, ref, capture)
			}
		}
		return DiffMissing
	}
	u := unknownSides{why(knownA, x, t.a.Capture), why(knownB, y, t.b.Capture)}
	t.unknown(u.of(part)...)
}

// params compares model, provider and everything else that the request says.
func (t *turnDiffer) params(x, y heldRequest) {
	if t.ignored[DiffParams] {
		return
	}
	a, b := t.a, t.b
	c := changes{}
	c.text("model", a.Model, b.Model)
	if a.Answered != "" && b.Answered != "" {
		c.text("answered_model", a.Answered, b.Answered)
	}
	c.text("provider", a.Provider, b.Provider)
	// What a request says is not known where it was not told, and is known without content where it was.
	untold := func(t *Turn) bool { return len(t.Requests) == 0 && t.RequestBytes == 0 && t.RequestMessages == 0 }
	optional := func(name, before, after string) {
		if before == "" && untold(a) || after == "" && untold(b) {
			return
		}
		c.optional(name, before, after)
	}
	optional("variant", string(quoted(a.Variant)), string(quoted(b.Variant)))
	optional("reasoning_level", string(quoted(a.Level)), string(quoted(b.Level)))
	optional("format", string(quoted(a.Format)), string(quoted(b.Format)))
	optional("max_tokens", decimal(a.MaxTokens), decimal(b.MaxTokens))
	optional("temperature", float(a.Temperature), float(b.Temperature))
	switch {
	case !x.paramsTold() || !y.paramsTold():
		t.untold(DiffParams, x.paramsTold(), y.paramsTold())
	default:
		before, after, changed, known := changedParam(x, y, spans.ProvenanceRest)
		blockA, _, knownA := x.param(x.blocks, spans.ProvenanceRest)
		blockB, _, knownB := y.param(y.blocks, spans.ProvenanceRest)
		switch {
		case !known && len(c.list) == 0:
			if a.Capture != spans.CaptureContent && b.Capture != spans.CaptureContent {
				d := digestDiff(blockA, blockB)
				c.list = append(c.list, ValueChange{Text: &d})
			} else {
				t.lostParam(DiffParams, knownA, knownB, x, y, spans.ProvenanceRest)
			}
		case changed:
			rest, ok := diffValues("", before, after, t.compare)
			if !ok {
				d := t.compare("", before, after)
				rest = []ValueChange{{Text: &d}}
			}
			for _, r := range rest {
				if !slices.ContainsFunc(c.list, func(own ValueChange) bool { return own.Path == sameParam[r.Path] }) {
					c.list = append(c.list, r)
				}
			}
		}
	}
	if len(c.list) > 0 {
		how, _ := json.Marshal(c.list)
		t.once(DiffParams, spans.BlockOfString(string(how)).String(), func() { t.out.Params = c.list })
	}
}

// sameParam are members of requests that say what a field of the turn says.
var sameParam = map[string]string{
	"model": "model", "model_id": "model", "max_tokens": "max_tokens", "max_output_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "temperature": "temperature",
	"thinking_level": "reasoning_level", "reasoning_effort": "reasoning_level", "reasoning.effort": "reasoning_level", "response_format.kind": "format", "response_format.type": "format",
}

func decimal(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func float(f *float64) string {
	if f == nil {
		return ""
	}
	b, err := json.Marshal(*f)
	if err != nil {
		return ""
	}
	return string(b)
}
