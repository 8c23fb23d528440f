package otlplimitsextension

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A sender that stops in the middle of a body gives back the memory that it holds, and is asked to come back.
func TestSlowBody(t *testing.T) {
	l := newLimits(&Config{MaxRequestMiB: 4, MaxInFlightMiB: 8})
	l.stepTime = 200 * time.Millisecond
	wrap, err := l.GetHTTPHandler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h, err := wrap(t.Context(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	defer server.Close()
	answers := make(chan string, 3)
	for range cap(answers) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = fmt.Fprintf(conn, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n%s",
				"\x0a\x80\x80\x80\x04\x0a\xfb\xff\xff\x03"+strings.Repeat("x", 2500<<10))
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			answer, _ := io.ReadAll(conn)
			answers <- string(answer)
		}()
	}
	for range cap(answers) {
		if got := <-answers; !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "Retry-After: 1") {
			t.Errorf("%.200q", got)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := l.inFlight.Acquire(ctx, l.capacity); err != nil {
		t.Error("memory is still held")
	}
}
