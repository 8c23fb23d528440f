package reader

import (
	"context"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// List is a page of sessions. As JSON it is what `otelagent ls --output json` and the API give
// (backend/store/README.md).
type List struct {
	Format   int               `json:"format"`
	Sessions []session.Summary `json:"sessions"`
	// Next is the cursor (store.ParseCursor) after which the next page begins; empty where there is none.
	Next string `json:"next,omitempty"`
}

// List returns the sessions that q selects, at most q.Limit where that is above 0, with current summaries and the
// status that they have at now. q.Tenant becomes the reader's, and Parent and ForkedFrom, which may name a session as
// Resolve takes it, become its id. A name of none is an *Error, unless it is the whole id that a session has of one
// that never came.
func (r *Reader) List(ctx context.Context, q *store.Query, now time.Time) (List, error) {
	l := List{Format: session.TreeFormat, Sessions: []session.Summary{}}
	if err := r.refresh(ctx); err != nil {
		return l, err
	}
	q.Tenant = r.Tenant
	if err := r.relative(ctx, &q.Parent, store.Query{Parent: q.Parent}); err != nil {
		return l, err
	}
	if err := r.relative(ctx, &q.ForkedFrom, store.Query{ForkedFrom: q.ForkedFrom}); err != nil {
		return l, err
	}
	page := *q
	if q.Limit > 0 {
		page.Limit++ // shows whether there is a next one
	}
	for s, err := range r.Store.Sessions(ctx, page) {
		if err != nil {
			return l, err
		}
		if q.Limit > 0 && len(l.Sessions) == q.Limit {
			l.Next = store.CursorOf(&l.Sessions[q.Limit-1]).String()
			break
		}
		l.Sessions = append(l.Sessions, s)
	}
	for i := range l.Sessions { // after the cursor, which is of the stored summary
		l.Sessions[i].Status = l.Sessions[i].StatusAt(now)
	}
	return l, nil
}

// relative makes an id of a name of a session, unless named finds a session that refers to that very id.
func (r *Reader) relative(ctx context.Context, ref *string, named store.Query) error {
	if *ref == "" {
		return nil
	}
	named.Tenant, named.Limit = r.Tenant, 1
	for _, err := range r.Store.Sessions(ctx, named) {
		return err
	}
	key, err := r.Resolve(ctx, *ref)
	if err == nil {
		*ref = key.ID
	}
	return err
}
