package stats_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
)

// record puts every recording of phi-core into a store.
func record(t *testing.T, st store.Store) {
	t.Helper()
	for _, f := range phifixtures.All(t, "../../..") {
		p := agenttest.New(t, writer.WithDerivedIDs)
		play.Events(t, event.NewRecorder(p.Tracer()), phi.NewDecoder().Events(bytes.NewReader(f.Events)))
		must.Do(t, st.Put(t.Context(), p.Batch()))
	}
	must.Do(t, project.Refresh(t.Context(), st))
}

var sqliteBlock = regexp.MustCompile("(?s)```sql sqlite\n(.*?)```")

// Every statement of README.md for SQLite runs, and all but the one about cost find something in the recordings.
func TestDocs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	st := must.Get(sqlitestore.Open(t.Context(), path))(t)
	defer st.Close()
	record(t, st)
	page := must.Get(os.ReadFile("README.md"))(t)
	db := must.Get(sql.Open("sqlite", "file:"+path+"?mode=ro"))(t)
	defer db.Close()
	blocks := sqliteBlock.FindAllSubmatch(page, -1)
	if len(blocks) < 10 {
		t.Errorf("%d statements in README.md, want 10 or more", len(blocks))
	}
	for _, b := range blocks {
		rows, err := db.QueryContext(t.Context(), string(b[1]))
		if err != nil {
			t.Errorf("%v:\n%s", err, b[1])
			continue
		}
		n := 0
		for rows.Next() {
			n++
		}
		if err := rows.Err(); err != nil {
			t.Errorf("%v:\n%s", err, b[1])
		}
		_ = rows.Close()
		if n == 0 && !bytes.Contains(b[1], []byte("t.cost IS NOT NULL")) {
			t.Errorf("nothing found by\n%s", b[1])
		}
	}
	// The columns that the page names are those of the tables.
	for _, table := range store.FigureTables {
		for _, c := range table.Columns {
			if !bytes.Contains(page, []byte("`"+c+"`")) {
				t.Errorf("README.md does not name the column %s", c)
			}
		}
	}
}
