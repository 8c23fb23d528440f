package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/spans"
)

// header draws the properties of the session.
func (r *renderer) header() {
	s, d, h := r.main.Session, r.d, r.view(r.main).history
	id := Clean(s.ID)
	if s.MadeUp {
		id += " (generated: the producer named none)"
	}
	d.field("session", bold.of(cut(id, d.width-labelWidth-1)))
	d.field("title", Clean(s.Title(r.main.Blocks)))
	d.field("tenant", Clean(s.Tenant))
	d.field("status", r.counts()...)
	agent := cmp.Or(s.Agent, s.AgentID)
	service := s.Service
	if strings.HasPrefix(service, "unknown_service") || service == s.Dialect || service == agent {
		service = "" // an SDK says the first when nobody named it
	}
	if o := OriginOf(s); o != nil {
		d.field("from", Clean(o.Name), prefixed("not reported: ", Clean(strings.Join(o.Lacks, ", "))))
	}
	d.field("agent", cmp.Or(Clean(agent), "not named"), Clean(s.Dialect), Clean(service))
	d.field("time", r.times()...)
	d.field("tokens", knownUsage(s.UsageReported(), s.Usage)...)
	if s.Discarded != nil && *s.Discarded != (session.Usage{}) { // zero: none of the attempts reported usage
		d.field("", append([]string{"and in discarded attempts"}, usageWords(*s.Discarded)...)...)
	}
	if s.CompactionUsage != nil {
		d.field("", append([]string{"and in compactions"}, usageWords(*s.CompactionUsage)...)...)
	}
	if n, known, u := r.subAgents(); n > 0 {
		d.field("", append([]string{"and in " + plural(n, "sub-agent session")}, knownUsage(known, u)...)...)
	}
	d.field("cost", r.costs()...)
	for _, run := range s.Runs {
		if run.ParentSessionID != "" && run.ParentSessionID != s.ID {
			d.field("parent", "session "+Clean(run.ParentSessionID), prefixed("run ", Clean(run.ParentID)))
			break
		}
	}
	if f := h.Fork; f != nil {
		d.field("forked", "from session "+Clean(f.Session), prefixed("at message ", Clean(f.Message)))
	}
	for i, f := range r.o.Forks {
		if i == mostForks {
			d.field("", "and "+plural(len(r.o.Forks)-i, "more fork"))
			break
		}
		d.field("fork", "session "+Clean(f.ID), plural(int(f.Turns), "turn"), words(string(f.StatusAt(r.o.AsOf))))
	}
	d.field("queue", suffixed(some(len(h.Waiting()), "message"), " waiting"))
	d.defects(s.Defects)
}

// counts returns the status of the session, and how much there is of it.
func (r *renderer) counts() []string {
	s, n := r.main.Session, map[any]int{} // by kind, outcome, and what else is counted
	for k := range s.Walk() {
		switch kind := k.Kind(); {
		case kind == session.KindTurn && k.Turn.Utility():
			n["utility"]++
		case kind == session.KindPermission:
			if k.Permission.Action == spans.ActionDeny && k.Permission.Target == spans.PermissionTargetInput {
				n["input"]++
			}
		case kind == session.KindToolCall:
			n[k.Call.Outcome]++
			fallthrough
		default:
			n[kind]++
		}
	}
	statuses := map[spans.RunStatus]int64{}
	for _, run := range s.Runs {
		statuses[run.StatusAt(cmp.Or(r.o.AsOf, r.main.Last))]++
	}
	var unfinished []string
	for _, st := range slices.Sorted(maps.Keys(statuses)) {
		if st != spans.RunStatusCompleted && st != "" {
			unfinished = append(unfinished, count(statuses[st], Clean(string(st))))
		}
	}
	archived := ""
	if at := session.SinceOf(s.Fact(session.SubjectSession, session.FactArchived), r.main.Blocks); !at.IsZero() {
		archived = "archived " + r.since(at)
	}
	return []string{words(string(s.StatusAt(r.o.AsOf))), archived, plural(len(s.Runs), "run") + among(unfinished...),
		plural(n[session.KindTurn], "turn"), some(n["utility"], "utility call"),
		plural(n[session.KindToolCall], "tool call") +
			among(count(int64(n[spans.OutcomeError]), "failed"), count(int64(n[spans.OutcomeDenied]), "denied")),
		suffixed(some(n["input"], "input"), " denied"), some(n[session.KindCompaction], "compaction")}
}

