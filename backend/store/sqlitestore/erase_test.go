package sqlitestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/spans"
)

// noise returns n bytes that no compressor makes smaller, as text; seed makes them unlike others.
func noise(seed string, n int) string {
	b := make([]byte, (n+1)/2)
	_, _ = rand.NewChaCha8(spans.BlockOfString(seed)).Read(b)
	return hex.EncodeToString(b)[:n]
}

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

// forget takes the pieces out that stand in data: others have them as well.
func (n needles) forget(data []byte) {
	for ; len(data) >= 8; data = data[1:] {
		delete(n, binary.LittleEndian.Uint64(data))
	}
}

// in counts the pieces that stand in the files of a database, by what they are of.
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

// take adds every text and blob of the rows that query yields, as they stand in the file.
func (n needles) take(t *testing.T, s *Store, what, query string, args ...any) {
	t.Helper()
	rows, err := s.readers.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for rows.Next() {
		v := make([]any, len(names))
		p := make([]any, len(names))
		for i := range v {
			p[i] = &v[i]
		}
		if err := rows.Scan(p...); err != nil {
			t.Fatal(err)
		}
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

// everywhereBatches is how many batches everywhere puts.
const everywhereBatches = 101

// everywhere puts a session that has something in every table, in batches between those of others, and returns what it
// consists of. Without gone it puts the others only.
func everywhere(t *testing.T, s *Store, gone session.Key, with bool) needles {
	t.Helper()
	n := needles{}
	put := func(b session.Batch) {
		t.Helper()
		if err := s.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
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
				turn.Rows[0] = fixed(turn.Rows[0], prompt)
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
			if err := s.tidy(t.Context(), gone); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !with {
		return n
	}
	mark, err := s.Revision(t.Context(), gone)
	if err != nil {
		t.Fatal(err)
	}
	m := storetest.Summary(gone)
	m.Parent, m.Agent, m.Model = secret("parent", 40), secret("agent", 40), secret("model", 40)
	if err := s.SetSummary(t.Context(), gone, store.SummaryUpdate{Revision: mark, Summary: m, Figures: last}); err != nil {
		t.Fatal(err)
	}
	if err := s.ProjectChat(t.Context(), gone, mark, chatRows(gone.ID, secret("chat text", 30_000),
		secret("chat text", 300))); err != nil {
		t.Fatal(err)
	}
	n.add("session id", []byte(gone.ID))
	n.add("tenant", []byte(gone.Tenant))
	var id int64
	if err := s.readers.QueryRowContext(t.Context(), `SELECT session FROM sessions WHERE tenant = ? AND id = ?`,
		gone.Tenant, gone.ID).Scan(&id); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"sessions", "rows", "live_rows", "session_traces", "blocks", "packs", "summaries",
		"turns", "tool_calls", "compactions", "permission_evaluations"} {
		n.take(t, s, table, "SELECT * FROM "+table+" WHERE session = ?", id)
	}
	n.take(t, s, "shared_bodies",
		`SELECT * FROM shared_bodies WHERE shared IN (SELECT -pack FROM blocks WHERE session = ?)`, id)
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
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(alone)
	if err != nil {
		t.Fatal(err)
	}
	n.forget(data)
	return n
}

func projectFigures(t *testing.T, s *Store, k session.Key, f session.Figures) {
	t.Helper()
	mark, err := s.Revision(t.Context(), k)
	if err == nil {
		err = s.SetSummary(t.Context(), k, store.SummaryUpdate{Revision: mark, Figures: f})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func erasedKey() session.Key { return session.Key{ID: noise("the id of a session", 60)} }

// After Delete no piece of the session is in the log or in free pages, and after Vacuum none is in any of the files:
// not as it came, not as it was compressed. Others write meanwhile.
func TestDeleteErases(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: long, and one goroutine: the race detector has nothing to find in it")
	}
	for name, gone := range map[string]session.Key{"": erasedKey(),
		" of a tenant": {Tenant: noise("tenant", 40), ID: noise("id", 60)}} {
		t.Run("session"+name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			s := newStore(t, path)
			n := everywhere(t, s, gone, true)
			before := n.in(t, path)
			for _, what := range []string{"rows.canonical", "packs.body", "shared_bodies.body", "rows.span", "blocks.id",
				"turns.run", "tool_calls.call", "compactions.trigger", "permission_evaluations.source"} {
				if before[what]+before[what+"-wal"] == 0 {
					t.Errorf("the test does not see %s in the file", what)
				}
			}
			if err := store.Delete(t.Context(), s, gone); err != nil {
				t.Fatal(err)
			}
			// the marks were removed after it was emptied
			if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 1<<20 {
				t.Errorf("a log of %d bytes", info.Size())
			}
			for _, page := range freePages(t, s) {
				rest := needles{}
				for k, v := range n {
					rest[k] = v
				}
				if rest.forget(page); len(rest) < len(n) {
					t.Errorf("%d pieces stand in a free page", len(n)-len(rest))
				}
			}
			stop, done := make(chan struct{}), make(chan error)
			other := newStore(t, path)
			go func() {
				var err error
				for i := 0; err == nil; i++ {
					select {
					case <-stop:
						done <- nil
						return
					case <-time.After(time.Millisecond):
						err = other.Put(context.Background(), session.Batch{Rows: []session.Row{storetest.Row(key("writer"), 900_000+i)}})
					}
				}
				<-stop
				done <- err
			}()
			err := s.Vacuum(t.Context())
			close(stop)
			if err := errors.Join(err, <-done); err != nil {
				t.Fatal(err)
			}
			if left := n.in(t, path); len(left) > 0 {
				t.Errorf("after Vacuum of %d kinds of things %v are left", len(before), left)
			}
			checkWhole(t, s)
			for o := range 7 {
				if rows, blocks := count(t, s, session.Key{Tenant: gone.Tenant,
					ID: fmt.Sprint("other ", o)}); rows != everywhereBatches || blocks != everywhereBatches {
					t.Errorf("another session has %d rows and %d blocks, want %d", rows, blocks, everywhereBatches)
				}
			}
		})
	}
}

// freePages returns the pages that belong to nothing.
func freePages(t *testing.T, s *Store) (out [][]byte) {
	t.Helper()
	rows,
		err := s.readers.QueryContext(t.Context(),
		`SELECT data FROM sqlite_dbpage WHERE pgno NOT IN (SELECT pageno FROM dbstat)`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var page []byte
		if err := rows.Scan(&page); err != nil {
			t.Fatal(err)
		}
		out = append(out, page)
	}
	if rows.Err() != nil || len(out) == 0 {
		t.Errorf("%d free pages, %v", len(out), rows.Err())
	}
	return out
}

// checkWhole holds the file to SQLite's own check, and to its references.
func checkWhole(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also in a cleanup
	var check string
	if err := s.conn.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("integrity check: %s, %v", check, err)
	}
	for what, query := range map[string]string{
		"rows of no session":      `SELECT count(*) FROM rows WHERE session NOT IN (SELECT session FROM sessions)`,
		"live rows of no session": `SELECT count(*) FROM live_rows WHERE session NOT IN (SELECT session FROM sessions)`,
		"blocks of no session":    `SELECT count(*) FROM blocks WHERE session NOT IN (SELECT session FROM sessions)`,
		"packs of no session":     `SELECT count(*) FROM packs WHERE session NOT IN (SELECT session FROM sessions)`,
		"traces of no session": "SELECT count(*) FROM session_traces " +
			`WHERE session NOT IN (SELECT session FROM sessions)`,
		"summaries of no session":   `SELECT count(*) FROM summaries WHERE session NOT IN (SELECT session FROM sessions)`,
		"turns of no session":       `SELECT count(*) FROM turns WHERE session NOT IN (SELECT session FROM sessions)`,
		"tool calls of no session":  `SELECT count(*) FROM tool_calls WHERE session NOT IN (SELECT session FROM sessions)`,
		"compactions of no session": `SELECT count(*) FROM compactions WHERE session NOT IN (SELECT session FROM sessions)`,
		"evaluations of no session": "SELECT count(*) FROM permission_evaluations " +
			`WHERE session NOT IN (SELECT session FROM sessions)`,
		"parts of no session": `SELECT count(*) FROM chat_parts WHERE session_id NOT IN (SELECT id FROM chat_sessions)`,
		"messages of no session": "SELECT count(*) FROM chat_messages " +
			`WHERE session_id NOT IN (SELECT id FROM chat_sessions)`,
		"prompts of no session": "SELECT count(*) FROM system_prompts " +
			`WHERE digest NOT IN (SELECT digest FROM chat_prompts)`,
		"shared bodies of nobody": `SELECT count(*) FROM shared_bodies WHERE shared NOT IN (SELECT -pack FROM blocks)`,
		"references to nothing": "SELECT count(*) FROM blocks " +
			`WHERE pack < 0 AND -pack NOT IN (SELECT shared FROM shared_bodies)`,
		"marks of the deleted": `SELECT count(*) FROM erasing`,
	} {
		var n int
		if err := s.conn.QueryRowContext(ctx, query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
}

// A reader that began before keeps its snapshot, and with it copies in the log. Delete says so, and the next one takes
// them away.
func TestDeleteWithReader(t *testing.T) {
	for _, how := range []string{"deleted again", "opened again", "another deleted"} {
		if testing.Short() && how != "opened again" {
			continue // of one kind to the race detector
		}
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.db")
			s := newStore(t, path, WithBusyTimeout(50*time.Millisecond))
			gone := erasedKey()
			n := everywhere(t, s, gone, true)
			rows, _ := count(t, s, gone)
			reader := newReader(t, path)
			seen := 0
			for _, err := range reader.Rows(t.Context(), gone) {
				if err != nil {
					t.Fatal(err)
				}
				if seen++; seen == 1 {
					if err := store.Delete(t.Context(), s, gone); !errors.Is(err, ErrReaders) {
						t.Fatalf("Delete beside a reader: %v", err)
					}
					if rows, blocks := count(t, reader, gone); rows+blocks != 0 {
						t.Errorf("a reader that begins afterwards sees %d rows and %d blocks", rows, blocks)
					}
				}
			}
			if seen != rows {
				t.Errorf("the reader saw %d rows, want the %d that were there when it began", seen, rows)
			}
			switch how {
			case "opened again":
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = newStore(t, path)
			case "another deleted":
				gone = key("never there")
				fallthrough
			default:
				if err := store.Delete(t.Context(), s, gone); err != nil {
					t.Fatal(err)
				}
			}
			if left := n.in(t, path); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
			checkWhole(t, s)
		})
	}
}

// copyFiles copies a database as it is on the disk at this moment, as if the process had died.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(from + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that dies half way leaves a session that nobody sees; whoever opens the file for writing erases the rest.
func TestDeleteDies(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	s := newStore(t, path)
	gone := erasedKey()
	n := everywhere(t, s, gone, true)
	halfWay := 0
	for i := 0; ; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+i*20)*time.Millisecond)
		err := store.Delete(ctx, s, gone)
		cancel()
		var marks int
		if err := s.readers.QueryRowContext(t.Context(), `SELECT count(*) FROM erasing`).Scan(&marks); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "interrupted") {
			t.Fatal(err)
		}
		if marks == 0 {
			continue // it had not begun
		}
		if halfWay++; halfWay > 3 && testing.Short() {
			continue // each costs seconds under the race detector
		}
		if rows, blocks := count(t, s, gone); rows+blocks != 0 {
			t.Errorf("half way %d rows and %d blocks are seen", rows, blocks)
		}
		copied := filepath.Join(dir, fmt.Sprint("copy", i, ".db"))
		copyFiles(t, path, copied)
		if rows, blocks := count(t, newReader(t, copied), gone); rows+blocks != 0 {
			t.Errorf("half way %d rows and %d blocks are seen by a reader", rows, blocks)
		}
		c := newStore(t, copied)
		if left := n.in(t, copied); len(left) > 0 {
			t.Errorf("opened again after it died half way, %v are left", left)
		}
		checkWhole(t, c)
	}
	if halfWay == 0 {
		t.Error("Delete was never stopped half way")
	}
	t.Logf("stopped half way %d times", halfWay)
	if left := n.in(t, path); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// What is Put to the key of a session that is being erased is a new one, in the tables of the agent guide as well.
func TestDeleteAndPutAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := newStore(t, path, WithChatTables())
	k := erasedKey()
	everywhere(t, s, k, true)
	// The first transaction of Delete, and no more.
	if hidden, err := s.hide(t.Context(), store.Deletion{Key: k}); err != nil || !hidden {
		t.Fatal(hidden, err)
	}
	want := session.Batch{Rows: []session.Row{storetest.Row(k, 3)}, Blocks: []session.Block{storetest.Block(k, "new")}}
	if err := s.Put(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	m, err := s.Revision(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ProjectChat(t.Context(), k, m, chatRows(k.ID, "new text")); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), s, key("another")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, content(t, s, k), byContent); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var texts string
	if err := s.readers.QueryRowContext(t.Context(), `SELECT group_concat(data_json) FROM chat_parts`).Scan(
		&texts); err != nil || !strings.Contains(texts, "new text") || len(texts) > 1000 {
		t.Errorf("parts %.200q, %v", texts, err)
	}
	checkWhole(t, s)
}

// Several programs delete the same sessions while others write.
func TestDeleteTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	stores := []*Store{newStore(t, path), newStore(t, path), newStore(t, path)}
	errs := make(chan error)
	for w, s := range stores {
		go func() {
			var err error
			for i := 0; i < 40 && err == nil; i++ {
				k := key(fmt.Sprint("s", i%5))
				prompt := storetest.Block(k, strings.Repeat("prompt ", 1000))
				err = s.Put(t.Context(), session.Batch{
					Rows:   []session.Row{fixed(storetest.Row(k, 100*w+i), prompt)},
					Blocks: []session.Block{prompt, storetest.Block(k, fmt.Sprint("body ", w, i))},
				})
				if err == nil && i%4 == 3 {
					if err = store.Delete(t.Context(), s, k); errors.Is(err, ErrReaders) {
						err = nil // another one was looking for what to delete
					}
				}
			}
			errs <- err
		}()
	}
	for range stores {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := store.Delete(t.Context(), stores[0], key("s0")); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, stores[0])
	for i := 1; i < 5; i++ {
		for b, err := range stores[0].Blocks(t.Context(), key(fmt.Sprint("s", i)), nil) {
			if err != nil || spans.BlockOfString(b.Body) != b.ID {
				t.Errorf("block %s of %d bytes, %v", b.ID, len(b.Body), err)
			}
		}
	}
}

