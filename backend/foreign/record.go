package foreign

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// record is one foreign row as its source reads it.
type record struct {
	row    *session.Row
	src    *Source
	rule   *rule
	role   role
	log    bool // a log record, or an event of a span
	event  bool
	key    session.Key // session that it belongs to
	named  bool        // its own id says so
	start  int64       // unix ns
	end    int64       // 0: unknown
	bound  bool        // the record has no time
	order  int64
	up     *record // nearest record around it
	kids   int
	depth  int
	near   *session.Key // that the nearest record around names, or it does
	in     *record      // the run or tool call around it
	inTurn *record      // the turn around it, within that
	inKey  string       // a key of a run between them
	same   *record      // of a tool record: the outermost one of the same call
	hidden bool         // spans of this format say it better
	// utility reports that a record around says so.
	utility bool
	run     *run
	call    *call
	usage   *spans.Usage
}

type spanKey struct {
	trace session.TraceID
	span  session.SpanID
}

// newRecord reads a row; nil if the rules of today have no role for it.
func (t *Table) newRecord(row *session.Row) *record {
	name, sig := row.Attr(NameKey).Str(), Span
	switch row.Attr(SignalKey).Str() {
	case Log.String():
		sig = Log
	case SpanEvent.String():
		sig = SpanEvent
	}
	r := &record{row: row, src: t.byName[row.Attr(SourceKey).Str()], log: sig != Span, event: sig == SpanEvent}
	if r.src != nil {
		r.rule = r.src.rule(sig, name, func(key string) session.Value { return row.Attr(attribute.Key(key)) })
	}
	if r.rule == nil {
		return nil
	}
	r.role, r.key = r.rule.role, row.Session
	r.named = !strings.HasPrefix(row.Session.ID, tracePrefix)
	r.order = r.int(fieldOrder)
	r.start, r.end = row.Start, row.End
	if r.log {
		if r.start == 0 {
			r.start = timeOf(r.value(fieldTime))
		}
		r.end = r.start
		if d, ok := r.value(fieldDuration).Double(); ok && d > 0 && d < 1e12 && r.spansTime() {
			r.start = max(r.start-int64(d*1e6), min(r.start, 1))
		}
	}
	r.bound = r.end == 0 && r.start == 0
	if r.role == roleTurn || r.role == roleRun || r.role == roleWrapper {
		r.usage = r.counts()
	}
	return r
}

// spansTime reports whether the time of a log record is the end of something that took time.
func (r *record) spansTime() bool {
	return r.role == roleTurn || r.role == roleTool || r.role == roleCompaction
}

// value returns the first attribute of a field that is present and not empty; the zero Value if there is none.
func (r *record) value(f field) session.Value {
	for i := range r.src.keys[f] {
		k := &r.src.keys[f][i]
		v := r.row.Attr(attribute.Key(k.attr))
		if k.member != "" {
			v = member(v.Str(), k.member)
		}
		if v.Type() != session.TypeString && !v.IsZero() || v.Str() != "" {
			return v
		}
	}
	return session.Value{}
}

func (r *record) text(f field) string { return r.value(f).Text() }

func (r *record) int(f field) int64 {
	n, _ := count(r.value(f))
	return n
}

// member returns a number or string of a JSON object.
func member(object, name string) session.Value {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &m) != nil {
		return session.Value{}
	}
	raw := string(m[name])
	if raw == "" || raw == "null" || raw[0] == '{' || raw[0] == '[' {
		return session.Value{}
	}
	var s string
	if json.Unmarshal([]byte(raw), &s) == nil {
		raw = s
	}
	return session.StringValue(raw)
}

// count reads a count: an int, a double without fraction, or either as text.
func count(v session.Value) (int64, bool) {
	if n, ok := v.Int(); ok {
		return n, n >= 0
	}
	if f, ok := v.Double(); ok && f >= 0 && f < 1<<53 && f == float64(int64(f)) {
		return int64(f), true
	}
	return 0, false
}

// counts returns the counts of a record normalised by the rule of its source: input with cache, output with reasoning.
// It returns nil if the record has neither input nor output.
func (r *record) counts() *spans.Usage {
	in, hasIn := count(r.value(fieldInput))
	out, hasOut := count(r.value(fieldOutput))
	if !hasIn && !hasOut {
		return nil
	}
	u := &spans.Usage{Input: in, Output: out, Reasoning: r.int(fieldReasoning),
		CacheRead: r.int(fieldCacheRead), CacheWrite: r.int(fieldCacheWrite)}
	const most = 1 << 50 // sums stay in range
	for _, n := range []*int64{&u.Input, &u.Output, &u.Reasoning, &u.CacheRead, &u.CacheWrite} {
		*n = min(*n, most)
	}
	if r.src.rule1 == spans.UsageRuleExcludesCache || r.src.rule1 == spans.UsageRuleExcludesCacheAndReasoning {
		u.Input += u.CacheRead + u.CacheWrite
	}
	if r.src.rule1 == spans.UsageRuleExcludesReasoning || r.src.rule1 == spans.UsageRuleExcludesCacheAndReasoning {
		u.Output += u.Reasoning
	}
	return u
}

// reporter is what one program reports a turn or tool call by, at most once: a rule of a source.
func (r *record) reporter() reporter { return reporter{r.src, r.rule.id} }

type reporter struct {
	src  *Source
	rule int
}

// less orders records by time, then by their own order, then by id.
func compareRecords(a, b *record) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.order, b.order), cmp.Compare(a.end, b.end),
		slices.Compare(a.row.Trace[:], b.row.Trace[:]), slices.Compare(a.row.Span[:], b.row.Span[:]))
}

// items returns the items of the list of a field as the row has them; nil if it has none, or only a placeholder.
func (r *record) items(f field) []string {
	for _, k := range r.src.keys[f] {
		for i := range r.row.Lists {
			l := &r.row.Lists[i]
			if l.Name == k.attr && len(l.Items) > 0 && !slices.Contains(placeholders, l.Items[0]) {
				return l.Items
			}
		}
	}
	return nil
}

// placeholders are the items of words that stand for content that the source withheld.
var placeholders = func() (out []string) {
	for _, word := range []string{"<REDACTED>", "[REDACTED]", ""} {
		out = append(out, ItemOf(word))
	}
	return out
}()

// ItemOf returns the item of a list for a body.
func ItemOf(body string) string {
	return (&spans.Item{Block: spans.BlockOfString(body).Short()}).Encode()
}

// success returns whether a call succeeded, if the record says so.
func (r *record) success() (ok, known bool) {
	if code, has := r.value(fieldExit).Int(); has && code != 0 {
		return false, true
	}
	switch strings.ToLower(r.text(fieldSuccess)) {
	case "true", "success", "ok", "completed":
		return true, true
	case "false", "error", "failed", "failure":
		return false, true
	}
	stated, _ := r.row.Attr(StatusOKKey).Bool()
	return stated && !r.row.Failed, stated || r.row.Failed
}

// action returns what a permission decided; "" where the source does not say, or nobody was asked.
func (r *record) action() spans.Action {
	word := strings.ToLower(r.text(fieldDecision))
	switch {
	case slices.Contains(allowed, word), strings.HasPrefix(word, "approved"):
		return spans.ActionAllow
	case slices.Contains(refused, word):
		return spans.ActionDeny
	}
	return ""
}

var (
	allowed = []string{"accept", "accepted", "allow", "allowed", "auto_accept", "modify"}
	refused = []string{"reject", "rejected", "deny", "denied", "abort", "timed_out", "cancel"}
)
