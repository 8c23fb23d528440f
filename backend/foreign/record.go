package foreign

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// record is one foreign row as its source reads it.
type record struct {
	row   *session.Row
	src   *Source
	rule  *rule
	role  role
	sig   Signal
	log   bool        // a log record, or an event of a span
	key   session.Key // session that it belongs to
	named bool        // its own id says so, later also that of a record around it, or of a turn in a run
	start int64       // unix ns
	end   int64       // 0: unknown
	order int64
	usage *spans.Usage
	id    string // of the call: of a turn that of the reply

	up      *record // nearest record around it
	kids    int
	visit   int // of the walk along up that came here first
	depth   int
	in      *record // the run or tool call around it
	inTurn  *record // the turn around it, within that
	inKey   string  // a key of a run between them
	same    *record // of a tool record: the outermost one of the same call
	hidden  bool    // spans of this format say it better
	utility bool    // a record around says so
	run     *run
	call    *call
}

type spanKey struct {
	trace session.TraceID
	span  session.SpanID
}

// read reads the row by the rules of a table; it returns false if these have no role for it.
func (r *record) read(t *Table) bool {
	row, sig := r.row, Signal(r.row.Attr(SignalKey).Str())
	r.sig, r.log, r.key, r.src = sig, sig != Span, row.Session, t.source(row)
	if r.src != nil {
		get := func(key string) session.Value { return row.Attr(attribute.Key(key)) }
		r.rule = r.src.rule(sig, row.Attr(NameKey).Str(), get)
	}
	if r.rule == nil {
		return false
	}
	r.role, r.named = r.rule.Role, !strings.HasPrefix(row.Session.ID, tracePrefix)
	r.order = r.value("order").IntOr(row.Seq)
	r.start, r.end = row.Start, row.End
	if r.log {
		if r.start == 0 {
			r.start = timeOf(r.value("time"))
		}
		r.end = r.start
		if r.role == roleTurn || r.role == roleTool || r.role == roleCompaction { // it is at the end of what took time
			if d, ok := r.value("duration_ms").Double(); ok && d > 0 && d < 1e12 {
				r.start = max(r.start-int64(d*1e6), min(r.start, 1))
			}
		}
	}
	if r.role == roleTurn || r.isRun() {
		r.readUsage()
	}
	if r.id = r.text("call"); r.role == roleTurn || r.role == roleContent {
		r.id = r.text("response")
	}
	return true
}

func (r *record) isRun() bool { return r.role == roleRun || r.role == roleWrapper }

// value returns the first attribute of a field that is present and not empty; the zero Value if there is none.
func (r *record) value(f field) session.Value {
	for _, k := range r.src.keys[f] {
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

// member returns the number or string at a path of names with dots in a JSON object.
func member(object, path string) session.Value {
	var v any
	_ = json.Unmarshal([]byte(object), &v) // of what is no JSON there is no member
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	switch v := v.(type) {
	case string:
		return session.StringValue(v)
	case float64:
		return session.DoubleValue(v)
	}
	return session.Value{}
}

// usageFields are those of spans.Usage, in the order of turnUsage.
var usageFields = [5]field{"input", "output", "reasoning", "cache_read", "cache_write"}

// usageRule is how the record reports counts.
func (r *record) usageRule() spans.UsageRule { return cmp.Or(r.rule.Usage, r.src.Usage) }

// readUsage reads the counts of a record, normalised by the rule of its source: input with cache, output with
// reasoning. Without input and output it has none.
func (r *record) readUsage() {
	u, known := &spans.Usage{Rule: r.usageRule()}, false
	for i, n := range []*int64{&u.Input, &u.Output, &u.Reasoning, &u.CacheRead, &u.CacheWrite} {
		if found, ok := r.value(usageFields[i]).Int(); ok && found >= 0 {
			*n = min(found, 1<<50) // sums stay in range
			known = known || i < 2
		}
	}
	if known {
		r.usage = new(u.Normalised())
	}
}

// compareRecords orders records by time, then by their own order, then by id.
func compareRecords(a, b *record) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.order, b.order), cmp.Compare(a.end, b.end),
		slices.Compare(a.row.Trace[:], b.row.Trace[:]), slices.Compare(a.row.Span[:], b.row.Span[:]))
}

// spansFirst orders records of spans before those of logs.
func spansFirst(a, b *record) int { return cmp.Compare(bit(a.log), bit(b.log)) }

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
var placeholders = []string{ItemOf("<REDACTED>"), ItemOf("[REDACTED]"), ItemOf("")}

// ItemOf returns the item of a list for a body.
func ItemOf(body string) string {
	return (&spans.Item{Block: spans.BlockOfString(body).Short()}).Encode()
}

// success returns whether a call succeeded, if the record says so.
func (r *record) success() (ok, known bool) {
	if code, has := r.value("exit").Int(); has && code != 0 {
		return false, true
	}
	switch strings.ToLower(r.text("success")) {
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
	switch word := strings.ToLower(r.text("decision")); {
	case slices.Contains([]string{"accept", "accepted", "allow", "allowed", "auto_accept", "modify"}, word),
		strings.HasPrefix(word, "approved"):
		return spans.ActionAllow
	case slices.Contains([]string{"reject", "rejected", "deny", "denied", "abort", "timed_out", "cancel"}, word):
		return spans.ActionDeny
	}
	return ""
}

// timeOf reads a time: RFC 3339, or unix seconds, milliseconds, microseconds or nanoseconds, by their size.
func timeOf(v session.Value) int64 {
	if at, err := time.Parse(time.RFC3339Nano, v.Str()); err == nil && at.Year() > 1970 && at.Year() < 2262 {
		return at.UnixNano()
	}
	n, _ := v.Double()
	for _, unit := range []float64{1e9, 1e6, 1e3, 1} {
		if ns := n * unit; ns > 1e17 && ns < 9e18 { // 1973 to 2255
			return int64(ns)
		}
	}
	return 0
}
