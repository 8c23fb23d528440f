package main

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/otelagent/otelagent/backend/otlpnesting"
)

// nestingType is what a configuration calls the extension that refuses messages that are nested too deep, which would
// take the memory of the process or end it. Receivers name it under middlewares.
var nestingType = component.MustNewType("otlp_nesting")

func newNestingFactory() extension.Factory {
	return extension.NewFactory(nestingType, func() component.Config { return &struct{}{} },
		func(context.Context, extension.Settings, component.Config) (extension.Extension, error) {
			return nesting{}, nil
		},
		component.StabilityLevelBeta)
}

// nesting stands in front of the decoders of a receiver.
type nesting struct {
	component.StartFunc
	component.ShutdownFunc
}

var (
	_ extensionmiddleware.GRPCServer = nesting{}
	_ extensionmiddleware.HTTPServer = nesting{}
)

// GetGRPCServerOptions puts a codec around that of the collector: interceptors come too late.
func (nesting) GetGRPCServerOptions(context.Context) ([]grpc.ServerOption, error) {
	return []grpc.ServerOption{grpc.ForceServerCodecV2(nestingCodec{encoding.GetCodecV2("proto")})}, nil
}

type nestingCodec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c nestingCodec) Unmarshal(data mem.BufferSlice, v any) error {
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if err := otlpnesting.Check(whole.ReadOnlyData()); err != nil {
		return err // the sender gets INTERNAL, which no sender retries
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// GetHTTPHandler reads bodies before the receiver does. They are unpacked already, and bounded in size.
func (nesting) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if err == nil {
				// What is neither the receiver refuses by its type.
				if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" {
					err = otlpnesting.CheckJSON(body)
				} else {
					err = otlpnesting.Check(body)
				}
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		}), nil
	}, nil
}
