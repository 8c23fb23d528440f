//go:build linux

package soak

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/internal/must"
)

// found is what a check found in a database.
type found struct {
	acked, stored, lost, twice int
	sessions, turns, requests  int
	missing                    int // requests that name what is missing
}

// String is the figures of a check.
func (f found) String() string {
	return fmt.Sprintf("acked %d, stored %d, lost %d, counted twice %d, %d sessions, %d requests byte-exact, %d "+
		"naming what is missing",
		f.acked, f.stored, f.lost, f.twice, f.sessions, f.requests, f.missing)
}

// partly says of which sessions nobody knows how far they got, because their sender was killed.
type partly func(id string) bool

// check compares a database with the answers that senders got. Every span that was acknowledged is there, once; every
// session's usage is the sum of its turns, the tree's and the summary's; every request comes back byte for byte, or
// says what is missing.
func check(t *testing.T, db string, l *ledger, unfinished partly) found {
	t.Helper()
	f, bad := inspectDatabase(t, db, l, unfinished)
	for i, line := range bad {
		if i == 10 {
			t.Errorf("and %d more", len(bad)-i)
			break
		}
		t.Error(line)
	}
	return f
}

func inspectDatabase(t *testing.T, db string, l *ledger, unfinished partly) (f found, bad []string) {
	t.Helper()
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if got := integrity(t, db); got != "ok" {
		wrong("integrity_check: %.300s", got)
	}
	st := must.Get(sqlitestore.OpenReadOnly(t.Context(), db))(t)
	defer func() { _ = st.Close() }()

	l.mu.Lock()
	defer l.mu.Unlock()
	scripts := map[string]script{}
	for _, s := range l.scripts {
		scripts[s.ID] = s
	}
	stored := map[spanKey]int{}
	seen := map[string]bool{}
	for sum, err := range st.Sessions(t.Context(), store.Query{}) {
		must.Do(t, err)
		f.sessions++
		seen[sum.ID] = true
		var rows []session.Row
		for r, err := range st.Rows(t.Context(), sum.Key) {
			must.Do(t, err)
			var k spanKey
			copy(k[:16], r.Trace[:])
			copy(k[16:], r.Span[:])
			if stored[k]++; stored[k] > 1 {
				f.twice++
				wrong("session %s: span %x is there twice", sum.ID, k)
			}
			rows = append(rows, r)
		}
		s, known := scripts[sum.ID]
		if !known {
			if len(l.scripts) > 0 {
				wrong("session %s was never sent", sum.ID)
			}
			continue
		}
		tree := session.Assemble(rows)
		blocks, err := session.NewBlockSet(st.Blocks(t.Context(), sum.Key))
		if err != nil {
			wrong("session %s: %v", sum.ID, err)
			continue
		}
		part := unfinished != nil && unfinished(sum.ID)
		checkTree(s, tree, blocks, part, &f, wrong)
		if sum.Usage != tree.Usage && !part {
			wrong("session %s: the list says %+v, the tree %+v", sum.ID, sum.Usage, tree.Usage)
		}
	}
	for id := range scripts {
		if !seen[id] && (unfinished == nil || !unfinished(id)) {
			wrong("session %s is not there", id)
		}
	}
	f.acked, f.stored = len(l.acked), len(stored)
	for k := range l.acked {
		if stored[k] == 0 {
			f.lost++
		}
	}
	if f.lost > 0 {
		wrong("%d of %d acknowledged spans are lost", f.lost, f.acked)
	}
	return f, bad
}

