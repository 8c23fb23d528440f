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
	// storeAge and sessionAge are after how long a size is looked up again; storeLeast is how long that of the store is
	// believed in any case.
	storeAge, storeLeast = 5 * time.Second, time.Second
	sessionAge           = 30 * time.Second
	// lookTimeout bounds one look at the size of the store.
	lookTimeout = 5 * time.Second
	// maxSessionSizes bounds the sessions whose size is remembered.
	maxSessionSizes = 10_000
)

// errSessionLimit is why pieces of sessions above their limit are refused.
var errSessionLimit = errors.New("the session is above limits::session_mib")

// sizes holds a store to limits::session_mib and limits::store_mib. Sizes are looked up now and then; in between what
// was written is added, which is too much rather than too little: the store may have had it already.
type sizes struct {
	st                   store.Store
	maxSession, maxStore int64 // 0: no bound

	mu       sync.Mutex
	sessions map[session.Key]size

	whole sync.Mutex // one lookup at a time
	store size
}

// size is what was measured at some time, and what was written since.
type size struct {
	measured, added int64
	at              time.Time // zero: never
}

func newSizes(st store.Store, cfg *Config) *sizes {
	return &sizes{st: st, maxSession: cfg.Limits.SessionMiB * mebi, maxStore: cfg.Limits.StoreMiB * mebi,
		sessions: map[session.Key]size{}}
}

// full fails with store.ErrFull when the store has reached its limit.
func (z *sizes) full(ctx context.Context) error {
	if z.maxStore == 0 {
		return nil
	}
	z.whole.Lock()
	defer z.whole.Unlock()
	age := time.Since(z.store.at)
	if age > storeAge || z.store.measured+z.store.added >= z.maxStore && age > storeLeast {
		if _, err := z.look(ctx); err != nil {
			return err
		}
	}
	if now := z.store.measured + z.store.added; now >= z.maxStore {
		return fmt.Errorf("about %d MiB are stored, limits::store_mib is %d: %w", now/mebi, z.maxStore/mebi, store.ErrFull)
	}
	return nil
}

// measure looks the size of the store up.
func (z *sizes) measure(ctx context.Context) (int64, error) {
	z.whole.Lock()
	defer z.whole.Unlock()
	return z.look(ctx)
}

// look is called under the lock.
func (z *sizes) look(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout) // who writes may wait for it
	defer cancel()
	n, err := z.st.Size(ctx, session.Key{})
	if err != nil {
		return 0, fmt.Errorf("size of the store: %w", err)
	}
	z.store = size{measured: n, at: time.Now()}
	return n, nil
}

// admit parts b: what may be written, and what belongs to sessions that are above their limit.
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
		n, err := z.session(ctx, k)
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

// session returns about how large a session is: never more than it is when that is above the limit.
func (z *sizes) session(ctx context.Context, k session.Key) (int64, error) {
	z.mu.Lock()
	s, ok := z.sessions[k]
	z.mu.Unlock()
	if ok && time.Since(s.at) < sessionAge && s.measured+s.added < z.maxSession {
		return s.measured + s.added, nil
	}
	n, err := z.st.Size(ctx, k)
	if err != nil {
		return 0, fmt.Errorf("size of a session: %w", err)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if len(z.sessions) >= maxSessionSizes {
		clear(z.sessions)
	}
	z.sessions[k] = size{measured: n, at: time.Now()}
	return n, nil
}

// wrote adds what was written.
func (z *sizes) wrote(b session.Batch) {
	if z.maxSession == 0 && z.maxStore == 0 {
		return
	}
	all := int64(0)
	z.mu.Lock()
	add := func(k session.Key, n int) {
		all += int64(n)
		if s, ok := z.sessions[k]; ok {
			s.added += int64(n)
			z.sessions[k] = s
		}
	}
	for i := range b.Rows {
		add(b.Rows[i].Session, rowBytes(&b.Rows[i]))
	}
	for i := range b.Blocks {
		add(b.Blocks[i].Session, len(b.Blocks[i].Body))
	}
	z.mu.Unlock()
	z.whole.Lock()
	z.store.added += all
	z.whole.Unlock()
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
