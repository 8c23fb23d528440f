package sqlitestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// needles are pieces of 8 bytes of what a session consists of.
type needles map[uint64]string

// add takes pieces of v, one every four bytes, but those that are mostly zero, as much else is.
func (n needles) add(what string, v []byte) {
	for ; len(v) >= 8; v = v[min(4, len(v)):] {
		if bytes.Count(v[:8], []byte{0}) < 4 {
			n[binary.LittleEndian.Uint64(v)] = what
		}
	}
}

// forget takes the pieces out that are in data: others have them as well.
func (n needles) forget(data []byte) {
	for ; len(data) >= 8; data = data[1:] {
		delete(n, binary.LittleEndian.Uint64(data))
	}
}

// in counts the pieces that are in the files of a database, by what they are of.
func (n needles) in(t *testing.T, path string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		data, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for ; len(data) >= 8; data = data[1:] {
			if what, ok := n[binary.LittleEndian.Uint64(data)]; ok {
				found[what+suffix]++
			}
		}
	}
	return found
}

// take adds every text and blob of the rows that query yields, as they are in the file.
func (n needles) take(t *testing.T, s *Store, what, query string, args ...any) {
	t.Helper()
	rows := must.Get(s.readers.QueryContext(t.Context(), query, args...))(t)
	defer rows.Close()
	names := must.Get(rows.Columns())(t)
	count := 0
	for rows.Next() {
		v := make([]any, len(names))
		p := make([]any, len(names))
		for i := range v {
			p[i] = &v[i]
		}
		must.Do(t, rows.Scan(p...))
		for i, v := range v {
			switch v := v.(type) {
			case string:
				n.add(what+"."+names[i], []byte(v))
			case []byte:
				n.add(what+"."+names[i], v)
			}
		}
		count++
	}
	if rows.Err() != nil || count == 0 {
		t.Fatalf("%s: %d rows, %v", what, count, rows.Err())
	}
}

