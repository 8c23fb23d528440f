package export

import (
	"context"
	"fmt"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Bodies gives the blocks of one session a stretch at a time, so that a session need not be held whole. store.Bodies is
// one; Held makes one of a set that is held anyway. An exporter calls Load from one goroutine at a time.
type Bodies interface {
	// Load returns a set with what is there of the blocks ids: their bodies, and recipes with all that these are made
	// of. Of the first least ids everything is there, and of those behind them as many in their order as there is room
	// for: n says of how many in all. least is at most len(ids). The set is the caller's to read until the next Load. A
	// block that is not there is no error.
	Load(ctx context.Context, ids []spans.ShortID, least int) (set *session.BlockSet, n int, err error)
}

// Held returns Bodies that are all in blocks, which may be nil: then there are none.
func Held(blocks *session.BlockSet) Bodies { return held{blocks} }

type held struct{ blocks *session.BlockSet }

func (h held) Load(_ context.Context, ids []spans.ShortID, _ int) (*session.BlockSet, int, error) {
	return h.blocks, len(ids), nil
}

// window is the stretch of bodies at hand.
type window struct {
	bodies Bodies
	set    *session.BlockSet
	have   map[spans.ShortID]struct{}
}

// aheadMost bounds how many blocks are asked for beyond those that are needed now.
const aheadMost = 2048

// load makes what the lists refer to readable. ahead appends the ids that will be needed next; it is called when
// something must be loaded.
func (w *window) load(ctx context.Context, need []spans.ShortID, ahead func([]spans.ShortID) []spans.ShortID) error {
	missing := func(id spans.ShortID) bool { _, ok := w.have[id]; return !ok }
	if !slices.ContainsFunc(need, missing) {
		return nil
	}
	least := len(need)
	if ahead != nil {
		need = ahead(need)
	}
	w.set = nil // before the next is made: one of them is enough
	set, n, err := w.bodies.Load(ctx, need, least)
	if err != nil {
		return fmt.Errorf("export: read content: %w", err)
	}
	w.set, w.have = set, make(map[spans.ShortID]struct{}, n)
	for _, id := range need[:n] {
		w.have[id] = struct{}{}
	}
	return nil
}

// appendIDs appends the blocks that lists refer to.
func appendIDs(dst []spans.ShortID, lists ...*session.Refs) []spans.ShortID {
	for _, l := range lists {
		if l == nil {
			continue
		}
		for _, ref := range l.Items() {
			dst = appendID(dst, ref)
		}
	}
	return dst
}

func appendID(dst []spans.ShortID, ref session.Ref) []spans.ShortID {
	if id, err := spans.ParseShortID(ref.Block); err == nil {
		dst = append(dst, id)
	}
	return dst
}

// same is BlockSet.Same of a message that identify looked at.
func (g *Guide) same(ref session.Ref) string {
	if first, ok := g.firsts[ref.Block]; ok {
		return first
	}
	return ref.Block
}

// identify finds out which messages of the session say the same. It passes over all of them once.
func (g *Guide) identify() error {
	g.firsts = map[string]string{}
	var ids []spans.ShortID
	seen := map[spans.ShortID]bool{}
	add := func(lists ...*session.Refs) {
		for _, id := range appendIDs(nil, lists...) {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	for _, r := range g.s.Runs {
		add(r.Messages, r.Outside)
		for _, c := range r.Compactions {
			add(c.After)
		}
		for _, t := range r.Turns {
			add(t.Input, t.Output, t.Results)
			for _, c := range t.Compactions {
				add(c.After)
			}
		}
	}
	for len(ids) > 0 {
		set, n, err := g.window.bodies.Load(g.ctx, ids, 1)
		if err != nil {
			return err
		}
		for _, id := range ids[:n] {
			if first := set.Same(session.Ref{Block: id.String()}); first != id.String() {
				g.firsts[id.String()] = first
			}
		}
		ids = ids[n:]
	}
	return nil
}
