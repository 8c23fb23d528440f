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

// Bodies gives the blocks of one session. store.Bodies is one; Held makes one of a set that is held anyway.
type Bodies interface {
	// Load returns a set with those of the blocks ids that are there: their bodies, and templates with all that they
	// refer to. A block that is not there is no error.
	Load(ctx context.Context, ids []spans.ShortID) (*session.BlockSet, error)
}

// Held returns Bodies that are all in blocks, which may be nil: then there are none.
func Held(blocks *session.BlockSet) Bodies { return held{blocks} }

type held struct{ blocks *session.BlockSet }

func (h held) Load(context.Context, []spans.ShortID) (*session.BlockSet, error) { return h.blocks, nil }

// content is a session with its blocks, and the list of those that an export misses.
type content struct {
	s       *session.Session
	blocks  *session.BlockSet
	opts    Options
	missing []Missing
	// noted is set once everything was read: no more missing content is listed.
	noted bool
}

// newContent loads the blocks that exports of s read, with or without the messages of requests. bodies may be nil.
func newContent(ctx context.Context, s *session.Session, bodies Bodies, opts Options, requests bool) (*content, error) {
	c := &content{s: s, opts: opts}
	var ids []spans.ShortID
	seen := map[string]bool{}
	add := func(ref session.Ref) {
		if seen[ref.Block] {
			return
		}
		seen[ref.Block] = true
		if id, err := spans.ParseShortID(ref.Block); err == nil {
			ids = append(ids, id)
		}
	}
	for x := range references(s) {
		add(x.ref)
	}
	for n := range s.Walk() {
		if requests && n.Kind() == session.KindTurn {
			for _, q := range n.Turn.Requests[max(0, len(n.Turn.Requests)-1):] {
				for _, ref := range q.Messages.Items() {
					add(ref)
				}
			}
		}
	}
	err := ctx.Err()
	if bodies != nil && err == nil {
		c.blocks, err = bodies.Load(ctx, ids)
	}
	if err != nil {
		return nil, fmt.Errorf("export: read content: %w", err)
	}
	return c, nil
}

// reference is a reference to a body, with the run and the turn that have it.
type reference struct {
	session.Node
	ref session.Ref
	// isExtra: only ACP has a place for it.
	isExtra bool
}

// references yields the references of a session that exports read, but for messages of requests. Of the requests of a
// turn it is the last.
func references(s *session.Session) iter.Seq[reference] {
	return func(yield func(reference) bool) {
		on := true
		put := func(n session.Node, isExtra bool, refs ...session.Ref) {
			for _, ref := range refs {
				on = on && yield(reference{n, ref, isExtra})
			}
		}
		lists := func(n session.Node, notes []session.Note, lists ...*session.Refs) {
			for _, l := range lists {
				put(n, false, l.Items()...)
			}
			for i := range notes {
				if notes[i].Body != nil {
					put(n, true, *notes[i].Body)
				}
			}
		}
		for n := range s.Walk() {
			switch r, t := n.Run, n.Turn; n.Kind() {
			case session.KindRun:
				lists(n, r.Events, r.Metadata, r.Rules, r.Outside, r.Messages)
			case session.KindTurn:
				lists(n, t.Events, t.Input, t.Output, t.Results)
				if q := lastRequest(t); q != nil {
					lists(n, nil, q.Params)
				}
			case session.KindToolCall:
				lists(n, n.Call.Events, n.Call.Args, n.Call.Result)
			case session.KindCompaction:
				lists(n, n.Compaction.Events, n.Compaction.Summary, n.Compaction.After)
			case session.KindPermission:
				put(n, true, n.Permission.Options.Items()...)
			}
		}
		for i := range s.Facts {
			if v := s.Facts[i].Value; v != nil {
				put(session.Node{}, false, *v)
			}
		}
	}
}

// lastRequest returns the request of the last attempt of a turn; nil where none is known.
func lastRequest(t *session.Turn) *session.Request {
	if len(t.Requests) == 0 {
		return nil
	}
	return t.Requests[len(t.Requests)-1]
}

// miss notes missing content.
func (c *content) miss(where, what string) {
	if !c.noted {
		c.missing = append(c.missing, Missing{Where: where, What: what})
	}
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

// list returns the bodies of a list that are there. It calls note with each reason why others are not.
func (c *content) list(name string, refs *session.Refs, note func(what string)) []body {
	if refs == nil {
		return nil
	}
	if !refs.Complete {
		note(fmt.Sprintf("%s: %d of %d items", name, refs.Len(), refs.Count))
	}
	items, read := refs.Items(), c.blocks.Read(refs)
	blocks := func(at []int) string {
		var names []string
		for _, i := range at {
			names = append(names, items[i].Block)
		}
		return "blocks " + strings.Join(names, " ")
	}
	var l []body
	for i, ref := range items {
		b := []byte(read.Bodies[i])
		if slices.Contains(messageLists, name) {
			b = sorted(b)
		}
		_, isMissing := slices.BinarySearch(read.Missing, i)
		if _, isWithheld := slices.BinarySearch(read.Withheld, i); !isMissing && !isWithheld {
			l = append(l, body{ref, b})
		}
	}
	if len(read.Missing) > 0 {
		note(name + ": " + blocks(read.Missing))
	}
	if len(read.Withheld) > 0 {
		note(name + ": withheld at the source: " + blocks(read.Withheld))
	}
	return l
}
