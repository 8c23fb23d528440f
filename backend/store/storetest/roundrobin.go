package storetest

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// RoundRobin returns a store that gives each call to the next of several, which must be the same data opened several
// times, as by several collectors without session affinity. Run holds it to what one store must do: no store may rely
// on what it remembers of its own calls.
func RoundRobin(stores ...store.Store) store.Store { return &roundRobin{stores: stores} }

type roundRobin struct {
	stores []store.Store
	calls  atomic.Uint64
}

func (r *roundRobin) next() store.Store { return r.stores[r.calls.Add(1)%uint64(len(r.stores))] }

func (r *roundRobin) Put(ctx context.Context, b session.Batch) error { return r.next().Put(ctx, b) }

func (r *roundRobin) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	return r.next().Rows(ctx, k)
}

func (r *roundRobin) Blocks(ctx context.Context, k session.Key, ids []spans.BlockID) iter.Seq2[session.Block, error] {
	return r.next().Blocks(ctx, k, ids)
}

func (r *roundRobin) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Summary, error] {
	return r.next().Sessions(ctx, q)
}

func (r *roundRobin) Figures(ctx context.Context, q store.FigureQuery) iter.Seq2[any, error] {
	return r.next().Figures(ctx, q)
}

func (r *roundRobin) Tenants(ctx context.Context) iter.Seq2[string, error] {
	return r.next().Tenants(ctx)
}

func (r *roundRobin) Revision(ctx context.Context, k session.Key) (store.Revision, error) {
	return r.next().Revision(ctx, k)
}

func (r *roundRobin) SetSummary(ctx context.Context, k session.Key, p store.SummaryUpdate) error {
	return r.next().SetSummary(ctx, k, p)
}

func (r *roundRobin) Delete(ctx context.Context, list ...store.Deletion) ([]session.Key, error) {
	return r.next().Delete(ctx, list...)
}

func (r *roundRobin) Size(ctx context.Context, k session.Key) (int64, error) {
	return r.next().Size(ctx, k)
}

func (r *roundRobin) Close() error {
	var errs []error
	for _, s := range r.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
