package store

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Archived says which sessions a Query selects of those that were archived and those that were not.
type Archived string

// The values of Archived. A session that was never projected is not archived.
const (
	ArchivedToo  Archived = "" // both
	ArchivedNot  Archived = "no"
	ArchivedOnly Archived = "only"
)

// Filters are the names that Query.Filter knows. Commands spell them with a hyphen in place of an underscore.
func Filters() []string { return slices.Clone(filterNames) }

var filterNames = []string{"q", "agent", "model", "status", "errors", "denied", "min_cost", "since", "until",
	"archived",
	"parent", "forked_from", "limit", "after"}

// ErrFilter is wrapped by errors of Query.Filter about a name that it does not know.
var ErrFilter = errors.New("no such filter")

// Filter sets one filter of a list, in the spelling of command flags and URLs. An empty value changes nothing. Ages
// count back from now.
//
//   - q is Search; agent, model, parent and forked_from are what their fields say
//   - status is one status or several with commas between, of which any will do
//   - errors and denied are 1 or true; 0 and false leave it as it is
//   - min_cost is a number above 0
//   - since and until are a date, a time in RFC 3339, or how long ago: 90m, 24h, 7d
//   - archived is include (or 1) for both, only, or exclude
//   - limit is a number above 0, after what Cursor.String wrote
//
// Errors say what is wanted and hold no more than 64 bytes of the value.
func (q *Query) Filter(name, value string, now time.Time) error {
	if !slices.Contains(filterNames, name) {
		return fmt.Errorf("%.64q: %w", name, ErrFilter)
	}
	if value == "" {
		return nil
	}
	bad := func(want string) error { return fmt.Errorf("%.64q: want %s", value, want) }
	yes := func(field *bool) (err error) {
		if *field, err = strconv.ParseBool(value); err != nil {
			return bad("1 or 0")
		}
		return nil
	}
	var err error
	switch name {
	case "q":
		q.Search = value
	case "agent":
		q.Agent = value
	case "model":
		q.Model = value
	case "parent":
		q.Parent = value
	case "forked_from":
		q.ForkedFrom = value
	case "status":
		for word := range strings.SplitSeq(value, ",") {
			if !slices.Contains(spans.SessionStatuses(), spans.SessionStatus(word)) {
				return bad("one of " + StatusWords())
			}
			q.Status = append(q.Status, spans.SessionStatus(word))
		}
		q.Now = now
	case "errors":
		return yes(&q.Errors)
	case "denied":
		return yes(&q.Denied)
	case "min_cost":
		cost, err := strconv.ParseFloat(value, 64)
		if err != nil || !(cost > 0) || math.IsInf(cost, 0) {
			return bad("a number above 0")
		}
		q.MinCost = cost
	case "since":
		q.Since, err = ParseTime(value, now)
	case "until":
		q.Until, err = ParseTime(value, now)
	case "archived":
		values := map[string]Archived{"include": ArchivedToo, "1": ArchivedToo, "only": ArchivedOnly, "exclude": ArchivedNot}
		archived, ok := values[value]
		if !ok {
			return bad("exclude, include or only")
		}
		q.Archived = archived
	case "limit":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return bad("a number above 0")
		}
		q.Limit = n
	case "after":
		c, err := ParseCursor(value)
		if err != nil {
			return err
		}
		q.After = &c
	}
	return err
}

// StatusWords are the values of the filter status, with commas between them.
func StatusWords() string {
	var words []string
	for _, s := range spans.SessionStatuses() {
		words = append(words, string(s))
	}
	return strings.Join(words, ", ")
}

// ParseTime reads a date, a time in RFC 3339 or without a zone (then local), or how long before now (ParseAge). The
// error names the text, at most 64 bytes of it, and what is wanted.
func ParseTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	d, err := ParseAge(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%.64q: want a date, a time in RFC 3339, or how long ago: 90m, 24h, 7d", text)
	}
	return now.Add(-d), nil
}

