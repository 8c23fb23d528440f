// Package project keeps what is derived of sessions up to date: it reads a session's rows, assembles its tree, and puts
// the summary back into the store.
package project

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/mapped"
	"github.com/otelagent/otelagent/spans"
)

// Session projects one session now, with those whose records belong to it or that hold records of it, and fills the
// tables of the agent guide where the store keeps them. It reads the revision first, so that a Put that comes meanwhile
// makes the session stale again. A session that is not there, or no more, is no error. It takes memory for the whole
// session.
func Session(ctx context.Context, st store.Store, k session.Key) error {
	return newProjector(st, []session.Key{k}).project(ctx, k)
}

// Sessions projects sessions, each as Session does and none twice. It calls report with the result of each, and ends
// where that returns an error.
func Sessions(ctx context.Context, st store.Store, keys []session.Key, report func(session.Key, error) error) error {
	p := newProjector(st, keys)
	for _, k := range keys {
		if err := report(k, p.project(ctx, k)); err != nil {
			return err
		}
	}
	return nil
}

// projector projects sessions that are stale, each once. A session that has parts (package mapped) is projected with
// them: so many parts that change together cost one reading.
type projector struct {
	st    store.Store
	stale map[session.Key]bool
	begun map[session.Key]bool
	done  map[session.Key]bool
}

func newProjector(st store.Store, stale []session.Key) *projector {
	p := &projector{st, map[session.Key]bool{}, map[session.Key]bool{}, map[session.Key]bool{}}
	for _, k := range stale {
		p.stale[k] = true
	}
	return p
}

func (p *projector) project(ctx context.Context, k session.Key) error {
	err := p.session(ctx, k)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("project: session %q: %w", k.ID, err)
	}
	return nil
}

func (p *projector) session(ctx context.Context, k session.Key) error {
	if p.begun[k] || p.done[k] {
		return nil
	}
	p.begun[k] = true
	owners, err := mapped.Owners(ctx, p.st, k)
	if err != nil {
		return err
	}
	for _, o := range owners { // one without records of other programs has no parts
		if !p.stale[o.Key] && o.Mapped == "" && o.Status != "" {
			continue
		}
		if err := p.session(ctx, o.Key); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	if p.done[k] {
		return nil
	}
	if _, err := p.st.Revision(ctx, k); err != nil {
		return err // it is gone
	}
	s, err := mapped.Open(ctx, p.st, k)
	if err != nil {
		return err
	}
	if err := p.keep(ctx, k, s.Marks[k], s); err != nil {
		return err
	}
	p.done[k] = true
	return p.parts(ctx, k, s)
}

// parts projects the parts of a session that are stale or in lists, from the rows that were read for it.
func (p *projector) parts(ctx context.Context, k session.Key, whole *mapped.Session) error {
	byTrace := map[session.TraceID][]session.Row{}
	for i := range whole.Raw {
		if r := &whole.Raw[i]; len(whole.Parts) > 0 {
			byTrace[r.Trace] = append(byTrace[r.Trace], *r)
		}
	}
	for _, part := range whole.Parts {
		if part.Part && part.Parent != "" && !p.stale[part.Key] || p.done[part.Key] {
			continue
		}
		trace, ok := foreign.ParseTraceSession(part.ID)
		if !ok {
			continue
		}
		s := &mapped.Session{Raw: byTrace[trace], Links: &session.Links{Traces: []session.TraceID{trace}},
			Named: []session.Summary{{Key: k}}}
		s.Rows = foreign.Default().Map(s.Raw, part.Key)
		err := p.keep(ctx, part.Key, whole.Marks[part.Key], s)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		p.done[part.Key] = true
	}
	return nil
}

// keep puts the summary of a session into the store. Where its rows belong to another one it is a part of that.
func (p *projector) keep(ctx context.Context, k session.Key, mark store.Revision, s *mapped.Session) error {
	tree := s.Tree()
	summary := session.Summarize(tree)
	if s.Links != nil {
		summary.Mapped = foreign.Default().Version()
	}
	owner := s.Owner()
	if len(s.Rows) == 0 && len(s.Raw) > 0 { // also one that holds nothing but plumbing
		summary.Part, summary.Parent, summary.Status = true, owner.ID, spans.SessionStatusIdle
	}
	if summary.Last.IsZero() { // else retention takes it for the oldest
		for _, r := range s.Raw {
			if t := time.Unix(0, r.End).UTC(); r.Session == k && r.End > 0 && t.After(summary.Last) {
				summary.Last = t
			}
		}
	}
	if len(s.Parts) == 0 {
		s.Rows, s.Raw = nil, nil // of a long session they are as large as the tree
	}
	c, chat := p.st.(chatTables)
	chat = chat && c.ChatTables()
	if refs := tree.TitleRefs(); chat || len(refs) > 0 {
		var err error
		whole := session.Tree{Session: tree}
		if chat {
			if whole, err = session.NewTree(tree, mapped.Blocks(ctx, p.st, k, tree.Links)); err != nil {
				return err
			}
			// First: what takes the dirty mark away comes last.
			if err := projectChat(ctx, p.st, c, k, mark, whole); err != nil {
				return err
			}
		} else if whole.Blocks, err = titleBlocks(ctx, p.st, k, tree, refs); err != nil {
			return err
		}
		summary.Title = tree.Title(whole.Blocks)
	}
	return p.st.SetSummary(ctx, k, store.SummaryUpdate{
		Revision: mark, Summary: summary, Figures: session.FiguresOf(tree),
	})
}

// chatTables is an optional part of a Store: one that keeps the rows of the agent guide, such as sqlitestore.Store.
type chatTables interface {
	// ChatTables says whether it does.
	ChatTables() bool
	// ProjectChat replaces those of a session, in transactions of 512 KiB, unless the present ones are of a later mark.
	// It may read rows several times.
	ProjectChat(ctx context.Context, k session.Key, mark store.Revision, rows iter.Seq2[export.Row, error]) error
	// CallMessage returns the id of the message row that holds a tool call of a session, "" where there is none.
	CallMessage(ctx context.Context, sessionID, callID string) (string, error)
}

// projectChat writes what an export of the session would write, with what is there.
func projectChat(ctx context.Context, st store.Store, c chatTables, k session.Key, mark store.Revision,
	tree session.Tree,
) error {
	var failed error
	opts := export.Options{Partial: true, Session: func(id string) *session.Session {
		t, err := mapped.Tree(ctx, st, session.Key{Tenant: k.Tenant, ID: id})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			failed = err
		}
		if err != nil || len(t.Runs) == 0 {
			return nil
		}
		return t
	}, CallMessage: func(id, call string) string {
		message, err := c.CallMessage(ctx, id, call)
		if err != nil {
			failed = err
		}
		return message
	}}
	g, err := export.NewGuide(tree, opts)
	switch {
	case errors.Is(err, export.ErrEmpty):
		return c.ProjectChat(ctx, k, mark, func(func(export.Row, error) bool) {})
	case err != nil:
		return err
	}
	return c.ProjectChat(ctx, k, mark, func(yield func(export.Row, error) bool) {
		for row := range g.Rows() {
			if !yield(row, failed) || failed != nil {
				return
			}
		}
	})
}

