package web_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/backend/web"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

const (
	demo     = "../../cmd/otelagent/demo.ndjson"
	demoID   = "0b5cf0a5-6d0e-4f6f-9a51-2f7d8f0f7e11"
	slashed  = "a/b c/../d?x=1#y%2F" // an id as hostile as an id can be
	loopback = "127.0.0.1:8321"
)

// record plays a recording into a store, with all its content, as it is or with another session id.
func record(t testing.TB, st store.Store, path, rename string) {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	put(t, st, phi.NewDecoder().Events(f), rename)
	must.Do(t, project.Refresh(t.Context(), st))
}

// put records events and puts what would go over OTLP into a store.
func put(t testing.TB, st store.Store, events iter.Seq2[event.Event, error], rename string) {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	play.Lines(t, event.NewRecorder(p.Tracer()), events)
	batch := p.Batch()
	for i := range batch.Rows {
		batch.Rows[i].Session.ID = cmp.Or(rename, batch.Rows[i].Session.ID)
	}
	for i := range batch.Blocks {
		batch.Blocks[i].Session.ID = cmp.Or(rename, batch.Blocks[i].Session.ID)
	}
	must.Do(t, st.Put(t.Context(), batch))
}

// sample returns a store with the demo session, its sub-agent, and a session of a hostile id.
func sample(t testing.TB) store.Store {
	t.Helper()
	st := memstore.New()
	record(t, st, demo, "")
	record(t, st, "../../dialects/phi/testdata/phi-core-0.15.2/tool-denied-by-hook.events.ndjson", slashed)
	return st
}

func serve(t testing.TB, o web.Options) *web.Handler {
	t.Helper()
	if o.Store == nil {
		o.Store = sample(t)
	}
	h := must.Get(web.New(o))(t)
	t.Cleanup(h.Close)
	return h
}

// get asks as a browser on this machine does.
func get(t testing.TB, h http.Handler, target string, edit ...func(*http.Request)) *response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Host = loopback
	for _, f := range edit {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	defer res.Body.Close()
	return &response{res, w.Body.String()}
}

// response is an answer with its body, read.
type response struct {
	*http.Response
	text string
}

func body(_ testing.TB, r *response) string { return r.text }

// read reads an answer of JSON that is expected to be one.
func read[T any](t testing.TB, h http.Handler, target string) T {
	t.Helper()
	r := get(t, h, target)
	text := body(t, r)
	var x T
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/json" ||
		json.Unmarshal([]byte(text), &x) != nil {
		t.Fatalf("%s: %s %s: %.300s", target, r.Status, r.Header.Get("Content-Type"), text)
	}
	return x
}

