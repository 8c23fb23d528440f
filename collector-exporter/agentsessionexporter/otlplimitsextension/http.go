package otlplimitsextension

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/extension/extensionmiddleware"

	"github.com/otelagent/otelagent/backend/otlpbounds"
)

// step is how much of a body is read before its memory is held.
const step = 1 << 20

// GetHTTPHandler reads and examines bodies before the receiver does. The receiver's own bound of size holds already,
// and compressed bodies are unpacked as they are read.
func (l *limits) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a := &admission{l: l}
			defer a.release()
			conn := http.NewResponseController(w)
			body, err := l.read(conn, r, a)
			if err != nil {
				// The server reads some of what is left of the body before it answers: give it little time, and hold
				// no memory meanwhile.
				a.release()
				_ = conn.SetReadDeadline(time.Now().Add(lingerTime))
				w.Header().Set("Connection", "close")
			} else {
				_ = conn.SetReadDeadline(time.Time{})
			}
			_ = r.Body.Close()
			var tooLong *http.MaxBytesError
			switch {
			case errors.Is(err, errBusy), errors.Is(err, errSlow): // OTLP senders drop what 400 refuses
				w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter/time.Second)))
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			case errors.Is(err, errTooLarge), errors.As(err, &tooLong):
				http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
				return
			case err != nil:
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		}), nil
	}, nil
}

// read returns the body, if it may be decoded. It holds the memory of the bytes as they come, and refuses a bad body
// after little of it.
func (l *limits) read(conn *http.ResponseController, r *http.Request, a *admission) ([]byte, error) {
	if r.ContentLength < 0 { // compressed, or sent in chunks
		wait, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		if l.http.Acquire(wait, 1) != nil {
			return nil, errBusy
		}
		defer l.http.Release(1)
		_ = conn.SetReadDeadline(time.Now().Add(readTime))
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	meter := otlpbounds.NewMeter(signalOf(r.URL.Path), l.max)
	if kind == "application/json" {
		meter = otlpbounds.NewJSONMeter(l.max)
	}
	body := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+max(min(r.ContentLength, step), 0)))
	for {
		if r.ContentLength >= 0 {
			_ = conn.SetReadDeadline(time.Now().Add(l.stepTime))
		}
		n, err := io.CopyN(io.MultiWriter(body, meter), r.Body, step)
		switch {
		case errors.Is(err, otlpbounds.ErrTooLarge):
			return nil, errTooLarge
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errSlow
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case n == step:
			if err := a.growWaiting(r.Context(), int64(body.Cap())+step); err != nil {
				return nil, err
			}
			continue
		}
		return body.Bytes(), a.growWaiting(r.Context(), int64(body.Cap())+meter.Used())
	}
}

// signals are the signals by the end of the path that OTLP gives them, and of the type of their messages in pdata.
var signals = map[string]otlpbounds.Signal{
	"/v1/traces": otlpbounds.Traces, "ExportTraceServiceRequest": otlpbounds.Traces,
	"/v1/logs": otlpbounds.Logs, "ExportLogsServiceRequest": otlpbounds.Logs,
	"/v1/metrics": otlpbounds.Metrics, "ExportMetricsServiceRequest": otlpbounds.Metrics,
}

// signalOf returns the signal of a path or type. A receiver may have other paths.
func signalOf(name string) otlpbounds.Signal {
	for end, signal := range signals {
		if strings.HasSuffix(name, end) {
			return signal
		}
	}
	return otlpbounds.AnySignal
}
