package export

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// content is a session with its blocks, and the list of those that an export misses.
type content struct {
	s       *session.Session
	blocks  *session.BlockSet
	opts    Options
	missing []Missing
	asked   map[*session.Turn]*session.Refs // see input; nil until the first
}

// miss notes missing content.
func (c *content) miss(where, what string) {
	c.missing = append(c.missing, Missing{Where: where, What: what})
}

// missed returns a *MissingError that names the missing content; nil where there is none, and with Options.Partial.
func (c *content) missed() error {
	if len(c.missing) == 0 || c.opts.Partial {
		return nil
	}
	return &MissingError{Session: c.s.ID, Missing: c.missing}
}

// isCaptured reports whether the content of a run, or of a turn, was captured, as far as is known.
func isCaptured(c spans.Capture) bool { return c == "" || c == spans.CaptureContent }

// body returns the body of a block.
func (c *content) body(ref session.Ref) (string, bool) { return c.blocks.Body(ref) }

// message returns the body of a message with sorted keys.
func (c *content) message(ref session.Ref) []byte {
	body, _ := c.body(ref)
	return sorted([]byte(body))
}

// fact returns the value of a fact, nil where it is not there or no JSON.
func (c *content) fact(f *session.Fact) json.RawMessage {
	if f != nil && f.Value != nil {
		if v, ok := c.body(*f.Value); ok && json.Valid([]byte(v)) {
			return json.RawMessage(v)
		}
	}
	return nil
}

// body is one body of a list. Messages have sorted keys.
type body struct {
	ref  session.Ref
	body []byte
}

// messageLists are the lists whose items are messages.
var messageLists = []string{spans.ListInput, spans.ListOutput, spans.ListResults, spans.ListMessages, spans.ListOutside,
	spans.ListRequest, spans.ListBefore, spans.ListAfter}

// input returns the messages that came with a turn, and the name of their list. Records of other programs have requests
// alone: of these the messages that neither a model nor a tool wrote, and that no earlier request has as often. A run
// below another one has requests of its own.
func (c *content) input(r *session.Run, t *session.Turn) (name string, refs *session.Refs) {
	if t.Input.Len() > 0 || len(t.Requests) == 0 || !r.Foreign() {
		return spans.ListInput, t.Input
	}
	if c.asked == nil {
		c.asked = map[*session.Turn]*session.Refs{}
		all := map[string]int{} // how often a request has a block
		for _, r := range c.s.Runs {
			most := all
			if r.ParentID != "" {
				most = map[string]int{}
			}
			for _, t := range r.Conversation() {
				c.asked[t] = c.news(t.LastRequest(), most)
			}
		}
	}
	return spans.ListRequest, c.asked[t]
}

// news returns the messages of a request for input. It updates most.
func (c *content) news(q *session.Request, most map[string]int) *session.Refs {
	if q == nil || q.Messages == nil {
		return nil
	}
	var out []session.Ref
	n := map[string]int{}
	for _, ref := range q.Messages.Items() {
		if n[ref.Block]++; n[ref.Block] <= most[ref.Block] {
			continue
		}
		most[ref.Block] = n[ref.Block]
		asks := func(p messagePart) bool { return p.Type == partCall } // a model, also where Gemini CLI writes system
		if m := readMessage(c.message(ref)); m.userSide() && !slices.ContainsFunc(m.parts, asks) {
			out = append(out, ref)
		}
	}
	return session.NewRefs(out...)
}

// list returns the bodies of a list that are there. It calls note with each reason why others are not.
func (c *content) list(name string, refs *session.Refs, note func(what string)) (l []body) {
	if refs == nil {
		return nil
	}
	if !refs.Complete {
		note(fmt.Sprintf("%s: %d of %d items", name, refs.Len(), refs.Count))
	}
	items, read := refs.Items(), c.blocks.Read(refs)
	isGone, blocks := map[int]bool{}, map[bool]string{} // by whether they were withheld
	for _, m := range read.Missing {
		isGone[m.Position] = true
		blocks[m.Withheld] += " " + items[m.Position].Block
	}
	for i, ref := range items {
		b := []byte(read.Bodies[i])
		if slices.Contains(messageLists, name) {
			b = sorted(b)
		}
		if !isGone[i] {
			l = append(l, body{ref, b})
		}
	}
	if blocks[false] != "" {
		note(name + ": blocks" + blocks[false])
	}
	if blocks[true] != "" {
		note(name + ": withheld at the source: blocks" + blocks[true])
	}
	return l
}
