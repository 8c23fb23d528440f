// Package project keeps what is derived of sessions up to date: it reads a session's rows, assembles its tree, and puts
// the summary back into the store.
package project

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// Session projects one session now, and fills the tables of the agent guide where the store keeps them. It reads the
// revision first, so that a Put that comes meanwhile makes the session stale again. A session that is not there, or no
// more, is no error. It takes memory for the whole session.
func Session(ctx context.Context, st store.Store, k session.Key) error {
	err := projectSession(ctx, st, k)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("project: session %q: %w", k.ID, err)
	}
	return nil
}

func projectSession(ctx context.Context, st store.Store, k session.Key) error {
	mark, err := st.Revision(ctx, k)
	if err != nil {
		return err
	}
	rows, err := readRows(ctx, st, k)
	if err != nil {
		return err
	}
	tree := session.Assemble(rows)
	summary := session.Summarize(tree)
	refs := tree.TitleRefs()
	c, chat := st.(chatTables)
	chat = chat && c.ChatTables()
	if chat || len(refs) > 0 {
		bodies, err := store.NewBodies(ctx, st, k)
		if err != nil {
			return err
		}
		bodies.Add(tree.LiveBlocks())
		if chat {
			// First: what takes the dirty mark away comes last.
			if err := projectChat(ctx, st, c, k, mark, tree, bodies); err != nil {
				return err
			}
		}
		if summary.Title, err = titleOf(ctx, tree, refs, bodies); err != nil {
			return err
		}
	}
	return st.SetSummary(ctx, k, store.SummaryUpdate{
		Revision: mark, Summary: summary, Figures: session.FiguresOf(tree),
	})
}

// chatTables is an optional part of a Store: one that keeps the rows of the agent guide, such as sqlitestore.Store.
type chatTables interface {
	// ChatTables says whether it does.
	ChatTables() bool
	// ProjectChat replaces those of a session, in one transaction, unless the present ones are of a later mark. It may
	// read rows several times.
	ProjectChat(ctx context.Context, k session.Key, mark store.Revision, rows iter.Seq2[export.Row, error]) error
	// CallMessage returns the id of the message row that holds a tool call of a session, "" where there is none.
	CallMessage(ctx context.Context, sessionID, callID string) (string, error)
}

// projectChat writes what an export of the session would write, with what is there.
func projectChat(ctx context.Context, st store.Store, c chatTables, k session.Key, mark store.Revision,
	tree *session.Session, bodies *store.Bodies,
) error {
	var failed error
	opts := export.Options{Partial: true, Session: func(id string) *session.Session {
		rows, err := readRows(ctx, st, session.Key{Tenant: k.Tenant, ID: id})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			failed = err
		}
		if len(rows) == 0 {
			return nil
		}
		return session.Assemble(rows)
	}, CallMessage: func(id, call string) string {
		message, err := c.CallMessage(ctx, id, call)
		if err != nil {
			failed = err
		}
		return message
	}}
	g, err := export.NewGuide(ctx, tree, bodies, opts)
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

func readRows(ctx context.Context, st store.Store, k session.Key) (rows []session.Row, err error) {
	for r, err := range st.Rows(ctx, k) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// titleOf reads the bodies of the title.
func titleOf(ctx context.Context, tree *session.Session, refs []session.Ref, bodies *store.Bodies) (string, error) {
	var ids []spans.ShortID
	for _, ref := range refs {
		if id, err := spans.ParseShortID(ref.Block); err == nil { // no id of a block has no body
			ids = append(ids, id)
		}
	}
	set, _, err := bodies.Load(ctx, ids, len(ids))
	if err != nil {
		return "", err
	}
	return tree.Title(set), nil
}

// maxErrors bounds how many errors Refresh returns.
const maxErrors = 8

// Refresh projects all sessions that are dirty when it begins, and once more those that these made dirty: the rows of
// sub-agents name messages of their parents. One that fails does not keep the others from it; the error joins the first
// few. It ends early when ctx ends or the store is closed.
func Refresh(ctx context.Context, st store.Store) error {
	keys, err := store.Stale(ctx, st)
	if err != nil {
		return fmt.Errorf("project: %w", err)
	}
	if err := refresh(ctx, st, keys); err != nil || len(keys) == 0 {
		return err
	}
	if keys, err = store.Stale(ctx, st); err != nil {
		return fmt.Errorf("project: %w", err)
	}
	return refresh(ctx, st, keys)
}

func refresh(ctx context.Context, st store.Store, keys []session.Key) error {
	var errs []error
	failed := 0
	for i, k := range keys {
		err := Session(ctx, st, k)
		if err == nil {
			continue
		}
		if failed++; failed <= maxErrors {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrReadOnly) {
			errs = append(errs, fmt.Errorf("project: %d of %d dirty sessions are left", len(keys)-i, len(keys)))
			return errors.Join(errs...)
		}
	}
	if failed > maxErrors {
		errs = append(errs, fmt.Errorf("project: and %d more sessions failed", failed-maxErrors))
	}
	return errors.Join(errs...)
}