// paths are some of each kind, with the status that each has.
func paths() map[string]int {
	s, hostile := "/"+demoID, "/"+url.PathEscape(slashed)
	return map[string]int{
		"about": 200, "ls": 200, "ls?limit=1": 200, "ls?limit=0": 400, "ls?status=odd": 400, "ls?after=!": 400,
		"ls?statsu=error": 400, "ls?": 200, "ls?q=zzz": 200, "ls?tenant=other": 200,
		"show" + s: 200, "show" + s + "/@1": 200, "show" + s + "/@1/1": 200, "show" + hostile: 200, "show/0b5c": 200,
		"show/last": 200,
		"show/none": 404, "show" + s + "/@9": 404, "show" + s + "/@1/99": 404, "show" + s + "/@1/x": 400, "show/": 404,
		"show" + s + "?tenant=other": 404,
		"status" + s:                 200, "status" + hostile: 200, "status/none": 404,
		"outline" + s: 200, "outline" + hostile: 200, "outline/none": 404,
		"turns" + s: 200, "turns" + s + "?from=1&count=1&text=10": 200, "turns" + s + "?from=1000": 200,
		"turns" + s + "?from=-1": 400, "turns" + s + "?count=0": 400,
		"turns" + s + "?count=201": 400, "turns" + s + "?text=99999999": 400, "turns" + s + "?text=x": 400,
		"turn" + s + "/@1/1": 200, "turn" + hostile + "/@1/0": 200, "turn" + s + "/@1/99": 404, "turn" + s + "/@1/x": 400,
		"turn" + s + "/@1":      404,
		"request" + s + "/@1/2": 200, "request" + s + "/@1/2/0": 200, "request" + s + "/@1/2?raw=1": 200,
		"request" + s + "/@1/2?diff=@1/1": 200, "request" + s + "/@1/2?diff=@1/1/0": 200,
		"request" + s + "/@1/2?diff=@1/99": 404, "request" + s + "/@1/2?diff=1": 400,
		"request" + s + "/@1/2?diff=@1/x": 400, "request" + s + "/@1/2/9": 404, "request" + s + "/@1/2/x": 400,
		"block" + s + "/x": 400, "block" + s + "/AAAAAAAAAAA": 404,
		"stats": 200, "stats?by=model": 200, "stats?by=odd": 400, "stats?since=7d": 200, "stats?since=odd": 400,
		"stats?session=0b5c": 200, "stats?session=none": 404,
		"diff?a=0b5c/@1/1&b=0b5c/@1/2": 200, "diff?a=0b5c&b=" + url.QueryEscape(slashed): 200,
		"diff?a=0b5c/@1&b=0b5c/@1": 200, "diff?a=0b5c&b=0b5c/@1": 400,
		"diff?a=0b5c": 400, "diff": 400, "diff?a=none&b=none": 404, "diff?a=0b5c&b=0b5c&ignore=odd": 400,
		"diff?a=0b5c&b=a/b/c/d/e": 400,
		"replay" + s + "/@1/2":    200, "replay" + s + "/@1/2?form=openai-chat": 200, "replay" + s + "/@1/2?form=odd": 400,
		"replay" + s + "/@1/2?attempt=9": 404,
		"replay" + s + "/@1/2?attempt=x": 400, "replay" + s + "/@1/99": 404,
		"grep?q=add": 200, "grep?q=add&session=0b5c&limit=2": 200, "grep": 400, "grep?q=(&regexp=1": 400,
		"grep?q=x&limit=0": 400, "grep?q=x&session=none": 404,
		"events?session=none": 404, "nothing": 404, "": 404, "show" + s + "/@1/1/1/1": 404,
	}
}

func TestPaths(t *testing.T) {
	h := serve(t, web.Options{})
	for path, want := range paths() {
		r := get(t, h, "/api/v1/"+path)
		text := body(t, r)
		if r.StatusCode != want {
			t.Errorf("%s: %s, want %d: %.200s", path, r.Status, want, text)
		}
		if want != 200 {
			var e map[string]string
			if err := json.Unmarshal([]byte(text), &e); err != nil || len(e) != 1 || e["error"] == "" ||
				r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: error is %q", path, text)
			}
		} else if !strings.Contains(path, "raw") && !json.Valid([]byte(text)) {
			t.Errorf("%s: no JSON: %.200s", path, text)
		}
	}
}

// What was in a block comes back whole, as text.
func TestBlock(t *testing.T) {
	h := serve(t, web.Options{})
	page := read[web.Turns](t, h, "/api/v1/turns/"+demoID+"?text=5")
	cut := 0
	for _, turn := range page.Turns {
		for _, c := range turn.ToolCalls {
			if c.Output == nil || !c.Output.Cut {
				continue
			}
			cut++
			r := get(t, h, "/api/v1/block/"+demoID+"/"+c.Output.Block)
			text := body(t, r)
			if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
				r.Header.Get("Otelagent-State") != "whole" ||
				len(text) < int(c.Output.Bytes) {
				t.Errorf("%s: %s %v %d bytes, want %d", c.Output.Block, r.Status, r.Header, len(text), c.Output.Bytes)
			}
		}
	}
	if cut == 0 {
		t.Error("nothing was cut")
	}
}