// checkTree holds one session to its script. Of an unfinished one turns and requests may be missing, never be wrong.
func checkTree(s script, tree *session.Session, blocks *session.BlockSet, part bool, f *found,
	wrong func(string, ...any)) {
	var sum session.Usage
	turns := map[int64]*session.Turn{}
	for _, run := range tree.Runs {
		for _, turn := range run.Turns {
			if turns[turn.Index] != nil {
				f.twice++
				wrong("session %s: turn %d is there twice", s.ID, turn.Index)
			}
			turns[turn.Index] = turn
			if turn.Usage != usage(turn.Index) && (!part || turn.Usage != session.Usage{}) {
				wrong("session %s: turn %d has usage %+v, want %+v", s.ID, turn.Index, turn.Usage, usage(turn.Index))
			}
			sum.Add(turn.Usage)
		}
	}
	f.turns += len(turns)
	if tree.Usage != sum {
		wrong("session %s: usage %+v is not the sum of its turns %+v", s.ID, tree.Usage, sum)
	}
	if !part {
		if len(turns) != s.Turns || tree.Usage != s.total() {
			wrong("session %s: %d turns with %+v, want %d with %+v", s.ID, len(turns), tree.Usage, s.Turns, s.total())
		}
		for _, d := range tree.Defects {
			wrong("session %s: defect %s", s.ID, d.Code)
		}
	}
	c := s.conversation()
	for i := range int64(s.Turns) {
		want := c.request()
		c.add("assistant")
		c.add("toolResult")
		turn := turns[i]
		if turn == nil {
			continue // counted above
		}
		if len(turn.Requests) != 1 {
			if !part || len(turn.Requests) > 1 {
				wrong("session %s: turn %d has %d requests", s.ID, i, len(turn.Requests))
			}
			continue
		}
		switch p := turn.Requests[0].Payload(blocks); {
		case p.Exact && string(p.Bytes) == string(want):
			f.requests++
		case p.Bytes == nil && len(p.Missing)+len(p.Defects) > 0 && part:
			f.missing++
		default:
			wrong("session %s: the request of turn %d is not what was sent: exact %v, %d bytes of %d, missing %d, defects %d",
				s.ID, i, p.Exact, len(p.Bytes), len(want), len(p.Missing), len(p.Defects))
		}
	}
}

// integrity returns what SQLite says of a file: ok, or what is wrong.
func integrity(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path}).String()+"?_pragma=busy_timeout(5000)")
	must.Do(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "PRAGMA integrity_check")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var line string
		err = errors.Join(err, rows.Scan(&line))
		out = append(out, line)
	}
	if err := errors.Join(err, rows.Err()); err != nil {
		return err.Error()
	}
	return strings.Join(out, "\n")
}

// readRequests reads what can be read of a database that may be damaged: how many requests are byte for byte as they
// were sent, how many are anything else (which must never be), and how many say that something is missing or cannot be
// read.
func readRequests(t *testing.T, db string, l *ledger) (whole, wrong, unreadable int) {
	t.Helper()
	st, err := sqlitestore.OpenReadOnly(t.Context(), db)
	if err != nil {
		return 0, 0, len(l.scripts)
	}
	defer func() { _ = st.Close() }()
	for _, s := range l.scripts {
		k := session.Key{ID: s.ID}
		var rows []session.Row
		for r, err := range st.Rows(t.Context(), k) {
			if err != nil {
				break
			}
			rows = append(rows, r)
		}
		blocks := &session.BlockSet{}
		for b, err := range st.Blocks(t.Context(), k) { // up to the first that cannot be read, as copy does
			if err != nil {
				unreadable++
				break
			}
			blocks.Add(b)
		}
		want := make([]string, 0, s.Turns)
		for c := s.conversation(); len(want) < s.Turns; {
			want = append(want, string(c.request()))
			c.add("assistant")
			c.add("toolResult")
		}
		for _, run := range session.Assemble(rows).Runs {
			for _, turn := range run.Turns {
				for _, q := range turn.Requests {
					switch p := q.Payload(blocks); {
					case p.Bytes == nil:
						unreadable++
					case turn.Index < int64(len(want)) && string(p.Bytes) == want[turn.Index]:
						whole++
					default:
						wrong++
					}
				}
			}
		}
	}
	return whole, wrong, unreadable
}

// The check sees what it is for: spans that were acknowledged and are not there, turns that are missing, sessions that
// nobody sent, and requests that cannot be read.
func TestCheckSees(t *testing.T) {
	begin(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sessions.db")
	l := seedDatabase(t, path)
	if f, bad := inspectDatabase(t, path, l, nil); len(bad) > 0 || f.acked != f.stored || f.requests != f.turns ||
		f.turns == 0 {
		t.Fatalf("%v: %q", f, bad)
	}
	db := look(t, path)
	defer db.Close()
	for _, query := range []string{
		"DELETE FROM rows WHERE rowid = (SELECT min(rowid) FROM rows)",
		"DELETE FROM packs WHERE session = (SELECT max(session) FROM packs)",
		"UPDATE packs SET body = x'00' WHERE session = (SELECT max(session) FROM packs)",
	} {
		must.Get(db.ExecContext(t.Context(), query))(t)
	}
	l.scripts = l.scripts[1:]
	l.ack([]spanKey{{1}}, 0)
	f, bad := inspectDatabase(t, path, l, nil)
	if f.lost != 2 {
		t.Errorf("%d spans are lost, not 2", f.lost)
	}
	all := strings.Join(bad, "\n")
	for _, want := range []string{"2 of ", "was never sent", "read blocks", "bodies are in packs", "pack 1: bad pack"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing says %q:\n%.2000s", want, all)
		}
	}
}
