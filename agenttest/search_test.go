package agenttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/search"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// searched are sessions of the guide and of phi-core, whose requests are made by recipes in part.
func searched(t *testing.T, st store.Store) {
	t.Helper()
	const queued = `{"type":"session","data":{"id":"ses_queue","agent":"grida","model_json":"{}","parent_id":null,"permissions_json":"[]","metadata_json":"{}","created_at":1795226300000,"updated_at":1795226300000}}
{"type":"message","data":{"id":"msg_w","session_id":"ses_queue","role":"user","metadata_json":"{\"queued_at\":1795226300000}","created_at":1795226300000,"updated_at":1795226300000}}
{"type":"part","data":{"id":"prt_w","message_id":"msg_w","session_id":"ses_queue","index":0,"type":"text","data_json":"{\"type\":\"text\",\"text\":\"And later deploy it\"}","tool_call_id":null,"tool_state":null,"created_at":1795226300000,"updated_at":1795226300000}}
{"type":"message","data":{"id":"msg_x","session_id":"ses_queue","role":"user","metadata_json":"{\"queued_at\":1795226300001,\"queue_canceled_at\":1795226300002}","created_at":1795226300001,"updated_at":1795226300001}}
{"type":"part","data":{"id":"prt_x","message_id":"msg_x","session_id":"ses_queue","index":0,"type":"text","data_json":"{\"type\":\"text\",\"text\":\"Not this, later\"}","tool_call_id":null,"tool_state":null,"created_at":1795226300001,"updated_at":1795226300001}}
`
	for _, b := range []session.Batch{
		importGuide(t, []byte(queued)), importGuide(t, guideFile(t, "session.jsonl")), importGuide(t, guideFile(t, "hosts.jsonl")),
		recordedFile(t, filepath.Join(repository, "dialects", "phi", "testdata", "phi-core-0.15.2", "revert.events.ndjson")),
		recordedFile(t, filepath.Join(repository, "dialects", "phi", "testdata", "sample-session.ndjson")),
	} {
		if err := st.Put(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := project.Refresh(t.Context(), st); err != nil {
		t.Fatal(err)
	}
}

// TestSearch finds what was said, and names where, alike in each store.
func TestSearch(t *testing.T) {
	file, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []struct {
		name string
		store.Store
	}{{"memstore", memstore.New()}, {"sqlitestore", file}} {
		t.Run(st.name, func(t *testing.T) {
			defer st.Close()
			searched(t, st)
			var got strings.Builder
			for _, o := range []search.Options{
				{Text: "reef"},
				{Text: "REEF", IgnoreCase: true, Limit: 2},
				{Text: `command: cargo test( -p \w+)?`, Regexp: true},
				{Text: "Ranges, again"},
				{Text: "later"},
				{Text: "plan", Session: "031bdb7f-05e5-4cb2-87b2-ba3d2847921d"},
				{Text: "no such words"},
			} {
				res, err := search.Run(t.Context(), st, o)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "-- %+v: %d sessions, more %v --\n", o, res.Sessions, res.More)
				if err := inspect.Grep(&got, res.Hits, inspect.Options{Width: 80}); err != nil {
					t.Fatal(err)
				}
			}
			golden := filepath.Join("testdata", "guide", "search.txt")
			if *updateGuide {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("%s (-want +got, -update-guide writes it anew):\n%s", golden, diff)
			}
			for i, line := range strings.Split(got.String(), "\n") {
				if len([]rune(line)) > 80 && strings.HasPrefix(line, "    ") {
					t.Errorf("line %d has more than 80 columns", i+1)
				}
			}
			if _, err := search.Run(t.Context(), st, search.Options{}); !errors.Is(err, search.ErrText) {
				t.Errorf("an empty text: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := search.Run(ctx, st, search.Options{Text: "reef"}); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
}

// TestSearchMadeBodies finds text in a body that is made of others, once, and not its pieces.
func TestSearchMadeBodies(t *testing.T) {
	st := memstore.New()
	defer st.Close()
	b := recordedFile(t, filepath.Join(repository, "dialects", "phi", "testdata", "sample-session.ndjson"))
	if !slices.ContainsFunc(b.Blocks, func(k session.Block) bool { return !spans.IsPlain(k.Body) }) {
		t.Fatal("no templates in the recording")
	}
	if err := st.Put(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, s := range session.AssembleAll(b.Rows) {
		res, err := search.Run(t.Context(), st, search.Options{Text: "e", Session: s.ID})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, h := range res.Hits {
			if h.Block == "" {
				continue // of a permission, which is no body
			}
			if seen[h.Block] || h.Place == "of no place that arrived" {
				t.Errorf("%s: %s at %s, block %s", s.ID, h.Place, h.Address, h.Block)
			}
			seen[h.Block] = true
		}
	}
}

// TestProjectedTitles projects titles and what is archived, by which lists are asked.
func TestProjectedTitles(t *testing.T) {
	st := memstore.New()
	defer st.Close()
	searched(t, st)
	for _, c := range []struct {
		q    store.Query
		want string
	}{
		{store.Query{Search: "ranges"}, "ses_fork:Ranges, again ses_parent:Ranges "},
		{store.Query{Search: "ranges", Archived: store.ArchivedNot}, "ses_fork:Ranges, again "},
		{store.Query{ForkedFrom: "ses_parent"}, "ses_fork:Ranges, again "},
		{store.Query{Parent: "ses_parent"}, "ses_child: "},
	} {
		got := ""
		for s, err := range st.Sessions(t.Context(), c.q) {
			if err != nil {
				t.Fatal(err)
			}
			got += s.ID + ":" + s.Title + " "
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
}

// TestSearchWhatIsOpen finds what came in of a reply that is going on, by the session and among all, also before anything was projected.
func TestSearchWhatIsOpen(t *testing.T) {
	p := agenttest.NewLive(t, content, partly)
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{})
	turn.Partial(writer.PartialText, []byte("half a sentence"))
	var batch session.Batch
	p.When(func(all []*session.Session, b session.Batch) bool {
		batch = b
		return len(all) == 1 && lastTurn(all[0]) != nil && lastTurn(all[0]).Partial
	})
	st := memstore.New()
	defer st.Close()
	if err := st.Put(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, o := range []search.Options{{Text: "half a"}, {Text: "half a", Session: "s"}} {
			res, err := search.Run(t.Context(), st, o)
			if err != nil || len(res.Hits) != 1 || res.Hits[0].Address != "s/@1/0" || res.Hits[0].Place != "reply" {
				t.Errorf("%+v: %+v, %v", o, res, err)
			}
		}
		if err := project.Refresh(t.Context(), st); err != nil {
			t.Fatal(err)
		}
	}
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
}