// The bytes of a request are those that were sent, and its JSON is not compressed into another one.
func TestRawRequest(t *testing.T) {
	h := serve(t, web.Options{})
	type request struct {
		Bytes  int
		SHA256 string
		Exact  bool
	}
	about := read[request](t, h, "/api/v1/request/"+demoID+"/@1/2")
	raw := get(t, h, "/api/v1/request/"+demoID+"/@1/2?raw=1")
	text := body(t, raw)
	if sum := sha256.Sum256([]byte(text)); !about.Exact || about.SHA256 != hex.EncodeToString(sum[:]) ||
		about.Bytes != len(text) ||
		!json.Valid([]byte(text)) ||
		raw.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d bytes, want %+v: %v", len(text), about, raw.Header)
	}
}

// A client that has the state gets a 304, and the document after a change.
func TestETag(t *testing.T) {
	st := sample(t)
	h := serve(t, web.Options{Store: st})
	for _, path := range []string{"show/" + demoID, "outline/" + demoID, "turns/" + demoID, "turn/" + demoID + "/@1/1",
		"request/" + demoID + "/@1/2", "request/" + demoID + "/@1/2?raw=1", "request/" + demoID + "/@1/2?diff=@1/1"} {
		first := get(t, h, "/api/v1/"+path)
		etag := first.Header.Get("ETag")
		have := func(r *http.Request) { r.Header.Set("If-None-Match", `"other", `+etag) }
		if again := get(t, h, "/api/v1/"+path, have); etag == "" || again.StatusCode != http.StatusNotModified ||
			body(t, again) != "" {
			t.Errorf("%s: %s with %s", path, again.Status, etag)
		}
		record(t, st, demo, "") // puts the same again: the mark grows
		if again := get(t, h, "/api/v1/"+path, have); again.StatusCode != http.StatusOK || again.Header.Get("ETag") == etag {
			t.Errorf("%s: %s after something arrived", path, again.Status)
		}
	}
}

// requestRun is a run of a session with one request a text; its turns have the indexes from 0 on.
func requestRun(session, run string, texts ...string) string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		`{"type":"otelagent.run_started","ts":"2026-11-20T09:00:00Z","session":%q,"run":%q}`+"\n",
		session,
		run,
	)
	for i, text := range texts {
		fmt.Fprintf(&b, `{"type":"otelagent.turn_started","ts":"2026-11-20T09:00:00.1Z","run":%q,"index":%d}`+"\n", run, i)
		fmt.Fprintf(
			&b,
			`{"type":"otelagent.request_prepared","ts":"2026-11-20T09:00:00.2Z","run":%q,`+
				`"payload":{"model":"m","messages":[{"role":"user","content":%q}]}}`+"\n",
			run,
			text,
		)
		fmt.Fprintf(
			&b,
			`{"type":"otelagent.turn_ended","ts":"2026-11-20T09:00:00.3Z","run":%q,`+
				`"stop_reason":"end_turn","output":{"role":"assistant","content":"So it is."}}`+"\n",
			run,
		)
	}
	fmt.Fprintf(&b, `{"type":"otelagent.run_ended","ts":"2026-11-20T09:00:01Z","run":%q,"status":"completed"}`+"\n", run)
	return b.String()
}

// Nothing is put together for who has it already, or waits for a place: a request may be many megabytes.
func TestRequestIsMadeLate(t *testing.T) {
	const size = 4 << 20
	st, lines := memstore.New(), requestRun("s", "r", strings.Repeat("a", size), strings.Repeat("b", size))
	put(t, st, ndjson.NewDecoder().Events(strings.NewReader(lines)), "")
	h := serve(t, web.Options{Store: st})
	for _, path := range []string{"request/s/@1/1", "request/s/@1/1?raw=1", "request/s/@1/1?diff=@1/0"} {
		first := get(t, h, "/api/v1/"+path)
		if first.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %.300s", path, first.Status, first.text)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		again := get(t, h, "/api/v1/"+path, func(r *http.Request) { r.Header.Set("If-None-Match", first.Header.Get("ETag")) })
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; again.StatusCode != http.StatusNotModified || took > size/2 {
			t.Errorf("%s: %s took %d bytes", path, again.Status, took)
		}
	}
}

