package otlplimitsextension

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/otelagent/otelagent/backend/otlpbounds"
)

// GetGRPCServerOptions puts a codec around that of the Collector, because interceptors run after it. An interceptor
// answers for the requests that the codec did not decode, since gRPC makes INTERNAL of every error of a codec.
func (l *limits) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	c := &codec{CodecV2: encoding.GetCodecV2("proto"), limits: l}
	return []grpc.ServerOption{grpc.ForceServerCodecV2(c), grpc.ChainUnaryInterceptor(c.intercept)}, nil
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
