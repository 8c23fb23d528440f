package agenttest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/search"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/internal/must"
)

var updateGuide = flag.Bool("update-guide", false, "write testdata/guide anew")

// compareGuide compares a text with a golden file of testdata/guide.
func compareGuide(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", "guide", name)
	if *updateGuide {
		must.Do(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got, -update-guide writes it anew):\n%s", golden, diff)
	}
}

// TestSearch finds texts and names where they are, alike in each store, and lists sessions by titles and relations that
// were projected. A text in a body that is made of others is found once, and not its pieces.
func TestSearch(t *testing.T) {
	row := func(kind, data string) string {
		return `{"type":"` + kind + `","data":{` + data + `"created_at":1795226300000,"updated_at":1795226300000}}` + "\n"
	}
	message := func(id, metadata, text string) string {
		return row("message", `"id":"`+id+`","session_id":"ses_queue","role":"user","metadata":`+metadata+`,`) +
			row("part", `"id":"p`+id+`","message_id":"`+id+`","index":0,`+
				`"data_json":"{\"type\":\"text\",\"text\":\"`+text+`\"}",`)
	}
	queued := row("session", `"id":"ses_queue","agent":"grida",`) +
		message("msg_w", `{"queued_at":1795226300000}`, "And later deploy it") +
		message("msg_x", `{"queued_at":1795226300001,"queue_canceled_at":1795226300002}`, "Not this, later")
	file := must.Get(sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "x.db")))(t)
	for _, st := range []store.Store{memstore.New(), file} {
		defer st.Close()
		phi := filepath.Join(repository, "dialects", "phi", "testdata")
		for _, b := range []session.Batch{
			importGuide(t, []byte(queued)), importGuide(t, guideFile(t, "session.jsonl")), importGuide(t,
				guideFile(t, "hosts.jsonl")),
			recordedFile(t, filepath.Join(phi, "phi-core-0.15.2", "revert.events.ndjson")),
			recordedFile(t, filepath.Join(phi, "sample-session.ndjson")),
		} {
			must.Do(t, st.Put(t.Context(), b))
		}
		must.Do(t, project.Refresh(t.Context(), st))
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
			res := must.Get(search.Run(t.Context(), st, o))(t)
			fmt.Fprintf(&got, "-- %+v: %d sessions, more %v --\n", o, res.Sessions, res.More)
			must.Do(t, inspect.Grep(&got, res.Hits, inspect.Options{Width: 80}))
		}
		for _, q := range []store.Query{{Search: "ranges"}, {Search: "ranges", Archived: store.ArchivedNot},
			{ForkedFrom: "ses_parent"}, {Parent: "ses_parent"}} {
			fmt.Fprintf(&got, "-- sessions: %q, archived %q, forked from %q, below %q --\n", q.Search, q.Archived,
				q.ForkedFrom, q.Parent)
			for s, err := range st.Sessions(t.Context(), q) {
				fmt.Fprintln(&got, s.ID, s.Title, err)
			}
		}
		compareGuide(t, "search.txt", got.String())
		res, err := search.Run(t.Context(), st, search.Options{Text: "e"})
		seen := map[string]bool{"": true} // of a permission, which has no body
		for _, h := range res.Hits {
			if key := h.Session + h.Block; h.Block != "" && seen[key] || h.Place == "of no place that arrived" {
				t.Errorf("%s at %s, block %s", h.Place, h.Address, h.Block)
			} else {
				seen[key] = true
			}
		}
		if _, none := search.Run(t.Context(), st, search.Options{}); !errors.Is(none, search.ErrText) || err != nil {
			t.Errorf("an empty text: %v, %v", none, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := search.Run(ctx, st, search.Options{Text: "reef"}); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
	}
}
