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
	sizeAge = 5 * time.Second
	// lookTimeout bounds one look-up: a write may wait for it.
	lookTimeout = 5 * time.Second
	// maxSizes bounds how many sizes are remembered.
	maxSizes = 10_000
)

// errSessionLimit is why rows and blocks of sessions above their limit are refused.
var errSessionLimit = errors.New("the session is above limits::session_mib")

// sizes holds a store to limits::session_mib and limits::store_mib. It asks the store for a size every few seconds, and
// before each write while the size is above half of its limit.
type sizes struct {
	st                   store.Store
	maxSession, maxStore int64 // 0: no bound

	mu    sync.Mutex
	known map[session.Key]size // the zero key is the whole store
}

// size is a size as the store gave it, with the blocks that were written since.
type size struct {
	bytes int64
	at    time.Time
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

// of returns about how large a session, or the store, is.
func (z *sizes) of(ctx context.Context, k session.Key, limit int64) (int64, error) {
	z.mu.Lock()
	s, ok := z.known[k]
	z.mu.Unlock()
	if ok && time.Since(s.at) < sizeAge && s.bytes < limit/2 {
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
	z.known[k] = size{n, time.Now()}
	return n, nil
}

// admit returns what of b may be written, and refuses sessions that are above their limit.
func (z *sizes) admit(ctx context.Context, d *delivery, b session.Batch) (in session.Batch, _ error) {
	if z.maxSession == 0 {
		return b, nil
	}
	for _, part := range bySession(b) {
		n, err := z.of(ctx, keyOf(part), z.maxSession)
		switch {
		case err != nil:
			return in, err
		case n >= z.maxSession:
			d.refuse(reasonSession, part, fmt.Errorf("%w, which is %d", errSessionLimit, z.maxSession/mebi))
		default:
			join(&in, part)
		}
	}
	return in, nil
}

// wrote adds the blocks that were written.
func (z *sizes) wrote(b session.Batch) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for i := range b.Blocks {
		for _, k := range []session.Key{b.Blocks[i].Session, {}} {
			if s, ok := z.known[k]; ok {
				s.bytes += int64(len(b.Blocks[i].Body))
				z.known[k] = s
			}
		}
	}
}
