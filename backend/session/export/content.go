package export

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Bodies gives the blocks of one session a stretch at a time, so that a session need not be held whole. store.Bodies is
// one; Held makes one of a set that is held anyway. An exporter calls Load from one goroutine at a time.
type Bodies interface {
	// Load returns a set with what is there of the blocks ids: their bodies, and templates with all that they refer to.
	// The set holds all of the first least ids, and of those after them as many in their order as there is room for: n
	// is the number of both. least is at most len(ids). The set is the caller's to read until the next Load but one. A
	// block that is not there is no error.
	Load(ctx context.Context, ids []spans.ShortID, least int) (set *session.BlockSet, n int, err error)
}

// Held returns Bodies that are all in blocks, which may be nil: then there are none.
func Held(blocks *session.BlockSet) Bodies { return held{blocks} }

type held struct{ blocks *session.BlockSet }

func (h held) Load(_ context.Context, ids []spans.ShortID, _ int) (*session.BlockSet, int, error) {
	return h.blocks, len(ids), nil
}

// content reads bodies of one session. It loads the blocks that are asked for together with those that follow them in
// the session, and keeps the last two stretches. The first error stays: from then on there are no bodies.
type content struct {
	ctx       context.Context //nolint:containedctx // of the one call of NewGuide or Rows that is going on
	bodies    Bodies
	order     []spans.ShortID         // blocks in the order in which the exporters ask for them
	place     map[spans.ShortID]int32 // in order
	messages  []session.Ref           // blocks that are messages, once each
	stretches [2]stretch              // the newest first
	err       error
}

type stretch struct {
	set  *session.BlockSet
	have map[spans.ShortID]struct{}
}

// ahead bounds how many blocks content asks for beyond those that are needed.
const ahead = 2048

func newContent(ctx context.Context, s *session.Session, bodies Bodies) *content {
	if bodies == nil {
		bodies = Held(nil)
	}
	c := &content{ctx: ctx, bodies: bodies, place: map[spans.ShortID]int32{}}
	for x := range references(s) {
		id, err := spans.ParseShortID(x.ref.Block)
		if _, ok := c.place[id]; ok || err != nil {
			continue
		}
		c.place[id] = int32(len(c.order))
		c.order = append(c.order, id)
		if x.isMessage {
			c.messages = append(c.messages, session.Ref{Block: x.ref.Block})
		}
	}
	return c
}

// reference is a reference to a body, with the run and the turn that have it.
type reference struct {
	run       *session.Run
	turn      *session.Turn
	ref       session.Ref
	isMessage bool
	// isExtra: only ACP has a place for it.
	isExtra bool
}

// references yields the references of a session in the order in which the exporters ask for them.
func references(s *session.Session) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		var at reference
		on := true
		put := func(isMessage, isExtra bool, refs ...session.Ref) {
			for _, ref := range refs {
				on = on && yield(reference{at.run, at.turn, ref, isMessage, isExtra})
			}
		}
		lists := func(isMessage bool, lists ...*session.Refs) {
			for _, l := range lists {
				put(isMessage, false, l.Items()...)
			}
		}
		extra := func(permissions []*session.Permission, notes []session.Note) {
			for _, x := range permissions {
				put(false, true, x.Options.Items()...)
			}
			for i := range notes {
				if notes[i].Body != nil {
					put(false, true, *notes[i].Body)
				}
			}
		}
		inside := func(calls []*session.ToolCall, compactions []*session.Compaction) {
			for _, x := range calls {
				lists(false, x.Args, x.Result)
				extra(x.Permissions, x.Events)
			}
			for _, x := range compactions {
				lists(false, x.Summary)
				lists(true, x.After)
				extra(nil, x.Events)
			}
		}
		for _, r := range s.Runs {
			at = reference{run: r}
			lists(false, r.Metadata, r.Rules)
			for _, t := range byStart(r.Turns) {
				at.turn = t
				for _, kind := range []spans.ProvenanceKind{spans.ProvenanceSystem, spans.ProvenanceTools} {
					if ref := requestText(t, kind); ref != nil {
						put(false, false, *ref)
					}
				}
				lists(true, t.Input, t.Output, t.Results)
				inside(t.ToolCalls, t.Compactions)
				extra(t.Permissions, t.Events)
			}
			at.turn = nil
			lists(true, r.Outside, r.Messages)
			inside(r.ToolCalls, r.Compactions)
			extra(r.Permissions, r.Events)
		}
		for i := range s.Facts {
			if at = (reference{}); s.Facts[i].Value != nil {
				put(false, false, *s.Facts[i].Value)
			}
		}
	}
}

