package otlplimitsextension

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/encoding"

	"github.com/otelagent/otelagent/backend/otlpbounds"
)

const (
	// unpackedBytes bounds what is decompressed and not yet taken by a codec.
	unpackedBytes = 128 << 20
	// unclaimed is how long bytes count that no codec takes: gRPC refused the message after it decompressed it.
	unclaimed = time.Second
)

// gate bounds the decompression of gRPC messages, which happens before a codec sees them. There is one in the process,
// as the compressors are the process's own.
var gate = &unpackGate{
	slots:  semaphore.NewWeighted(unpacking),
	memory: semaphore.NewWeighted(unpackedBytes),
	done:   map[int64]int{},
}

// limitDecompression puts the gate in front of the registered compressors.
var limitDecompression = sync.OnceFunc(func() {
	for _, name := range []string{"gzip", "snappy", "zstd"} {
		if c := encoding.GetCompressor(name); c != nil {
			encoding.RegisterCompressor(gated{c})
		}
	}
})

type unpackGate struct {
	// max is the greatest bound of one request among the extensions of the process; 0 before there is one.
	max           atomic.Int64
	slots, memory *semaphore.Weighted

	mu sync.Mutex
	// done counts the messages that are decompressed and not yet with a codec, by their length.
	done map[int64]int
}

// remember keeps the memory of a message until a codec has it, or until none came for it.
func (g *unpackGate) remember(n int64) {
	g.mu.Lock()
	g.done[n]++
	g.mu.Unlock()
	time.AfterFunc(unclaimed, func() { g.forget(n) })
}

// forget gives back the memory of a message of that length, if there is one.
func (g *unpackGate) forget(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.done[n] {
	case 0:
		return
	case 1:
		delete(g.done, n)
	default:
		g.done[n]--
	}
	g.memory.Release(n)
}

// gated is a compressor behind the gate.
type gated struct{ encoding.Compressor }

// Decompress implements encoding.Compressor. gRPC calls it with the whole compressed message.
func (c gated) Decompress(r io.Reader) (io.Reader, error) {
	_ = gate.slots.Acquire(context.Background(), 1)
	inner, err := c.Compressor.Decompress(r)
	if err != nil {
		gate.slots.Release(1)
		return nil, err
	}
	return &unpacked{Reader: inner, meter: otlpbounds.NewMeter(otlpbounds.AnySignal, cmp.Or(gate.max.Load(), math.MaxInt64))}, nil
}

// unpacked is a message that is being decompressed.
type unpacked struct {
	io.Reader
	meter      *otlpbounds.Meter
	read, held int64
	closed     bool
}

// Read implements io.Reader. It waits while too much is unpacked, and ends a message that is too large already.
func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if _, bad := u.meter.Write(p[:n]); errors.Is(bad, otlpbounds.ErrTooLarge) {
		return 0, errTooLarge // the codec refuses what is nested too deep
	}
	u.read += int64(n)
	for u.held < u.read {
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		busy := gate.memory.Acquire(ctx, step)
		cancel()
		if busy != nil {
			return n, errBusy
		}
		u.held += step
	}
	return n, err
}

// Close implements io.Closer. gRPC closes what it decompressed, before the codec.
func (u *unpacked) Close() error {
	if u.closed {
		return nil
	}
	u.closed = true
	gate.memory.Release(max(u.held-u.read, 0))
	if u.read = min(u.read, u.held); u.read > 0 {
		gate.remember(u.read)
	}
	gate.slots.Release(1)
	if c, ok := u.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
