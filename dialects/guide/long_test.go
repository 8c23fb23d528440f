package guide_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/internal/must"
)

// long is a session of that many turns, made while it is read: as lines or as a document.
func long(turns int, document bool) io.Reader {
	r, w := io.Pipe()
	go func() {
		put := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // the reader may stop early
		session := `{"id":"ses_1","agent":"code","metadata_json":"{}","created_at":1000,"updated_at":1000}`
		if document {
			put(`{"session":%s,"messages":[`, session)
		} else {
			put(`{"type":"session","data":%s}`+"\n", session)
		}
		for i := range turns {
			for k, role := range []string{"user", "assistant"} {
				at := 2000 + 10*i + k
				message := fmt.Sprintf(`{"id":"msg_%d_%d","session_id":"ses_1","role":%q,`+
					`"metadata_json":"{\"usage\":{\"input\":1}}","created_at":%d,"updated_at":%d}`, i, k, role, at, at)
				part := fmt.Sprintf(`{"id":"prt_%d_%d","message_id":"msg_%d_%d","session_id":"ses_1","index":0,"type":"text",`+
					`"data_json":"{\"type\":\"text\",\"text\":\"%s\"}","created_at":%d,"updated_at":%d}`, i, k, i, k,
					strings.Repeat("x", 2000), at, at)
				if !document {
					put(`{"type":"message","data":%s}`+"\n"+`{"type":"part","data":%s}`+"\n", message, part)
					continue
				}
				if i+k > 0 {
					put(",")
				}
				put(`{"message":%s,"parts":[%s]}`, message, part)
			}
		}
		if document {
			put("]}\n")
		}
		_ = w.Close()
	}()
	return r
}

// TestLongSessions reads the lines of a session of 10,000 turns, 48 MB, and looks at the heap: it holds no session.
func TestLongSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: plays 48 MB")
	}
	const turns = 10000
	n, most := 0, uint64(0)
	for ev, err := range guide.NewDecoder().Events(long(turns, false)) {
		must.Do(t, err)
		if _, ok := ev.(*event.RunEnded); !ok {
			continue
		}
		if n++; n%2000 == 0 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if n != turns {
		t.Errorf("%d runs", n)
	}
	if most > 8<<20 {
		t.Errorf("%d bytes are held", most)
	}
}

func BenchmarkEvents(b *testing.B) {
	for _, document := range []bool{false, true} {
		in := must.Get(io.ReadAll(long(200, document)))(b)
		name := "lines"
		if document {
			name = "document"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				for _, err := range guide.NewDecoder().Events(bytes.NewReader(in)) {
					must.Do(b, err)
				}
			}
		})
	}
}
