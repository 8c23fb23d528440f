package otlplimitsextension

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/otelagent/otelagent/backend/otlpbounds"
)

// GetGRPCServerOptions puts a codec around that of the Collector, because interceptors run after it. An interceptor
// answers for the requests that the codec did not decode, since gRPC makes INTERNAL of every error of a codec.
func (l *limits) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	c := &codec{CodecV2: encoding.GetCodecV2("proto"), limits: l}
	return []grpc.ServerOption{grpc.InTapHandle(l.tap), grpc.ForceServerCodecV2(c),
		grpc.ChainUnaryInterceptor(c.intercept)}, nil
}

// receivedKey is the key in a stream's context of the function that says that its message is there.
type receivedKey struct{}

// tap is a tap.ServerInHandle: it ends streams whose message does not come. gRPC holds all that came of a message
// before a codec sees any of it.
func (l *limits) tap(ctx context.Context, call *tap.Info) (context.Context, error) {
	if !strings.HasSuffix(call.FullMethodName, "/Export") {
		return ctx, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	received := make(chan struct{})
	slow := time.AfterFunc(l.promptTime, func() {
		if !l.comes(ctx, received) {
			cancel()
		}
	})
	return context.WithValue(ctx, receivedKey{}, func() { slow.Stop(); close(received) }), nil
}

// comes waits for a message that is slow, and reports whether it came or its sender gave up. It does not wait for more
// than slowMessages at the same time.
func (l *limits) comes(ctx context.Context, received <-chan struct{}) bool {
	if !l.slow.TryAcquire(1) {
		return false
	}
	defer l.slow.Release(1)
	select {
	case <-received:
	case <-ctx.Done():
	case <-time.After(l.stepTime):
		return false
	}
	return true
}

// codec examines messages before it decodes them. It refuses at once a message that there is no memory for.
type codec struct {
	encoding.CodecV2
	limits *limits
	// handled holds, by the decoded message, what the codec found: *admission or error.
	handled sync.Map
}

// Unmarshal implements encoding.CodecV2.
func (c *codec) Unmarshal(data mem.BufferSlice, v any) error {
	a := &admission{l: c.limits}
	err := c.decode(data, v, a)
	if err == nil {
		c.handled.Store(v, a)
		return nil
	}
	a.release()
	if errors.Is(err, errBusy) || errors.Is(err, errTooLarge) || errors.Is(err, otlpbounds.ErrTooDeep) {
		c.handled.Store(v, err)
		return nil
	}
	return err
}

func (c *codec) decode(data mem.BufferSlice, v any, a *admission) error {
	try := c.limits.inFlight.TryAcquire
	if err := a.grow(int64(data.Len()), try); err != nil {
		return err
	}
	meter := otlpbounds.NewMeter(signalOf(fmt.Sprintf("%T", v)), c.limits.max)
	for _, piece := range data {
		if _, err := meter.Write(piece.ReadOnlyData()); errors.Is(err, otlpbounds.ErrTooLarge) {
			return errTooLarge
		} else if err != nil {
			return err
		}
	}
	if err := a.grow(int64(data.Len())+meter.Used(), try); err != nil {
		return err
	}
	return c.CodecV2.Unmarshal(data, v)
}

// intercept refuses what the codec did not decode, and gives back the memory of a request when it was handled.
func (c *codec) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if received, ok := ctx.Value(receivedKey{}).(func()); ok {
		received()
	}
	found, _ := c.handled.LoadAndDelete(req)
	switch found := found.(type) {
	case *admission:
		defer found.release()
	case error:
		return nil, refusal(found)
	}
	return next(ctx, req)
}

// refusal is the status of an error. By OTLP senders retry RESOURCE_EXHAUSTED only if it says when.
func refusal(err error) error {
	if !errors.Is(err, errBusy) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	st, _ := status.New(codes.ResourceExhausted, err.Error()).
		WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)})
	return st.Err()
}
