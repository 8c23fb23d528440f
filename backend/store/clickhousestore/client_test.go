package clickhousestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// fake answers as much of ClickHouse's HTTP interface as opening takes, and what a test adds. answer returns true when
// it has answered.
type fake struct {
	*httptest.Server
	version string
	timeout string // of stores that open it
	answer  func(w http.ResponseWriter, r *http.Request, sql string, data []byte) bool

	mu         sync.Mutex
	statements []string
	bodies     map[string][]byte // of inserts, by table
}

var insertOf = regexp.MustCompile("^INSERT INTO `[a-z]+`.`([a-z_]+)`")

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{version: "26.7.3.1", timeout: "1m", bodies: map[string][]byte{}}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // cut
		}
		sql := r.URL.Query().Get("query")
		if sql == "" {
			sql = string(body)
		}
		f.mu.Lock()
		f.statements = append(f.statements, sql)
		answer := f.answer
		if m := insertOf.FindStringSubmatch(sql); m != nil {
			f.bodies[m[1]] = body
		}
		f.mu.Unlock()
		switch {
		case answer != nil && answer(w, r, sql, body):
		case strings.HasPrefix(sql, "SELECT version()"):
			_, _ = io.WriteString(w, f.version+"\n")
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// set replaces the function that answers, also while other goroutines send statements.
func (f *fake) set(answer func(w http.ResponseWriter, r *http.Request, sql string, data []byte) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// sent returns all statements.
func (f *fake) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.statements)
}

func (f *fake) dsn() string {
	return "clickhouse://me@" + strings.TrimPrefix(f.URL, "http://") + "/db?timeout=" + f.timeout
}

// hurry gives stores a short timeout for a test of a silent server. Every other test has one that no delay reaches.
func (f *fake) hurry(says string) {
	if strings.HasPrefix(says, "silent for ") {
		f.timeout = strings.TrimPrefix(says, "silent for ")
	}
}

func (f *fake) open(t *testing.T, opts ...Option) *Store {
	t.Helper()
	s := must.Get(Open(t.Context(), f.dsn(), append([]Option{WithPassword("geheim")}, opts...)...))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// code answers with an exception as servers do; its text may quote what was stored.
func code(w http.ResponseWriter, status, code int) bool {
	w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(code))
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "Code: %d. DB::Exception: Cannot parse 'a secret row'\n", code)
	return true
}

func oneRow() session.Batch {
	k := session.Key{ID: "s"}
	return session.Batch{
		Rows:   []session.Row{{Session: k, Trace: session.TraceID{1}, Span: session.SpanID{2}, Known: spans.KnownObserved}},
		Blocks: []session.Block{{Session: k, ID: spans.BlockOfString("b"), Body: "b"}},
	}
}

// TestOpenErrors holds that Open returns ErrUnusable only for what no waiting mends, and that errors contain no secret.
func TestOpenErrors(t *testing.T) {
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for _, c := range []struct {
		name, to     string // the answer to statements that have to in them
		status, code int
		body         string
		unusable     bool
		says         string
	}{
		{name: "away", says: "refused"},
		{name: "wrong password", status: 500, code: 193, unusable: true, says: "193 (WRONG_PASSWORD)"},
		{name: "authentication", status: 403, code: 516, unusable: true, says: "516 (AUTHENTICATION_FAILED)"},
		{name: "a redirect", status: 307, unusable: true, says: "status 307"},
		{name: "another program", status: 200, body: "<html>hello</html>", unusable: true,
			says: "not what a ClickHouse server gives"},
		{name: "a page that is not there", status: 404, unusable: true, says: "status 404"},
		{name: "a proxy whose server is away", status: 502, says: "status 502"},
		{name: "too many queries", status: 500, code: 202, says: "202"},
		{name: "a database of others", to: "system.tables", status: 200, body: string(appendString(nil, "customers")),
			unusable: true, says: "none of otelagent"},
		{name: "a newer schema", to: "max(version)", status: 200, body: string(appendU64(nil, Version+1)), unusable: true,
			says: "use a newer program"},
		{name: "silent", says: "silent for 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			f.set(func(w http.ResponseWriter, r *http.Request, sql string, _ []byte) bool {
				switch {
				case c.status == 0:
					<-r.Context().Done()
				case !strings.Contains(sql, c.to):
					if strings.Contains(sql, "system.tables") {
						_, _ = w.Write(appendString(nil, schemaTable.name))
					}
					return strings.Contains(sql, "system.tables")
				case c.code != 0:
					return code(w, c.status, c.code)
				default:
					w.Header().Set("Location", "http://127.0.0.1:1/")
					w.WriteHeader(c.status)
					_, _ = io.WriteString(w, c.body)
				}
				return true
			})
			f.hurry(c.says)
			dsn := f.dsn()
			if c.name == "away" {
				dsn = strings.Replace(dsn, strings.TrimPrefix(f.URL, "http://"), strings.TrimPrefix(away.URL, "http://"), 1)
			}
			_, err := Open(t.Context(), dsn, WithPassword("geheim"))
			if err == nil || errors.Is(err, store.ErrUnusable) != c.unusable || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q and is ErrUnusable: %v", err, c.says, c.unusable)
			}
			noSecrets(t, err)
		})
	}
}