// everywhere puts a session that has something in every table, in batches between those of others, and returns what it
// consists of. Without gone it puts the others only.
func everywhere(t *testing.T, s *Store, gone session.Key, with bool) needles {
	t.Helper()
	n := needles{}
	put := func(b session.Batch) {
		t.Helper()
		must.Do(t, s.Put(t.Context(), b))
	}
	secret := func(what string, size int) string {
		v := noise(gone.ID+what, size)
		n.add(what, []byte(v))
		return v
	}
	var turn session.Batch
	var last session.Figures
	for i := range everywhereBatches {
		var b session.Batch
		for o := range 7 {
			k := session.Key{Tenant: gone.Tenant, ID: fmt.Sprint("other ", o)}
			b.Rows = append(b.Rows, storetest.Row(k, 100_000*(o+1)+i))
			b.Blocks = append(b.Blocks, storetest.Block(k, noise(fmt.Sprint(o, i), 300)))
		}
		if with {
			turn = session.Batch{}
			for j := range 4 {
				r := storetest.Row(gone, 10*i+j)
				r.Run, r.Service = secret("run", 40), secret("service", 50)
				r.Trace = session.TraceID([]byte(secret("trace", 16)))
				r.Attrs = append(r.Attrs, session.Attr{Key: "zz" + secret("attribute key", 30),
					Value: session.StringValue(secret(fmt.Sprint("attribute ", i, j), 200))})
				switch {
				case i%50 == 7 && j == 0: // compressed by entropy coding
					r.Lists = append(r.Lists, session.List{Name: "input", Items: []string{strings.Repeat(secret("list", 300), 20)}})
				case i%50 == 8 && j == 0: // on overflow pages
					r.Events = append(r.Events, session.Event{Type: secret("event", 40_000)})
				case j == 1 && i%5 == 0:
					r.Known = spans.KnownLive
				}
				turn.Rows = append(turn.Rows, r)
			}
			body := secret(fmt.Sprint("body ", i), 500)
			turn.Blocks = append(turn.Blocks, storetest.Block(gone, body), storetest.Block(gone, strings.Repeat(body, 20)),
				storetest.Block(gone, "{\x01"+storetest.Block(gone, body).ID.Short().String()))
			if i%100 == 0 {
				prompt := storetest.Block(gone, secret("shared body", 60_000))
				turn.Blocks = append(turn.Blocks, prompt)
				if i == 0 {
					turn.Blocks = append(turn.Blocks, storetest.Block(gone, secret("large body", 600_000)))
				}
				cut := storetest.Block(gone, secret("cut body", 3000))
				cut.Body, cut.Size = cut.Body[:1000], 3000
				turn.Blocks = append(turn.Blocks, cut)
			}
			b.Rows, b.Blocks = append(b.Rows, turn.Rows...), append(b.Blocks, turn.Blocks...)
		}
		put(b)
		if with && i%3 == 0 { // rows that others replace, of another size
			for j := range turn.Rows {
				turn.Rows[j].End++
				turn.Rows[j].Service = secret("service that came later", 400)
			}
			put(turn)
		}
		if i%10 == 9 { // figures that grow and change, of all of them
			for o := range 7 {
				k := session.Key{Tenant: gone.Tenant, ID: fmt.Sprint("other ", o)}
				projectFigures(t, s, k, storetest.FiguresFor(k, i))
			}
		}
		if with && i%10 == 9 {
			f := storetest.FiguresFor(gone, i)
			for j := range f.Turns {
				f.Turns[j].Run, f.Turns[j].Model = secret(fmt.Sprint("run of figures ", j), 40),
					secret(fmt.Sprint("model of figures ", i, j), 40)
			}
			for j := range 2 {
				f.ToolCalls[j].Call, f.ToolCalls[j].Tool = secret("call of figures", 40),
					secret(fmt.Sprint("tool of figures ", i), 40)
				f.Compactions[j].Trigger, f.Permissions[j].Source = secret(fmt.Sprint("trigger of figures ", i), 40),
					secret("source of figures", 40)
			}
			projectFigures(t, s, gone, f)
			last = f
		}
		if with && i%50 == 49 {
			must.Do(t, s.tidy(t.Context(), gone))
		}
	}
	if !with {
		return n
	}
	mark := must.Get(s.Revision(t.Context(), gone))(t)
	m := storetest.Summary(gone)
	m.Parent, m.Agent, m.Model = secret("parent", 40), secret("agent", 40), secret("model", 40)
	must.Do(t, s.SetSummary(t.Context(), gone, store.SummaryUpdate{Revision: mark, Summary: m, Figures: last}))
	must.Do(t, s.ProjectChat(t.Context(), gone, mark, chatRows(gone.ID, secret("chat text", 30_000),
		secret("chat text", 300))))
	n.add("session id", []byte(gone.ID))
	n.add("tenant", []byte(gone.Tenant))
	var id int64
	must.Do(t, s.readers.QueryRowContext(t.Context(), `SELECT session FROM sessions WHERE tenant = ? AND id = ?`,
		gone.Tenant, gone.ID).Scan(&id))
	for _, table := range []string{"sessions", "rows", "session_traces", "blocks", "packs", "withheld", "summaries",
		"turns", "tool_calls", "compactions", "permission_evaluations"} {
		n.take(t, s, table, "SELECT * FROM "+table+" WHERE session = ?", id)
	}
	if gone.Tenant == "" {
		n.take(t, s, "chat_messages", `SELECT * FROM chat_messages WHERE session_id = ?`, gone.ID)
		n.take(t, s, "chat_parts", `SELECT * FROM chat_parts WHERE session_id = ?`, gone.ID)
		n.take(t, s, "system_prompts",
			`SELECT p.* FROM system_prompts p JOIN chat_prompts c ON c.digest = p.digest WHERE c.session = ?`, id)
	}
	// What the same others alone leave in a file is no sign of the session.
	alone := filepath.Join(t.TempDir(), "others.db")
	o := newStore(t, alone)
	everywhere(t, o, gone, false)
	must.Do(t, o.Close())
	data := must.Get(os.ReadFile(alone))(t)
	n.forget(data)
	return n
}
