package store

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

func TestFilter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	cursor := Cursor{Last: time.Unix(0, 5).UTC(), ID: "a.b/c"}
	for _, c := range []struct {
		name, value string
		want        Query
	}{
		{"q", "Fix it", Query{Search: "Fix it"}},
		{"agent", "coder", Query{Agent: "coder"}},
		{"model", "opus", Query{Model: "opus"}},
		{"status", "busy,waiting_on_approval", Query{Status: []spans.SessionStatus{"busy", "waiting_on_approval"}, Now: now}},
		{"errors", "1", Query{Errors: true}},
		{"errors", "false", Query{}},
		{"denied", "true", Query{Denied: true}},
		{"min_cost", "0.5", Query{MinCost: 0.5}},
		{"since", "24h", Query{Since: now.Add(-24 * time.Hour)}},
		{"until", "2026-11-20T00:00:00Z", Query{Until: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}},
		{"archived", "1", Query{}},
		{"archived", "include", Query{}},
		{"archived", "exclude", Query{Archived: ArchivedNot}},
		{"archived", "only", Query{Archived: ArchivedOnly}},
		{"parent", "p", Query{Parent: "p"}},
		{"forked_from", "p", Query{ForkedFrom: "p"}},
		{"limit", "50", Query{Limit: 50}},
		{"after", cursor.String(), Query{After: &cursor}},
	} {
		var got Query
		if err := got.Filter(c.name, c.value, now); err != nil {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s=%s (-want +got):\n%s", c.name, c.value, diff)
		}
	}
	for _, name := range Filters() {
		var q Query
		if err := q.Filter(name, "", now); err != nil || !cmp.Equal(q, Query{}) {
			t.Errorf("%s without a value: %+v, %v", name, q, err)
		}
	}
	long := strings.Repeat("secret", 1000)
	for _, c := range []struct{ name, value, want string }{
		{"status", "sleeping", "want one of idle, busy"},
		{"status", "busy,", "want one of"},
		{"errors", "yes please", "want 1 or 0"},
		{"denied", long, "want 1 or 0"},
		{"min_cost", "-1", "want a number above 0"},
		{"min_cost", "NaN", "want a number above 0"},
		{"min_cost", "Inf", "want a number above 0"},
		{"since", "yesterday", "want a date"},
		{"until", long, "want a date"},
		{"archived", "maybe", "want exclude, include or only"},
		{"limit", "0", "want a number above 0"},
		{"after", long, "want the cursor that an earlier page named"},
		{"after", "x.y", "want the cursor that an earlier page named"},
	} {
		var q Query
		err := q.Filter(c.name, c.value, now)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 200 {
			t.Errorf("%s=%.20s: %v, want %s", c.name, c.value, err, c.want)
		}
		if q.MinCost != 0 || q.Limit != 0 || q.After != nil {
			t.Errorf("%s=%.20s left %+v", c.name, c.value, q)
		}
	}
	if err := new(Query).Filter("colour", "red", now); !errors.Is(err, ErrFilter) {
		t.Errorf("an unknown filter: %v", err)
	}
}

func TestCursor(t *testing.T) {
	for _, m := range []session.Summary{
		{Key: session.Key{ID: "new"}},
		{Key: session.Key{ID: "no time."}, Status: "idle"},
		{Key: session.Key{ID: ""}, Status: "idle", Last: time.Unix(0, -1).UTC()},
		{Key: session.Key{ID: "\x00\xff. "}, Last: time.Unix(0, math.MaxInt64).UTC()},
	} {
		c := CursorOf(&m)
		back, err := ParseCursor(c.String())
		if err != nil || back != c || c.New != (m.ID == "new") {
			t.Errorf("%+v: %+v, then %+v, %v", m, c, back, err)
		}
		if c.Behind(c, false) || c.Behind(c, true) {
			t.Errorf("%+v is behind itself", c)
		}
	}
	a, b := Cursor{Last: time.Unix(2, 0), ID: "a"}, Cursor{Last: time.Unix(1, 0), ID: "a"}
	if !a.Behind(b, false) || a.Behind(b, true) || b.Behind(a, false) || !b.Behind(a, true) {
		t.Error("the older one comes later, the other way round first")
	}
}