func noSecrets(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, secret := range []string{"geheim", "a secret row", "SELECT", "INSERT", "http://"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error %q contains %q", err, secret)
		}
	}
}

// TestPassword holds the password to its header.
func TestPassword(t *testing.T) {
	f := newFake(t)
	var bad atomic.Value
	f.set(func(_ http.ResponseWriter, r *http.Request, _ string, data []byte) bool {
		if r.Header.Get("X-ClickHouse-User") != "me" || r.Header.Get("X-ClickHouse-Key") != "geheim" {
			bad.Store("a request without user and password")
		}
		if strings.Contains(r.URL.String(), "geheim") || strings.Contains(string(data), "geheim") {
			bad.Store("the password outside of its header")
		}
		return false
	})
	s := f.open(t)
	must.Do(t, s.Put(t.Context(), oneRow()))
	if b := bad.Load(); b != nil {
		t.Error(b)
	}
	if got := fmt.Sprintf("%+v", s.dsn); strings.Contains(got, "geheim") {
		t.Errorf("the DSN holds the password: %s", got)
	}
}

// inserts returns the tables that were inserted into, in order.
func (f *fake) inserts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, sql := range f.statements {
		if m := insertOf.FindStringSubmatch(sql); m != nil {
			out = append(out, m[1])
		}
	}
	return out
}

// TestPutErrors fails each insert in turn, in each way. A Put that failed has written nothing behind what failed, and
// its error says whether to send it again.
func TestPutErrors(t *testing.T) {
	hijack := func(w http.ResponseWriter, text string) bool {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(c, text)
		_ = c.Close()
		return true
	}
	sends := func(status, n int) func(w http.ResponseWriter, _ *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { return code(w, status, n) }
	}
	cuts := func(text string) func(w http.ResponseWriter, _ *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { return hijack(w, text) }
	}
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request) bool
		is     error
		says   string
	}{
		{"too many parts", sends(500, 252), nil, "252 (TOO_MANY_PARTS)"},
		{"disk full", sends(500, 243), store.ErrFull, "243 (NOT_ENOUGH_SPACE)"},
		{"unknown table", sends(404, 60), nil, "60 (UNKNOWN_TABLE)"},
		{"read-only replica", sends(500, 242), nil, "242 (TABLE_IS_READ_ONLY)"},
		{"a value too large", sends(500, 131), store.ErrData, "131"},
		{"a proxy", sends(503, 0), nil, "status 503"},
		{"a connection that is cut", cuts(""), nil, "EOF"},
		{"an answer that is cut", cuts("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nCode"), nil, "unexpected EOF"},
		{"no HTTP", cuts("SSH-2.0-OpenSSH\r\n"), nil, "malformed"},
		{"silence", func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }, nil,
			"silent for 1s"},
	} {
		for _, table := range []string{"blocks", "rows", "touches"} {
			t.Run(c.name+" at "+table, func(t *testing.T) {
				t.Parallel()
				f := newFake(t)
				f.hurry(c.says)
				s := f.open(t)
				f.set(func(w http.ResponseWriter, r *http.Request, sql string, _ []byte) bool {
					m := insertOf.FindStringSubmatch(sql)
					return m != nil && m[1] == table && c.answer(w, r)
				})
				err := s.Put(t.Context(), oneRow())
				if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "insert into "+table) {
					t.Errorf("%s: error %v, want one that says %q", table, err, c.says)
				}
				noSecrets(t, err)
				for _, e := range []error{store.ErrData, store.ErrFull, store.ErrUnusable} {
					if want := errors.Is(c.is, e); errors.Is(err, e) != want {
						t.Errorf("%s: error %v is %v: %v", table, err, e, !want)
					}
				}
				if l := f.inserts(); l[len(l)-1] != table {
					t.Errorf("inserts %v after %s failed", l, table)
				}
			})
		}
	}
}

