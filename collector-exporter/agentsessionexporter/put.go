package agentsessionexporter

import (
	"errors"
	"fmt"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// check returns the rows and blocks of b that every store can keep, and adds the rest to r.
func check(b session.Batch, r *refused) session.Batch {
	tooLarge := func(row *session.Row) error {
		if n := rowBytes(row); n > store.MaxValue {
			return fmt.Errorf("row of about %d bytes, at most %d: %w", n, store.MaxValue, store.ErrData)
		}
		return nil
	}
	bad := store.CheckBatch(b) != nil
	for i := range b.Rows {
		bad = bad || tooLarge(&b.Rows[i]) != nil
	}
	if !bad {
		return b
	}
	var good session.Batch
	for i := range b.Rows {
		one := session.Batch{Rows: b.Rows[i : i+1]}
		if err := errors.Join(store.CheckBatch(one), tooLarge(&b.Rows[i])); err != nil {
			r.add(reasonStore, one, err)
			continue
		}
		good.Rows = append(good.Rows, b.Rows[i])
	}
	for i := range b.Blocks {
		one := session.Batch{Blocks: b.Blocks[i : i+1]}
		if err := store.CheckBatch(one); err != nil {
			r.add(reasonStore, one, err)
			continue
		}
		good.Blocks = append(good.Blocks, b.Blocks[i])
	}
	return good
}

// maxParts bounds the writes that one batch may come to: one that never ends before the timeout would come again for
// ever.
const maxParts = 256

// bySession splits a batch that a store refused into one for each session, so that the data of one keeps no other from
// the store. It returns b itself when there are more than maxParts.
func bySession(b session.Batch) (parts []session.Batch) {
	index := map[session.Key]int{}
	part := func(k session.Key) *session.Batch {
		if _, ok := index[k]; !ok {
			index[k] = len(parts)
			parts = append(parts, session.Batch{})
		}
		return &parts[index[k]]
	}
	for _, r := range b.Rows {
		p := part(r.Session)
		p.Rows = append(p.Rows, r)
	}
	for _, k := range b.Blocks {
		p := part(k.Session)
		p.Blocks = append(p.Blocks, k)
	}
	if len(parts) > maxParts {
		return []session.Batch{b}
	}
	return parts
}

// refused is what of a batch was not stored because of what it is.
type refused struct {
	rows   []refusedRow
	blocks map[string]int // by reason
	err    error          // the first cause
}

type refusedRow struct {
	session.Row
	reason string
}

func (r *refused) add(reason string, b session.Batch, cause error) {
	if len(b.Rows)+len(b.Blocks) == 0 {
		return
	}
	if r.err == nil {
		r.err = cause
	}
	for i := range b.Rows {
		r.rows = append(r.rows, refusedRow{b.Rows[i], reason})
	}
	if len(b.Blocks) == 0 {
		return
	}
	if r.blocks == nil {
		r.blocks = map[string]int{}
	}
	r.blocks[reason] += len(b.Blocks)
}

func (r *refused) blockCount() int {
	n := 0
	for _, k := range r.blocks {
		n += k
	}
	return n
}

func (r *refused) rowCounts() map[string]int {
	if len(r.rows) == 0 {
		return nil
	}
	n := map[string]int{}
	for i := range r.rows {
		n[r.rows[i].reason]++
	}
	return n
}

// outcome names how a write ended, for metrics.
func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrData):
		return "permanent"
	default:
		return "retryable"
	}
}

// failure names why the store did not take a batch, for metrics.
func failure(err error) string {
	switch {
	case errors.Is(err, errAway):
		return "away"
	case errors.Is(err, store.ErrFull):
		return "full"
	default:
		return "store"
	}
}
