package e2e

import (
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelagent/otelagent/internal/must"
)

// recordings are real sessions of several producers: the larger ones of each.
func recordings(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{
		"phi/testdata/phi-core-0.15.2/parallel-*.events.ndjson", "phi/testdata/phi-core-0.15.2/compaction-*.events.ndjson",
		"phi/testdata/phi-core-0.15.2/continue-*.events.ndjson", "acp/testdata/sdk/messages.ndjson",
		"clark/testdata/clark-agent-0.4.0/abort-*.enveloped.ndjson", "guide/testdata/session.jsonl",
	} {
		found, err := filepath.Glob(filepath.Join(repository, "dialects", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no recordings: %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// spansOf lets otelagent send recordings to us, and returns its spans, each in a request of its own.
func spansOf(t *testing.T, files []string) [][]byte {
	t.Helper()
	var (
		mu   sync.Mutex
		got  []ptrace.Traces
		fail error
	)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req := ptraceotlp.NewExportRequest()
		if err == nil {
			err = req.UnmarshalProto(body)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			fail = err
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got = append(got, req.Traces())
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	for _, f := range files {
		must.Get(run(t, "send", "--endpoint", "http://"+l.Addr().String(), "--protocol", "http/protobuf", "--capture",
			"content", f))(t)
	}
	mu.Lock()
	defer mu.Unlock()
	if fail != nil {
		t.Fatal(fail)
	}
	var out [][]byte
	for _, td := range got {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					one := ptrace.NewTraces()
					r := one.ResourceSpans().AppendEmpty()
					rs.Resource().CopyTo(r.Resource())
					r.SetSchemaUrl(rs.SchemaUrl())
					s := r.ScopeSpans().AppendEmpty()
					ss.Scope().CopyTo(s.Scope())
					s.SetSchemaUrl(ss.SchemaUrl())
					span.CopyTo(s.Spans().AppendEmpty())
					body := must.Get(ptraceotlp.NewExportRequestFromTraces(one).MarshalProto())(t)
					out = append(out, body)
				}
			}
		}
	}
	if len(out) == 0 {
		t.Fatal("no spans")
	}
	return out
}

// requests deals spans out to requests of up to ten, in any order, some of them in two requests. A request is a
// message of one repeated field, so that messages behind each other are one message.
func requests(rng *rand.Rand, spans [][]byte) (out [][]byte, twice int) {
	var all [][]byte
	for _, s := range spans {
		all = append(all, s)
		if rng.IntN(4) == 0 {
			all = append(all, s)
			twice++
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for len(all) > 0 {
		n := min(1+rng.IntN(10), len(all))
		var req []byte
		for _, s := range all[:n] {
			req = append(req, s...)
		}
		out = append(out, req)
		all = all[n:]
	}
	return out, twice
}