// TestResultErrors breaks results of SELECT. No row may come out of what is none, and no result that was cut may look
// whole.
func TestResultErrors(t *testing.T) {
	row := session.Row{Session: session.Key{ID: "s"}, Trace: session.TraceID{1}, Span: session.SpanID{2},
		Known: spans.KnownObserved}
	whole := string(appendString(nil, row.AppendCanonical(nil)))
	cut := func(w http.ResponseWriter) {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		rows   int
		says   string // "" no error
	}{
		{"whole", func(w http.ResponseWriter) { _, _ = io.WriteString(w, whole) }, 1, ""},
		{"nothing", func(http.ResponseWriter) {}, 0, ""},
		{"an exception", func(w http.ResponseWriter) { code(w, 500, 241) }, 0, "241 (MEMORY_LIMIT_EXCEEDED)"},
		{"an exception that has no name here", func(w http.ResponseWriter) { code(w, 500, 396) }, 0, "code 396"},
		{"cut at a row's end", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", fmt.Sprint(2*len(whole)))
			_, _ = io.WriteString(w, whole)
			cut(w)
		}, 1, "unexpected EOF"},
		{"cut in a row", func(w http.ResponseWriter) { _, _ = io.WriteString(w, whole+whole[:20]); cut(w) }, 1,
			"unexpected EOF"},
		{"cut at a row's end, in chunks", func(w http.ResponseWriter) { _, _ = io.WriteString(w, whole); cut(w) }, 1,
			"unexpected EOF"},
		{"half a row", func(w http.ResponseWriter) { _, _ = io.WriteString(w, whole+whole[:20]) }, 1, "unexpected EOF"},
		{"a length above all bounds", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
		}, 0, "damaged"},
		{"a length that nothing follows", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "\x80\x80\x80\x10") }, 0,
			"unexpected EOF"},
		{"a row of others", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "\x06no row") }, 0, "damaged"},
		{"silence after a row", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, whole)
			w.(http.Flusher).Flush()
		}, 1, "silent for 1s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.hurry(c.says)
			s := f.open(t)
			f.set(func(w http.ResponseWriter, r *http.Request, sql string, _ []byte) bool {
				switch {
				case strings.HasPrefix(sql, "SELECT kind"):
					_, _ = w.Write(appendU64(appendU64(appendU64([]byte{0}, 7), 1), 1))
				case strings.HasPrefix(sql, "SELECT canonical"):
					if c.answer(w); c.says == "silent for 1s" {
						<-r.Context().Done()
					}
				default:
					return false
				}
				return true
			})
			n, failed := 0, error(nil)
			for r, err := range s.Rows(t.Context(), row.Session) {
				if err != nil {
					failed = err
					continue
				}
				n++
				if diff := cmp.Diff(row, r, cmp.AllowUnexported(session.Value{})); diff != "" {
					t.Error(diff)
				}
			}
			if n != c.rows || (failed == nil) != (c.says == "") || failed != nil && !strings.Contains(failed.Error(), c.says) {
				t.Errorf("%d rows and error %v, want %d and one that says %q", n, failed, c.rows, c.says)
			}
			noSecrets(t, failed)
		})
	}
}

// TestPutIsNotCut cancels a Put while its first insert runs: all of it comes, or the server's answer takes too long.
func TestPutIsNotCut(t *testing.T) {
	f := newFake(t)
	s := f.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.set(func(_ http.ResponseWriter, _ *http.Request, sql string, _ []byte) bool {
		if insertOf.MatchString(sql) { // the store also looks for deletions in the background
			cancel()
			time.Sleep(20 * time.Millisecond)
		}
		return false
	})
	if err := s.Put(ctx, oneRow()); err != nil {
		t.Errorf("a Put that had begun: %v", err)
	}
	if diff := cmp.Diff([]string{"otelagent_schema", "blocks", "rows", "touches"}, f.inserts()); diff != "" {
		t.Error(diff)
	}
	if err := s.Put(ctx, oneRow()); !errors.Is(err, context.Canceled) {
		t.Errorf("a Put after the end of its context: %v", err)
	}
}

