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

	"github.com/otelagent/otelagent/internal/must"
)

// A sender that stops in the middle of a body gives back the memory that it holds, and is asked to come back.
func TestSlowBody(t *testing.T) {
	l := newLimits(&Config{MaxRequestMiB: 4, MaxInFlightMiB: 8})
	l.stepTime = 200 * time.Millisecond
	wrap := must.Get(l.GetHTTPHandler(t.Context()))(t)
	h := must.Get(wrap(t.Context(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))(t)
	server := httptest.NewServer(h)
	defer server.Close()
	answers := make(chan string, 3)
	for range cap(answers) {
		conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(t)
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
