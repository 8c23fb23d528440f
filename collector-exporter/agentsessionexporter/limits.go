package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

const (
	// sizeAge is after how long a size is looked up again.
	sizeAge = 30 * time.Second
	// lookTimeout bounds one look-up: a write may wait for it.
	lookTimeout = 5 * time.Second
	// maxSizes bounds how many sizes are remembered.
	maxSizes = 10_000
)

// errSessionLimit is why rows and blocks of sessions above their limit are refused.
var errSessionLimit = errors.New("the session is above limits::session_mib")

// sizes holds a store to limits::session_mib and limits::store_mib. It asks the store for a size every 30 seconds, and
// before each write while the size is unknown, above half of its limit, or may have grown by a quarter of it since.
type sizes struct {
	st                   store.Store
	maxSession, maxStore int64 // 0: no bound

	mu    sync.Mutex
	known map[session.Key]size // the zero key is the whole store
}

// size is a size as the store gave it, and how much was written since.
type size struct {
	bytes, since int64
	at           time.Time
}

func newSizes(st store.Store, cfg *Config) *sizes {
	return &sizes{st: st, maxSession: cfg.Limits.SessionMiB * mebi, maxStore: cfg.Limits.StoreMiB * mebi,
		known: map[session.Key]size{}}
}

// full fails with store.ErrFull when the store has reached its limit.
func (z *sizes) full(ctx context.Context) error {
	if z.maxStore == 0 {
		return nil
	}
	now, err := z.of(ctx, session.Key{}, z.maxStore)
	if err == nil && now >= z.maxStore {
		err = fmt.Errorf("about %d MiB are stored, limits::store_mib is %d: %w", now/mebi, z.maxStore/mebi, store.ErrFull)
	}
	return err
}

// of returns about how large a session, or the store, is: never less than half of the limit too little.
func (z *sizes) of(ctx context.Context, k session.Key, limit int64) (int64, error) {
	z.mu.Lock()
	s, ok := z.known[k]
	z.mu.Unlock()
	if ok && time.Since(s.at) < sizeAge && s.bytes < limit/2 && s.since < limit/4 {
		return s.bytes, nil
	}
	return z.look(ctx, k)
}

// look asks the store.
func (z *sizes) look(ctx context.Context, k session.Key) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	n, err := z.st.Size(ctx, k)
	if err != nil {
		return 0, fmt.Errorf("size in the store: %w", err)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if len(z.known) >= maxSizes {
		clear(z.known)
	}
	z.known[k] = size{bytes: n, at: time.Now()}
	return n, nil
}

// admit splits b: in may be written, over belongs to sessions that are above their limit.
func (z *sizes) admit(ctx context.Context, b session.Batch) (in, over session.Batch, _ error) {
	if z.maxSession == 0 {
		return b, over, nil
	}
	above := map[session.Key]bool{}
	some := false
	look := func(k session.Key) error {
		if _, known := above[k]; known {
			return nil
		}
		n, err := z.of(ctx, k, z.maxSession)
		above[k] = n >= z.maxSession
		some = some || above[k]
		return err
	}
	for i := range b.Rows {
		if err := look(b.Rows[i].Session); err != nil {
			return in, over, err
		}
	}
	for i := range b.Blocks {
		if err := look(b.Blocks[i].Session); err != nil {
			return in, over, err
		}
	}
	if !some {
		return b, over, nil
	}
	for _, r := range b.Rows {
		if above[r.Session] {
			over.Rows = append(over.Rows, r)
		} else {
			in.Rows = append(in.Rows, r)
		}
	}
	for _, k := range b.Blocks {
		if above[k.Session] {
			over.Blocks = append(over.Blocks, k)
		} else {
			in.Blocks = append(in.Blocks, k)
		}
	}
	return in, over, nil
}

// wrote adds what was written.
func (z *sizes) wrote(b session.Batch) {
	z.mu.Lock()
	defer z.mu.Unlock()
	add := func(k session.Key, n int) {
		for _, k := range []session.Key{k, {}} {
			if s, ok := z.known[k]; ok {
				s.since += int64(n)
				z.known[k] = s
			}
		}
	}
	for i := range b.Rows {
		add(b.Rows[i].Session, rowBytes(&b.Rows[i]))
	}
	for i := range b.Blocks {
		add(b.Blocks[i].Session, len(b.Blocks[i].Body))
	}
}

// rowBytes returns about how many bytes a row takes.
func rowBytes(r *session.Row) int {
	n := 128 + len(r.Session.Tenant) + len(r.Session.ID) + len(r.Run) + len(r.Service)
	for _, a := range r.Attrs {
		n += 8 + len(a.Key) + len(a.Value.Str())
		for _, s := range a.Value.Strings() {
			n += len(s)
		}
	}
	for i := range r.Lists {
		n += 64
		for _, it := range r.Lists[i].Items {
			n += len(it)
		}
	}
	return n + 64*(len(r.Events)+len(r.Facts))
}