// titleBlocks reads the bodies that refs name, and what templates among them refer to. It passes all blocks of the
// session once, and once more where there are templates.
func titleBlocks(ctx context.Context, st store.Store, k session.Key, tree *session.Session, refs []session.Ref,
) (*session.BlockSet, error) {
	set, want := &session.BlockSet{}, map[spans.ShortID]bool{}
	for _, ref := range refs {
		if id, err := spans.ParseShortID(ref.Block); err == nil { // no id of a block has no body
			want[id] = true
		}
	}
	for pass := 0; pass < 2 && len(want) > 0; pass++ { // what a template refers to is no template
		pieces := map[spans.ShortID]bool{}
		add := func(b session.Block) {
			if want[b.ID.Short()] {
				set.Add(b)
				for id := range spans.Blocks(b.Body) {
					pieces[id] = true
				}
			}
		}
		for _, b := range tree.LiveBlocks() {
			add(b)
		}
		for b, err := range mapped.Blocks(ctx, st, k, tree.Links) {
			if err != nil {
				return nil, err
			}
			add(b)
		}
		want = pieces
	}
	return set, nil
}

// maxErrors bounds how many errors Refresh returns.
const maxErrors = 8

// Refresh projects all sessions that are dirty when it begins, and once more those that these made dirty: the rows of
// sub-agents name messages of their parents. One that fails does not keep the others from it; the error joins the first
// few. It ends early when ctx ends or the store is closed.
func Refresh(ctx context.Context, st store.Store) error { return RefreshSmall(ctx, st, math.MaxInt64) }

// RefreshSmall is Refresh for the sessions of at most so many bytes (Store.Size), since projecting one takes several
// times that memory. Larger ones stay dirty.
func RefreshSmall(ctx context.Context, st store.Store, bytes int64) error {
	for range 2 {
		keys, err := store.Stale(ctx, st)
		if err != nil {
			return fmt.Errorf("project: %w", err)
		}
		keys = slices.DeleteFunc(keys, func(k session.Key) bool {
			size, err := st.Size(ctx, k)
			return err == nil && size > bytes
		})
		if err := refresh(ctx, st, keys); err != nil {
			return err
		}
	}
	return nil
}

func refresh(ctx context.Context, st store.Store, keys []session.Key) error {
	var errs []error
	failed := 0
	n := 0
	err := Sessions(ctx, st, keys, func(_ session.Key, err error) error {
		if n++; err == nil {
			return nil
		}
		if failed++; failed <= maxErrors {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrReadOnly) {
			return fmt.Errorf("project: %d of %d dirty sessions are left", len(keys)-n+1, len(keys))
		}
		return nil
	})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if failed > maxErrors {
		errs = append(errs, fmt.Errorf("project: and %d more sessions failed", failed-maxErrors))
	}
	return errors.Join(errs...)
}
