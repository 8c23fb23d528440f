package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/project"
	"github.com/otelagent/otelagent/store/sqlitestore"
)

// openFunc opens the store that a DSN names.
type openFunc func(ctx context.Context, dsn string) (store.Store, error)

func openSQLite(ctx context.Context, dsn string, opts ...sqlitestore.Option) (store.Store, error) {
	s, err := sqlitestore.Open(ctx, dsn, opts...)
	if err != nil {
		return nil, err // not s: a nil pointer in a non-nil interface
	}
	return s, nil
}

// stores are the open stores of one factory. The Collector makes an exporter for each signal of a configured one and gives
// all of them the same *Config; they share one store. It is open from the first start to the last shutdown: the exporter
// that stops last may still have a queue to write.
type stores struct {
	open openFunc

	mu  sync.Mutex // held while a store opens or closes
	all map[*Config]*sharedStore
}

// sharedStore is a store and what keeps its projections current.
type sharedStore struct {
	store  store.Store
	worker *project.Worker
	users  int // started and not yet shut down
}

func newStores(open openFunc) *stores {
	return &stores{open: open, all: map[*Config]*sharedStore{}}
}

// acquire returns the store of cfg; first says that it was opened by this call.
func (s *stores) acquire(ctx context.Context, cfg *Config, logger *zap.Logger) (_ *sharedStore, first bool, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shared := s.all[cfg]
	if shared == nil {
		st, err := s.open(ctx, cfg.Storage)
		if err != nil {
			return nil, false, err
		}
		shared = &sharedStore{store: st, worker: project.NewWorker(st, project.WithErrorHandler(func(err error) {
			logger.Warn("a session's summary could not be brought up to date; it is tried again", zap.Error(err))
		}))}
		s.all[cfg] = shared
	}
	shared.users++
	return shared, shared.users == 1, nil
}

// release closes the store when its last user lets go of it. Each acquire is released once.
func (s *stores) release(ctx context.Context, cfg *Config, shared *sharedStore) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared.users--; shared.users > 0 {
		return nil
	}
	delete(s.all, cfg)
	var errs []error
	if err := shared.worker.Close(ctx); err != nil {
		errs = append(errs, fmt.Errorf("agent_session: finish projections: %w", err))
	}
	if err := shared.store.Close(); err != nil {
		errs = append(errs, fmt.Errorf("agent_session: close storage: %w", err))
	}
	return errors.Join(errs...)
}