// Matches reports whether the query selects a session by its summary: by the fields from ForkedFrom to Search.
// projected is false for a session that has no summary yet. storetest holds stores that ask an engine to the same.
func (q *Query) Matches(m *session.Summary, projected bool) bool {
	asked := q.Agent != "" || q.Model != "" || len(q.Status) > 0 || q.Errors || q.Denied || q.MinCost > 0 ||
		!q.Since.IsZero() || !q.Until.IsZero() || q.ForkedFrom != "" || q.Archived == ArchivedOnly
	switch {
	case !projected && asked,
		q.ForkedFrom != "" && m.ForkedFrom != q.ForkedFrom,
		q.Agent != "" && m.Agent != q.Agent && m.AgentID != q.Agent,
		q.Model != "" && m.Model != q.Model,
		len(q.Status) > 0 && !slices.Contains(q.Status, m.StatusAt(q.Now)),
		q.Errors && m.Errors <= 0,
		q.Denied && m.Denied <= 0,
		q.MinCost > 0 && m.Cost < q.MinCost,
		!q.Since.IsZero() && RankOf(m.Last) < RankOf(q.Since),
		!q.Until.IsZero() && RankOf(m.Start) >= RankOf(q.Until),
		m.Part && !q.Parts && !q.AllTenants,
		q.NotMapped != "" && (m.Mapped == "" || m.Mapped == q.NotMapped),
		q.Archived == ArchivedNot && m.Archived,
		q.Archived == ArchivedOnly && !m.Archived:
		return false
	case q.Search == "":
		return true
	}
	want := lowerASCII(q.Search)
	return slices.ContainsFunc([]string{m.ID, m.Title, m.Agent, m.AgentID, m.Model}, func(text string) bool {
		return strings.Contains(lowerASCII(text), want)
	})
}

// SQLNames are the expressions by which an engine of SQL names a session and its summary m, whose columns are
// SummaryColumns.
type SQLNames struct {
	ID string
	// Last is Cursor.Rank.
	Last string
	// Summarized says that there is a summary. Where there is none, columns of m are NULL, zero or empty.
	Summarized string
	// Contains, a format, says that a column has the text ? in it, as Query.Search wants.
	Contains string
}

// SQL returns the conditions of Matches, Stale excepted, and of Parent and After, for an engine of SQL: each ?
// stands for one of args, a string, int64 or float64. order is the list to order by.
func (q *Query) SQL(n SQLNames) (conditions []string, args []any, order string) {
	and := func(cond string, values ...any) { conditions, args = append(conditions, cond), append(args, values...) }
	for i, text := range []string{q.Parent, q.ForkedFrom, q.Model} {
		if text != "" {
			column := []string{"m.parent", "m.forked_from", "m.model"}[i]
			and(column+" = ? AND "+column+" <> ''", text) // the latter for an index
		}
	}
	if !q.Parts && !q.AllTenants {
		and("coalesce(m.part, 0) = 0")
	}
	if q.NotMapped != "" {
		and("m.mapped <> '' AND m.mapped <> ?", q.NotMapped)
	}
	if q.Agent != "" {
		and("(m.agent = ? OR m.agent_id = ?)", q.Agent, q.Agent)
	}
	const unknown = int64(math.MinInt64)
	if len(q.Status) > 0 {
		if q.OnlyOpen() { // as an index has it: one that is dead by now is none of these
			and("m.status IN ('busy', 'retrying', 'waiting_on_approval', 'waiting_on_user_input')")
		}
		status := "m.status"
		if !q.Now.IsZero() { // as session.Summary.StatusAt
			status = "CASE WHEN m.heartbeat_ns BETWEEN 1 AND ? AND coalesce(m.last_ns, ?) < ? - 3 * m.heartbeat_ns THEN " +
				"CASE m.settled WHEN '' THEN 'aborted' ELSE m.settled END ELSE m.status END"
			args = append(args, int64(math.MaxInt64/3), unknown, RankOf(q.Now)) // a difference of two times may overflow
		}
		var values []any
		for _, s := range q.Status {
			values = append(values, string(s))
		}
		and(status+" IN (?"+strings.Repeat(", ?", len(values)-1)+")", values...)
	}
	if q.Errors {
		and("m.errors > 0")
	}
	if q.Denied {
		and("m.denied > 0")
	}
	if q.MinCost > 0 {
		and("m.cost >= ?", q.MinCost)
	}
	if !q.Since.IsZero() {
		and(n.Summarized+" AND "+n.Last+" >= ?", RankOf(q.Since))
	}
	if !q.Until.IsZero() {
		and(n.Summarized+" AND coalesce(m.start_ns, ?) < ?", unknown, RankOf(q.Until))
	}
	switch q.Archived {
	case ArchivedNot:
		and("coalesce(m.archived, 0) = 0")
	case ArchivedOnly:
		and("m.archived = 1")
	}
	if q.Search != "" {
		var in []string
		for _, c := range []string{n.ID, "m.title", "m.agent", "m.agent_id", "m.model"} {
			in, args = append(in, fmt.Sprintf(n.Contains, c)), append(args, q.Search)
		}
		and("(" + strings.Join(in, " OR ") + ")")
	}
	before, after, order := "<", ">", n.Last+" DESC, "+n.ID
	if q.Oldest {
		before, after, order = ">", "<", n.Last+", "+n.ID+" DESC"
	}
	if c := q.After; c != nil && !q.AllTenants {
		and(n.Last+" "+before+"= ? AND ("+n.Last+" "+before+" ? OR "+n.ID+" "+after+" ?)", c.Rank(), c.Rank(), c.ID)
	}
	return conditions, args, order
}