// going reports whether no error occurred and ctx goes on.
func (c *content) going() bool {
	if err := c.ctx.Err(); err != nil && c.err == nil {
		c.err = fmt.Errorf("export: %w", err)
	}
	return c.err == nil
}

// set returns a set that holds what is there of the blocks of refs.
func (c *content) set(refs ...session.Ref) *session.BlockSet {
	ids := make([]spans.ShortID, 0, len(refs))
	for _, ref := range refs {
		if id, err := spans.ParseShortID(ref.Block); err == nil {
			ids = append(ids, id)
		}
	}
	for _, x := range c.stretches {
		if x.have != nil && !slices.ContainsFunc(ids, func(id spans.ShortID) bool { _, ok := x.have[id]; return !ok }) {
			return x.set
		}
	}
	if len(ids) == 0 || !c.going() {
		return nil
	}
	ask := ids
	if at, ok := c.place[ids[len(ids)-1]]; ok {
		next := c.order[at+1:]
		ask = append(slices.Clip(ids), next[:min(len(next), ahead)]...)
	}
	c.stretches[1] = stretch{} // before the next is made
	set, n, err := c.bodies.Load(c.ctx, ask, len(ids))
	if err != nil {
		c.err = fmt.Errorf("export: read content: %w", err)
		return nil
	}
	have := make(map[spans.ShortID]struct{}, n)
	for _, id := range ask[:n] {
		have[id] = struct{}{}
	}
	c.stretches[0], c.stretches[1] = stretch{set, have}, c.stretches[0]
	return set
}

// body returns the body of a block.
func (c *content) body(ref session.Ref) (string, bool) { return c.set(ref).Body(ref) }

// message returns the body of a message with sorted keys.
func (c *content) message(ref session.Ref) (string, bool) {
	body, ok := c.body(ref)
	return string(sorted([]byte(body))), ok
}

// value returns a body that is JSON; nil where it is not there or is anything else.
func (c *content) value(ref *session.Ref) json.RawMessage {
	if ref == nil {
		return nil
	}
	if v, ok := c.body(*ref); ok && json.Valid([]byte(v)) {
		return json.RawMessage(v)
	}
	return nil
}

// fact returns the value of a fact, nil where it is not there.
func (c *content) fact(f *session.Fact) json.RawMessage {
	if f == nil {
		return nil
	}
	return c.value(f.Value)
}

// body is one body of a list. Messages have sorted keys.
type body struct {
	ref  session.Ref
	body []byte
}

// messageLists are the lists whose items are messages.
var messageLists = []string{spans.ListInput, spans.ListOutput, spans.ListResults, spans.ListMessages, spans.ListOutside,
	spans.ListRequest, spans.ListBefore, spans.ListAfter}

// list returns the bodies of a list that are there. It calls note with each reason why others are not.
func (c *content) list(name string, refs *session.Refs, note func(what string)) []body {
	if refs == nil {
		return nil
	}
	if !refs.Complete {
		note(fmt.Sprintf("%d of %d items", refs.Len(), refs.Count))
	}
	items := refs.Items()
	read := c.set(items...).Read(refs)
	l := make([]body, 0, len(items))
	var lost, withheld []string
	for i, ref := range items {
		if _, ok := slices.BinarySearch(read.Missing, i); ok {
			lost = append(lost, ref.Block)
		} else if _, ok := slices.BinarySearch(read.Withheld, i); ok {
			withheld = append(withheld, ref.Block)
		} else if b := []byte(read.Bodies[i]); slices.Contains(messageLists, name) {
			l = append(l, body{ref, sorted(b)})
		} else {
			l = append(l, body{ref, b})
		}
	}
	if len(lost) > 0 {
		note("blocks " + strings.Join(lost, " "))
	}
	if len(withheld) > 0 {
		note("withheld at the source: blocks " + strings.Join(withheld, " "))
	}
	return l
}