// TestReadOnly holds a store that is open for reading to SELECT.
func TestReadOnly(t *testing.T) {
	f := newFake(t)
	if _, err := OpenReadOnly(t.Context(), f.dsn()); err == nil || errors.Is(err, store.ErrUnusable) {
		t.Errorf("a database that is not there: %v", err)
	}
	f.set(func(w http.ResponseWriter, _ *http.Request, sql string, _ []byte) bool {
		switch {
		case strings.Contains(sql, "system.tables"):
			_, _ = w.Write(appendString(nil, schemaTable.name))
		case strings.Contains(sql, "max(version)"):
			_, _ = w.Write(appendU64(nil, Version))
		default:
			return false
		}
		return true
	})
	s := must.Get(OpenReadOnly(t.Context(), f.dsn()))(t)
	defer func() { _ = s.Close() }()
	k := session.Key{ID: "s"}
	for name, err := range map[string]error{
		"Put": s.Put(t.Context(), oneRow()), "SetSummary": s.SetSummary(t.Context(), k, store.SummaryUpdate{}),
		"Delete": store.Delete(t.Context(), s, k),
	} {
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: %v, want ErrReadOnly", name, err)
		}
	}
	all(t, s.Sessions(t.Context(), store.Query{}))
	for _, sql := range f.sent() {
		if !strings.HasPrefix(sql, "SELECT ") {
			t.Errorf("a store for reading sent %.40q", sql)
		}
	}
}

// TestNoSQL puts what looks like SQL wherever a caller may, and finds nothing of it in a statement.
func TestNoSQL(t *testing.T) {
	const hostile = "x' OR '1'='1; DROP TABLE rows"
	f := newFake(t)
	s := f.open(t)
	k := session.Key{Tenant: hostile, ID: hostile}
	_ = store.Delete(t.Context(), s, k)
	all(t, s.Rows(t.Context(), k))
	all(t, s.Blocks(t.Context(), k))
	all(t, s.Sessions(t.Context(), store.Query{Tenant: hostile, Prefix: hostile, Parent: hostile,
		Span: session.SpanID{1}}))
	_, _ = s.Size(t.Context(), k)
	for _, sql := range f.sent() {
		if strings.Contains(sql, "DROP") || strings.Contains(sql, "'1'") {
			t.Errorf("statement %q", sql)
		}
	}
	if n := len(f.sent()); n < 6 {
		t.Errorf("%d statements", n)
	}
}

func TestCertificates(t *testing.T) {
	f := newFake(t)
	srv := httptest.NewUnstartedServer(f.Config.Handler)
	srv.Config.ErrorLog = quiet
	srv.StartTLS()
	defer srv.Close()
	u := must.Get(url.Parse(srv.URL))(t)
	dsn := "clickhouses://" + u.Host + "/db"
	if _, err := Open(t.Context(), dsn, WithPassword("geheim")); err == nil ||
		!strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody vouches for: %v", err)
	}
	s := must.Get(Open(t.Context(), dsn, WithPassword("geheim"),
		func(c *config) { c.tls = srv.Client().Transport.(*http.Transport).TLSClientConfig }))(t)
	if err := s.Put(t.Context(), oneRow()); err != nil {
		t.Error(err)
	}
	_ = s.Close()
}

// A caller may take its time with each session of a list: servers end a response that is not read for some time.
func TestSlowReaderOfLists(t *testing.T) {
	f := newFake(t)
	s := f.open(t)
	const n = 100_000
	written := make(chan struct{})
	f.set(func(w http.ResponseWriter, _ *http.Request, sql string, _ []byte) bool {
		if !strings.HasPrefix(sql, "SELECT p.tenant, p.id") {
			return false
		}
		row := append(appendString(appendString(nil, ""), strings.Repeat("s", 200)), 1)
		for _, f := range store.SummaryFields(&session.Summary{}) {
			row = appendField(row, f, false)
		}
		for range n {
			_, _ = w.Write(row)
		}
		close(written)
		return true
	})
	got := 0
	for _, err := range s.Sessions(t.Context(), store.Query{}) {
		must.Do(t, err)
		if got++; got > 1 {
			continue
		}
		select {
		case <-written:
		case <-time.After(20 * time.Second):
			t.Fatal("the server still waits for the rest to be read")
		}
	}
	if got != n {
		t.Errorf("%d sessions, want %d", got, n)
	}
}

func FuzzReader(f *testing.F) {
	row := func(id, s string) []byte {
		return append(appendU64s(appendString([]byte(id), s), []uint64{1, 2}), 3)
	}
	f.Add(row("12345678", "text"))
	f.Add(append(row("12345678", ""), row("abcdefgh", "\x00")...))
	f.Add([]byte("Code: 241. DB::Exception"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &reader{r: bufio.NewReader(strings.NewReader(string(data)))}
		var again []byte
		for r.more() {
			var id [8]byte
			r.full(id[:])
			s, l, b := r.str(), r.u64s(), r.u8()
			if r.err != nil {
				break
			}
			again = append(appendU64s(appendString(append(again, id[:]...), s), l), b)
		}
		if len(again) > len(data) {
			t.Errorf("%d bytes of rows out of %d", len(again), len(data))
		}
	})
}

func all[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	return must.All(seq)(t)
}
