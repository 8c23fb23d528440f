package otlplimitsextension

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/encoding"

	"github.com/otelagent/otelagent/backend/otlpbounds"
)

// gRPC decompresses a message before a codec sees it. There is one bound in the process, as the compressors are the
// process's own.
var (
	// slots bounds how many messages are decompressed at the same time. The codec then refuses at once a message that
	// there is no memory for, so that none waits unpacked.
	slots = semaphore.NewWeighted(unpacking)
	// maxUnpacked is the greatest bound of one request among the extensions of the process; 0 before there is one.
	maxUnpacked atomic.Int64
)

// limitDecompression bounds the registered compressors.
var limitDecompression = sync.OnceFunc(func() {
	for _, name := range []string{"gzip", "snappy", "zstd"} {
		if c := encoding.GetCompressor(name); c != nil {
			encoding.RegisterCompressor(bounded{c})
		}
	}
})

// bounded is a compressor that takes a slot to decompress.
type bounded struct{ encoding.Compressor }

// Decompress implements encoding.Compressor. gRPC calls it with the whole compressed message.
func (c bounded) Decompress(r io.Reader) (io.Reader, error) {
	_ = slots.Acquire(context.Background(), 1)
	inner, err := c.Compressor.Decompress(r)
	if err != nil {
		slots.Release(1)
		return nil, err
	}
	limit := cmp.Or(maxUnpacked.Load(), math.MaxInt64)
	return &unpacked{Reader: inner, meter: otlpbounds.NewMeter(otlpbounds.AnySignal, limit),
		free: sync.OnceFunc(func() { slots.Release(1) })}, nil
}

// unpacked is a message that is being decompressed.
type unpacked struct {
	io.Reader
	meter *otlpbounds.Meter
	free  func()
}

// Read implements io.Reader. It ends a message that is too large already.
func (u *unpacked) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if _, bad := u.meter.Write(p[:n]); errors.Is(bad, otlpbounds.ErrTooLarge) {
		return 0, errTooLarge // the codec refuses what is nested too deep
	}
	return n, err
}

// Close implements io.Closer. gRPC closes what it decompressed, before the codec.
func (u *unpacked) Close() error {
	u.free()
	if c, ok := u.Reader.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