// longWait is what no Put may take while a session is deleted: twice the 50 ms that are promised, for noise.
const longWait = 100 * time.Millisecond

// Others are written to while a large session is deleted: no Put waits for long.
func TestDeleteLetsOthersWrite(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("-short: measures times, of deleting sessions of 10,000 turns")
	}
	path := filepath.Join(t.TempDir(), "x.db")
	s := newStore(t, path)
	for try := 0; ; try++ {
		big := key(fmt.Sprint("big ", try))
		for n := 0; n < 10_000; n += 200 {
			var b session.Batch
			for i := n; i < n+200; i++ {
				for j := range 5 {
					b.Rows = append(b.Rows, benchRow(big, 5*i+j))
				}
				b.Blocks = append(b.Blocks, storetest.Block(big, noise(fmt.Sprint(try, i), 4000)))
			}
			if err := s.Put(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error)
		began := time.Now()
		go func() { done <- store.Delete(t.Context(), s, big) }()
		var took []time.Duration
		var err error
		for n, deleting := 0, true; deleting; n++ {
			start := time.Now()
			put(t, s, key("other"), n)
			took = append(took, time.Since(start))
			select {
			case err = <-done:
				deleting = false
			case <-time.After(time.Millisecond):
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(took)
		most := took[len(took)-1]
		t.Logf("Delete of 50,000 rows and 40 MB: %v; %d Puts meanwhile: median %v, 99 of 100 within %v, most %v",
			time.Since(began).Round(time.Millisecond), len(took), took[len(took)/2], took[len(took)*99/100], most)
		if most <= longWait && len(took) > 20 {
			break
		}
		if try == 2 {
			t.Fatalf("a Put took %v, at most %v is allowed; %d Puts came through", most, longWait, len(took))
		}
	}
	checkWhole(t, s)
}
