package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/web"
	"github.com/otelagent/otelagent/internal/must"
)

// listen returns the events of a path as they come: name and data.
func listen(ctx context.Context, t *testing.T, base, path string) <-chan [2]string {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil))(t)
	resp, err := http.DefaultTransport.RoundTrip(r) //nolint:bodyclose // the goroutine below closes it
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(resp, err)
	}
	out := make(chan [2]string, 100)
	go func() {
		defer close(out)
		defer resp.Body.Close()
		name := ""
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if v, ok := strings.CutPrefix(s.Text(), "event: "); ok {
				name = v
			}
			if v, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				out <- [2]string{name, v}
			}
		}
	}()
	return out
}

func next(t *testing.T, events <-chan [2]string) (name, data string) {
	t.Helper()
	select {
	case e, ok := <-events:
		if !ok {
			t.Fatal("the events ended")
		}
		return e[0], e[1]
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
	}
	return "", ""
}

// noLeaks fails a test of which a goroutine still runs when all is closed.
func noLeaks(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		goleak.VerifyNone(t, before)
	})
}

// looked calls a function when the list of sessions was read to its end.
type looked struct {
	store.Store
	once func()
}

func (l looked) Sessions(ctx context.Context, q store.Query) iter.Seq2[session.Summary, error] {
	return func(yield func(session.Summary, error) bool) {
		for s, err := range l.Store.Sessions(ctx, q) {
			if !yield(s, err) {
				return
			}
		}
		if q.Limit == 100 {
			l.once()
		}
	}
}

func TestEvents(t *testing.T) {
	noLeaks(t)
	list := make(chan struct{})
	st := looked{sample(t), sync.OnceFunc(func() { close(list) })}
	h := serve(t, web.Options{Store: st, Refresh: func(ctx context.Context) error { return project.Refresh(ctx, st) }})
	server := httptest.NewServer(h)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one := listen(ctx, t, server.URL, "/api/v1/events?session="+demoID)
	all := listen(ctx, t, server.URL, "/api/v1/events")

	var first, second struct {
		Mark   int64
		Status string
	}
	name, data := next(t, one)
	if err := json.Unmarshal([]byte(data), &first); err != nil || name != "mark" || first.Status == "" {
		t.Fatal(name, data, err)
	}
	<-list // what comes from now on is a change of it
	from := time.Now()
	record(t, st, demo, "")
	record(t, st, demo, "another session")
	name, data = next(t, one)
	if err := json.Unmarshal([]byte(data), &second); err != nil || name != "mark" || second.Mark <= first.Mark {
		t.Error(name, data, err)
	}
	t.Logf("event after %s", time.Since(from))
	if name, data = next(t, all); name != "list" || data != "{}" {
		t.Error(name, data)
	}
	if o := read[struct{ Mark int64 }](t, h, "/api/v1/outline/"+demoID); o.Mark < second.Mark {
		t.Errorf("the outline is of mark %d, older than that of the event, %d", o.Mark, second.Mark)
	}
	must.Do(t, store.Delete(t.Context(), st, session.Key{ID: demoID}))
	for name != "gone" {
		name, _ = next(t, one)
	}
	if _, open := <-one; open {
		t.Error("events go on after the session is gone")
	}
	h.Close()
	for range all { // ends
	}
}

// More than a few listeners are refused, and a place that was left is free again.
func TestListeners(t *testing.T) {
	noLeaks(t)
	server := httptest.NewServer(serve(t, web.Options{}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	for range 32 {
		listen(ctx, t, server.URL, "/api/v1/events")
	}
	status := func() int {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/events", nil)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := status(); got != http.StatusTooManyRequests {
		t.Errorf("%d with 32 others", got)
	}
	cancel()
	for range 200 {
		if status() == 200 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("no place is free again")
}

// Serve ends with its context, whoever listens, and closes what it listened on.
func TestServe(t *testing.T) {
	noLeaks(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	h := serve(t, web.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, l) }()
	events := listen(t.Context(), t, "http://"+l.Addr().String(), "/api/v1/events?session=last")
	next(t, events)
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	for range events { // end
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

// counting counts how often a session was read.
type counting struct {
	store.Store
	mu           sync.Mutex
	rows, blocks int
}

func (c *counting) Rows(ctx context.Context, k session.Key) iter.Seq2[session.Row, error] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows++
	return c.Store.Rows(ctx, k)
}

func (c *counting) Blocks(ctx context.Context, k session.Key) iter.Seq2[session.Block, error] {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks++
	return c.Store.Blocks(ctx, k)
}

// A session is read once however often it is asked for, also at once, and again when something of it arrived.
func TestCache(t *testing.T) {
	st := &counting{Store: sample(t)}
	h := serve(t, web.Options{Store: st})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for _, path := range []string{"show/" + demoID, "outline/" + demoID, "turns/" + demoID + "?from=2",
				"status/" + demoID} {
				if r := get(t, h, "/api/v1/"+path); r.StatusCode != http.StatusOK {
					t.Error(r.Status)
				}
			}
		})
	}
	wg.Wait()
	if st.rows != 2 { // the session, and its sub-agent
		t.Errorf("read %d times", st.rows)
	}
	record(t, st.Store, demo, "")
	before := st.rows
	a := body(t, get(t, h, "/api/v1/show/"+demoID))
	if st.rows != before+1 || len(a) == 0 {
		t.Errorf("read %d times after something arrived", st.rows-before)
	}
}

// The status of a session is read without its blocks, and from memory after the whole session was read.
func TestStatusReadsNoBlocks(t *testing.T) {
	st := &counting{Store: sample(t)}
	h := serve(t, web.Options{Store: st})
	alone := body(t, get(t, h, "/api/v1/status/"+demoID))
	if st.rows != 1 || st.blocks != 0 {
		t.Errorf("alone: rows read %d times, blocks %d times", st.rows, st.blocks)
	}
	get(t, h, "/api/v1/show/"+demoID)
	record(t, st.Store, demo, "") // the bare tree is of another state now
	get(t, h, "/api/v1/show/"+demoID)
	rows, blocks := st.rows, st.blocks
	after := body(t, get(t, h, "/api/v1/status/"+demoID))
	if st.rows != rows || st.blocks != blocks || blocks != 2 {
		t.Errorf(
			"after the whole was read: rows read %d times more, blocks %d times more after %d",
			st.rows-rows,
			st.blocks-blocks,
			blocks,
		)
	}
	if !strings.Contains(alone, `"status": "aborted"`) || alone != after {
		t.Errorf("alone %s, after the whole was read %s", alone, after)
	}
}

// A reader who goes away does not take the answer from those who wait for the same.
func TestCancelled(t *testing.T) {
	h := serve(t, web.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/show/"+demoID, nil)
	r.Host = loopback
	h.ServeHTTP(httptest.NewRecorder(), r)
	if r := get(t, h, "/api/v1/show/"+demoID); r.StatusCode != http.StatusOK {
		t.Error(r.Status)
	}
}
