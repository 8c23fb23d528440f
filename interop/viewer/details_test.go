package viewer

import (
	"path/filepath"
	"strings"
	"testing"
)

// The session and the diff are headed by what somebody named them; where nobody did, by their ids.
func TestTitles(t *testing.T) {
	db := filepath.Join(t.TempDir(), "titles.db")
	events := long("ranges", 2)
	lines(t, db, append(events, event{"type": "otelagent.fact_stated", "ts": at(9), "session": "ranges", "facts": []event{{"subject": "session", "key": "title", "value": "Fix range test"}}}))
	lines(t, db, long("unnamed", 2))
	server := serve(t, db)
	b := open(t, server, path("s", "ranges"), desk)
	b.until("the heading is the title", within(testid("session-title"))+" === 'Fix range test'")
	if got := js[string](b, "document.title"); !strings.HasPrefix(got, "Fix range test") {
		t.Errorf("the tab is titled %q", got)
	}
	b = open(t, server, "/diff?a=ranges&b=unnamed", desk)
	b.until("the diff says both", within(testid("diff-side")+" h2 a")+" === 'Fix range test' && document.querySelectorAll('"+testid("diff-side")+"')[1].querySelector('h2 a').innerText === 'unnamed'")
	b.accessible()
}