// mostForks bounds the forks that have a name in the header.
const mostForks = 8

// costs sums up the costs of turns and compactions by currency, as reported and as computed, and says of how many.
func (r *renderer) costs() (out []string) {
	type kind [3]string // how it is known, currency, what it is of
	sums, of, without := map[kind]float64{}, map[kind]int{}, 0
	add := func(k kind, amount float64) { sums[k], of[k] = sums[k]+amount, of[k]+1 }
	for n := range r.main.Walk() {
		switch c := n.Compaction; {
		case n.Run.Copied:
		case c != nil && c.Cost != nil:
			add(kind{"reported", c.Currency, "compaction"}, *c.Cost)
		case n.Kind() == session.KindTurn:
			x := session.FiguresOfTurn("", n.Run, n.Turn)
			if x.Cost.OK {
				add(kind{"reported", x.Currency, "turn"}, x.Cost.V)
			}
			if r.o.Prices == nil || !x.Input.OK {
				break
			}
			if amount, ok := r.o.Prices.Cost(&x); ok {
				add(kind{"computed", stats.Currency, "turn"}, amount)
			} else {
				without++
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(sums), func(a, b kind) int { return slices.Compare(b[:], a[:]) }) {
		out = append(out, money(k[1], sums[k])+" "+k[0]+" for "+plural(of[k], k[2]))
	}
	return append(out, prefixed("no price for ", some(without, "turn")))
}

// subAgents counts the sessions of sub-agents that are shown, and their usage.
func (r *renderer) subAgents() (n int, known bool, u session.Usage) {
	seen := map[*session.Session]bool{}
	for _, p := range r.index.runs {
		if p.tree.Session != r.main.Session && r.placed[p.run] {
			seen[p.tree.Session] = true
			known = known || p.run.UsageReported()
			u.Add(p.run.Usage)
		}
	}
	return len(seen), known, u
}

// times returns when the session was and how long it took, as far as it is known.
func (r *renderer) times() []string {
	s, from := r.main.Session, r.main.StartKnown()
	switch last := ago(s.Last, r.o.Now); {
	case from && session.TimeKnown(s.Last):
		return []string{r.period(s.Start, s.Last), took(s.Start, s.Last), last}
	case from: // counted from the session's beginning, or from that of its process
		return []string{"dates not stated", took(s.Start, s.Last)}
	case session.TimeKnown(s.Last):
		return []string{"beginning not stated", "last seen " + r.period(s.Last, s.Last), last}
	}
	return []string{"not stated"}
}

func (r *renderer) period(from, to time.Time) string {
	from, to = from.In(r.o.Location), to.In(r.o.Location)
	begin, end := from.Format(time.DateTime), to.Format(time.DateTime)
	if begin == end {
		return begin + from.Format(" MST")
	}
	return begin + " – " + strings.TrimPrefix(end, from.Format(time.DateOnly+" ")) + from.Format(" MST")
}

// knownUsage is usageWords where tokens were reported.
func knownUsage(known bool, u session.Usage) []string {
	if !known {
		return []string{"not reported"}
	}
	return usageWords(u)
}

// tokenCount is a count of tokens; of a lower bound after the sign for that.
func tokenCount(lowerBound bool, n int64) string {
	if lowerBound {
		return "≥" + Count(n)
	}
	return Count(n)
}

func usageWords(u session.Usage) []string {
	in := tokenCount(u.LowerBound, u.Input) + " in" +
		among(count(u.CacheRead, "cache read"), count(u.CacheWrite, "cache write"))
	out := tokenCount(u.LowerBound, u.Output) + " out" + among(count(u.Reasoning, "reasoning"))
	return []string{in, out}
}
