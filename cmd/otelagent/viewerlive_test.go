package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// watching is an agent with live copies, a collector as `otelagent up` runs it, and a page that is open on the
// agent's session.
type watching struct {
	base   string
	run    *writer.Run
	ctx    context.Context
	events *bufio.Scanner
}

const watchedSession = "watched"

func startWatching(tb testing.TB) *watching {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	path := filepath.Join(tb.TempDir(), "s.db")
	at, err := locate("--db", path)
	must(tb, err)
	c, err := startCollector(ctx, collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: path})
	must(tb, err)
	db, err := quiet.openDatabase(ctx, at, true)
	must(tb, err)
	url, serve, err := (&upFlags{addr: "127.0.0.1:0"}).listen(ctx, quiet, db)
	must(tb, err)
	served := make(chan error, 1)
	go func() { served <- serve() }()

	p, err := otelsetup.Setup(ctx, otelsetup.WithEndpoint("http://"+c.addr("grpc")),
		otelsetup.WithProtocol(otelsetup.GRPC), otelsetup.WithoutGlobal(), otelsetup.WithLive(0))
	must(tb, err)
	tracer := (*writer.Tracer)(
		otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithLive(p.Live()),
			otelagent.WithCapture(otelagent.CaptureContent)),
	)
	w := &watching{base: strings.TrimSuffix(url, "/")}
	w.ctx, w.run = tracer.StartRun(ctx, writer.RunInfo{SessionID: watchedSession, Agent: "coder", Model: "m"})
	var resp *http.Response
	for range 500 { // until the run has come
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+"/api/v1/events?session="+watchedSession, nil)
		must(tb, err)
		if resp, err = http.DefaultClient.Do(r); err != nil {
			tb.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			break
		}
		_ = resp.Body.Close()
		time.Sleep(20 * time.Millisecond)
	}
	if resp.StatusCode != http.StatusOK {
		tb.Fatalf("the run did not come: %s", resp.Status)
	}
	w.events = bufio.NewScanner(resp.Body)
	tb.Cleanup(func() {
		w.run.End(writer.RunResult{Status: spans.RunStatusCompleted})
		_ = p.Shutdown(context.WithoutCancel(ctx))
		cancel()
		_ = resp.Body.Close()
		if err := <-served; err != nil {
			tb.Error(err)
		}
		db.close()
		_ = c.stop()
		http.DefaultClient.CloseIdleConnections()
	})
	return w
}

// turn begins a turn, and returns how long it took until the page was notified, and had the data that shows it.
func (w *watching) turn(tb testing.TB, index int64) time.Duration {
	tb.Helper()
	from := time.Now()
	_, turn := w.run.StartTurn(w.ctx, writer.TurnInfo{Index: new(index), Trigger: spans.TriggerUser, Model: "m"})
	defer turn.End(writer.TurnResult{StopReason: "stop"})
	for w.events.Scan() {
		if !strings.HasPrefix(w.events.Text(), "data: ") {
			continue
		}
		_, text := fetch(tb, w.base, "/api/v1/outline/"+watchedSession)
		var o inspect.Outline
		must(tb, json.Unmarshal([]byte(text), &o))
		if n := len(o.Turns); n > 0 && o.Turns[n-1].Index == index {
			if last := o.Turns[n-1]; last.State != "open" || !last.Live || o.Status != spans.SessionStatusBusy {
				tb.Fatalf("session %s, turn %+v: want it open", o.Status, last)
			}
			fetch(tb, w.base, fmt.Sprintf("/api/v1/turns/%s?from=%d", watchedSession, n-1))
			return time.Since(from)
		}
	}
	tb.Fatalf("the events ended: %v", w.events.Err())
	return 0
}

// A turn is on the page that is open soon after it began, through a real collector with the queues as they are
// by default.
func TestLiveOnThePage(t *testing.T) {
	t.Parallel()
	w := startWatching(t)
	for n := range int64(5) {
		took := w.turn(t, n)
		t.Logf("turn %d: %s", n, took)
		if took > 15*time.Second { // BenchmarkLive holds it to a second
			t.Errorf("turn %d took %s", n, took)
		}
	}
}

// BenchmarkLive is from StartTurn to the event and the data on the page that is open.
func BenchmarkLive(b *testing.B) {
	w := startWatching(b)
	n := int64(0)
	var all time.Duration
	for b.Loop() {
		all += w.turn(b, n)
		n++
	}
	b.ReportMetric(float64(all.Milliseconds())/float64(n), "ms/turn")
}