// OnlyOpen reports whether Status selects only sessions of which something is open.
func (q *Query) OnlyOpen() bool {
	open := []spans.SessionStatus{spans.SessionStatusBusy, spans.SessionStatusRetrying,
		spans.SessionStatusWaitingOnApproval, spans.SessionStatusWaitingOnUserInput}
	return len(q.Status) > 0 &&
		!slices.ContainsFunc(q.Status, func(s spans.SessionStatus) bool { return !slices.Contains(open, s) })
}

// lowerASCII lowers the letters A to Z and keeps all other bytes.
func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// Behind reports whether a session comes after the cursor, in the order of lists or, where oldest says so, in the
// other.
func (c Cursor) Behind(o Cursor, oldest bool) bool {
	order := cmp.Or(cmp.Compare(c.Rank(), o.Rank()), strings.Compare(o.ID, c.ID)) // above 0: o comes later in the list
	if oldest {
		return order < 0
	}
	return order > 0
}

// Cursor is a place in the order of Store.Sessions, by which one page of a list follows another: a session that moved
// up meanwhile is in neither of them twice.
type Cursor struct {
	// Last is Summary.Last; ID that of the session.
	Last time.Time
	ID   string
	// New says that the session was never projected.
	New bool
}

// CursorOf returns the place of a session that Sessions yielded.
func CursorOf(m *session.Summary) Cursor {
	return Cursor{Last: m.Last, ID: m.ID, New: m.Last.IsZero() && m.Status == ""}
}

// Rank is what the order of lists goes by before the id: Last in unix nanoseconds, greatest first; the greatest integer
// for one that was never projected, the least for a zero time.
func (c Cursor) Rank() int64 {
	if c.New {
		return math.MaxInt64
	}
	return RankOf(c.Last)
}

// RankOf is Cursor.Rank of a session that was projected.
func RankOf(last time.Time) int64 {
	switch {
	case last.IsZero():
		return math.MinInt64
	case last.After(time.Unix(0, math.MaxInt64)):
		return math.MaxInt64
	case last.Before(time.Unix(0, math.MinInt64+1)):
		return math.MinInt64 + 1
	}
	return last.UnixNano()
}

// String writes the cursor for ParseCursor: Rank, or the word new, then a dot, and the id.
func (c Cursor) String() string {
	if c.New {
		return newWord + "." + c.ID
	}
	return strconv.FormatInt(c.Rank(), 10) + "." + c.ID
}

const newWord = "new"

// ParseCursor reads what String wrote. The error holds no more than 64 bytes of the text.
func ParseCursor(text string) (Cursor, error) {
	number, id, ok := strings.Cut(text, ".")
	c := Cursor{ID: id, New: number == newWord}
	if ok && c.New {
		return c, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || err != nil {
		return Cursor{}, fmt.Errorf("%.64q: want the cursor that an earlier page named as next", text)
	}
	if n != math.MinInt64 {
		c.Last = time.Unix(0, n).UTC()
	}
	return c, nil
}