func TestGzip(t *testing.T) {
	h := serve(t, web.Options{})
	plain := body(t, get(t, h, "/api/v1/show/"+demoID))
	r := get(t, h, "/api/v1/show/"+demoID, func(r *http.Request) { r.Header.Set("Accept-Encoding", "gzip") })
	packed := body(t, r)
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil || r.Header.Get("Content-Encoding") != "gzip" || len(packed) > len(plain)/2 {
		t.Fatalf("%v, %v, %d of %d bytes", err, r.Header, len(packed), len(plain))
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != plain {
		t.Error("not the same")
	}
}

func TestAbout(t *testing.T) {
	h := serve(
		t,
		web.Options{Name: "s.db", Version: "v9", Links: map[string]string{"jaeger": "http://127.0.0.1:16686/trace/{trace}"}},
	)
	a := read[web.About](t, h, "/api/v1/about")
	if got, want := fmt.Sprintf("%+v",
		a), "{Format:1 Version:v9 Database:s.db Tenant: Tenants:[] "+
		"Links:map[jaeger:http://127.0.0.1:16686/trace/{trace}] Live:true}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestCheckLink(t *testing.T) {
	for link, good := range map[string]bool{
		"http://127.0.0.1:16686/trace/{trace}": true, "https://g/explore?q={trace}&s={span}": true,
		"javascript:alert({trace})": false, "http://h/": false, "{trace}": false, "//h/{trace}": false, "": false,
		"http:///{trace}": false,
	} {
		if err := web.CheckLink(link); (err == nil) != good {
			t.Errorf("%s: %v", link, err)
		}
	}
}

// Pages of the list hold every session once.
func TestListPages(t *testing.T) {
	h := serve(t, web.Options{})
	whole := read[reader.List](t, h, "/api/v1/ls")
	var ids []string
	for after := ""; ; {
		l := read[reader.List](t, h, "/api/v1/ls?limit=1&after="+url.QueryEscape(after))
		for _, s := range l.Sessions {
			ids = append(ids, s.ID)
		}
		if after = l.Next; after == "" {
			break
		}
		if len(ids) > 10 {
			t.Fatal("no end")
		}
	}
	var want []string
	for _, s := range whole.Sessions {
		want = append(want, s.ID)
	}
	if len(want) != 3 || fmt.Sprint(ids) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", ids, want)
	}
}

// A store that fails is no reason to say what it holds, or how it works.
func TestFailures(t *testing.T) {
	var logged bytes.Buffer
	st := &failing{sample(t)}
	h := serve(t, web.Options{Store: st, Log: func(line string) { logged.WriteString(line + "\n") }})
	for _, path := range []string{"ls", "show/" + demoID, "outline/" + demoID, "stats", "events"} {
		r := get(t, h, "/api/v1/"+path)
		if text := body(t, r); r.StatusCode != http.StatusInternalServerError && path != "events" ||
			strings.Contains(text, "secret") {
			t.Errorf("%s: %s %s", path, r.Status, text)
		}
	}
	if !strings.Contains(logged.String(), "disk of secrets is broken") {
		t.Errorf("logged %q", logged.String())
	}
}

// failing is a store that cannot read.
type failing struct{ store.Store }

var errBroken = errors.New("the disk of secrets is broken")

func (failing) Revision(context.Context, session.Key) (store.Revision, error) { return 0, errBroken }

func (failing) Sessions(context.Context, store.Query) iter.Seq2[session.Summary, error] {
	return func(yield func(session.Summary, error) bool) { yield(session.Summary{}, errBroken) }
}

func (failing) Figures(context.Context, store.FigureQuery) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) { yield(nil, errBroken) }
}
