package agentsessionexporter

import (
	"errors"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// maxWrites bounds after how many writes of a batch no part of it is halved any more: one that never ends before the
// timeout would come again for ever.
const maxWrites = 256

// halve splits a batch into one for each half of its sessions. One of a single session stays as it is.
func halve(b session.Batch) (halves []session.Batch) {
	sessions := bySession(b)
	for half := range slices.Chunk(sessions, (len(sessions)+1)/2) {
		var part session.Batch
		for _, b := range half {
			join(&part, b)
		}
		halves = append(halves, part)
	}
	return halves
}

// bySession splits a batch into one for each session, in the order in which they come.
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
	return parts
}

// keyOf returns the session of a batch that is of one.
func keyOf(b session.Batch) session.Key {
	if len(b.Rows) > 0 {
		return b.Rows[0].Session
	}
	return b.Blocks[0].Session
}

// join adds more to b. It copies nothing into an empty one.
func join(b *session.Batch, more session.Batch) {
	if len(b.Rows)+len(b.Blocks) == 0 {
		*b = session.Batch{Rows: slices.Clip(more.Rows), Blocks: slices.Clip(more.Blocks)}
		return
	}
	b.Rows, b.Blocks = append(b.Rows, more.Rows...), append(b.Blocks, more.Blocks...)
}

// refusal is what of a batch is not stored for one reason.
type refusal struct {
	reason       string
	rows, blocks int
	first        *session.Row // nil without rows
	err          error        // the first cause
}

func (d *delivery) refuse(reason string, b session.Batch, cause error) {
	var r *refusal
	for i := range d.refused {
		if d.refused[i].reason == reason {
			r = &d.refused[i]
		}
	}
	if r == nil {
		d.refused = append(d.refused, refusal{reason: reason, err: cause})
		r = &d.refused[len(d.refused)-1]
	}
	if r.first == nil && len(b.Rows) > 0 {
		r.first = &b.Rows[0]
	}
	r.rows, r.blocks = r.rows+len(b.Rows), r.blocks+len(b.Blocks)
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
