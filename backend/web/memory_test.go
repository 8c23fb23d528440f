package web_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/web"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/otelagent"
)

// tenThousand is a store with one session of that many turns.
func tenThousand(t *testing.T) *memstore.Store {
	t.Helper()
	var lines strings.Builder
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	line := func(format string, args ...any) {
		at = at.Add(100 * time.Millisecond)
		fmt.Fprintf(&lines, `{"ts":%q,"run":"r1",%s}`+"\n", at.Format(time.RFC3339Nano), fmt.Sprintf(format, args...))
	}
	line(`"type":"otelagent.run_started","session":"ten-thousand-turns","agent":"coder"`)
	for n := range 10_000 {
		line(`"type":"otelagent.turn_started"`)
		line(`"type":"otelagent.tool_started","call_id":"c%d","name":"bash","args":{"command":"go test ./module%d"}`, n, n)
		line(`"type":"otelagent.tool_ended","call_id":"c%d","name":"bash","outcome":"ok","result":"ok module%d"`, n, n)
		line(`"type":"otelagent.turn_ended","stop_reason":"tool_use","usage":{"input":%d,"output":60,"rule":"excludes_cache"},"output":{"role":"assistant","content":"Turn %d"}`, n, n)
	}
	line(`"type":"otelagent.run_ended","status":"completed"`)
	st := memstore.New()
	exporter, err := otlptrace.New(t.Context(), into{st: st})
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithBlocking())))
	rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithTracerProvider(provider), otelagent.WithCapture(otelagent.CaptureContent)))
	for ev, err := range ndjson.Events(strings.NewReader(lines.String())) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(t.Context(), ev)
	}
	rec.Close(t.Context())
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return st
}

// taken is how much memory the process has from the system.
func taken() int64 {
	of := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(of)
	return int64(of[0].Value.Uint64() - of[1].Value.Uint64())
}

// Clients that request much and read none of it cost a bounded amount of memory: those beyond the bound get a 429.
func TestMemoryOfClientsThatDoNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: makes a session of 10,000 turns, which takes some seconds")
	}
	h := serve(t, web.Options{Store: tenThousand(t)})
	s := httptest.NewServer(h)
	defer s.Close()
	const path = "/api/v1/show/ten-thousand-turns"
	size := int64(len(body(t, get(t, h, path)))) // it is kept in memory now
	// The bound is on memory in use. With a busy machine the collector of garbage runs late at its default.
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	debug.FreeOSMemory()
	before := taken()

	const clients = 30
	statuses := make(chan int, clients)
	for range clients {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: "+loopback+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		go func() { // the first line, and nothing further
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Second))
			var line [12]byte
			if _, err := io.ReadFull(c, line[:]); err != nil {
				t.Error(err)
			}
			status, _ := strconv.Atoi(string(line[9:]))
			statuses <- status
		}()
	}
	most := before
	given := map[int]int64{}
	for n := 0; n < clients; {
		select {
		case status := <-statuses:
			given[status]++
			n++
		case <-time.After(5 * time.Millisecond):
			most = max(most, taken())
		}
	}
	const held = 256 << 20 // maxLarge
	if n := given[http.StatusOK]; n < 1 || n > held/size || n+given[http.StatusTooManyRequests] != clients || n == clients {
		t.Errorf("answers of %d bytes: %v by status", size, given)
	}
	// Answers that are held, four that are encoded, and garbage that is not collected yet.
	if took, bound := most-before, 2*(held+4*size); took > bound {
		t.Errorf("took %d MiB for answers of %d MiB, want at most %d", took>>20, size>>20, bound>>20)
	} else {
		t.Logf("took %d MiB for answers of %d MiB; %v by status", took>>20, size>>20, given)
	}
}
