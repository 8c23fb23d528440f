package otlplimitsextension

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"golang.org/x/sync/semaphore"
)

const (
	// patience is how long an HTTP request waits for memory before its sender is asked to come back.
	patience = 5 * time.Second
	// retryAfter is when the sender is asked to come back.
	retryAfter = time.Second
	// unpacking is how many compressed bodies are unpacked at the same time. A zstd frame may demand a window of 64 MiB.
	unpacking = 3
	// readTime is how long a sender may take for a compressed body: it keeps others from unpacking theirs.
	readTime = 10 * time.Second
	// stepTime is how long a sender may take for a MiB of a body that is not compressed, and for a gRPC message: it holds
	// memory meanwhile.
	stepTime = 30 * time.Second
	// promptTime is how long any number of gRPC messages may take to come, slowMessages how many may take longer.
	promptTime   = 2 * time.Second
	slowMessages = 8
	// lingerTime is how long the rest of a refused body is read, so that its sender reads the answer.
	lingerTime = time.Second
)

var (
	errTooLarge = errors.New("the request takes more memory when decoded than otlp_limits allows (max_request_mib): " +
		"send smaller batches")
	errSlow = errors.New("the body comes too slowly for otlp_limits: send again later")
	errBusy = errors.New("too many requests at once (max_in_flight_mib of otlp_limits): send again later")
)

// limits is in front of the decoders of receivers.
type limits struct {
	component.StartFunc
	component.ShutdownFunc
	max      int64 // of one request
	inFlight *semaphore.Weighted
	capacity int64
	http     *semaphore.Weighted // compressed bodies that are read
	slow     *semaphore.Weighted // gRPC messages that take longer than promptTime

	stepTime, promptTime time.Duration
}

var (
	_ extensionmiddleware.GRPCServer = (*limits)(nil)
	_ extensionmiddleware.HTTPServer = (*limits)(nil)
)

func newLimits(c *Config) *limits {
	capacity := c.MaxInFlightMiB << 20
	maxUnpacked.Store(max(maxUnpacked.Load(), c.MaxRequestMiB<<20))
	return &limits{max: c.MaxRequestMiB << 20, capacity: capacity,
		inFlight: semaphore.NewWeighted(capacity), http: semaphore.NewWeighted(unpacking),
		slow: semaphore.NewWeighted(slowMessages), stepTime: stepTime, promptTime: promptTime}
}

// admission is the memory that one request holds.
type admission struct {
	l    *limits
	held int64
}

// grow makes the request hold n bytes, if it holds less. It returns errBusy where acquire has no memory, and
// errTooLarge for more than can ever be held.
func (a *admission) grow(n int64, acquire func(more int64) bool) error {
	switch {
	case n > a.l.capacity:
		return errTooLarge
	case n <= a.held:
		return nil
	case !acquire(n - a.held):
		return errBusy
	}
	a.held = n
	return nil
}

// growWaiting is grow, and waits for other requests to end.
func (a *admission) growWaiting(ctx context.Context, n int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return a.grow(n, func(more int64) bool { return a.l.inFlight.Acquire(ctx, more) == nil })
}

// release gives back what the request holds. Releasing twice does nothing.
func (a *admission) release() {
	a.l.inFlight.Release(a.held)
	a.held = 0
}
