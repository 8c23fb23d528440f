package inspect

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
	"github.com/otelagent/otelagent/store/stats"
)

// header is what there is to know of the session before its runs.
func (r *renderer) header() {
	s := r.main.Session
	turns, calls, failed, denied, inputs, compactions := 0, 0, 0, 0, 0, 0
	permissions := func(l []*session.Permission) {
		for _, q := range l {
			if q.Action == spans.ActionDeny && q.Target == spans.PermissionTargetInput {
				inputs++
			}
		}
	}
	statuses := map[spans.RunStatus]int64{}
	for _, run := range s.Runs {
		turns += len(run.Turns)
		permissions(run.Permissions)
		compactions += len(run.Compactions)
		for _, t := range run.Turns {
			compactions += len(t.Compactions)
			permissions(t.Permissions)
		}
		for _, c := range allCalls(run) {
			calls++
			permissions(c.Permissions)
			switch c.Outcome {
			case spans.OutcomeError:
				failed++
			case spans.OutcomeDenied:
				denied++
			}
		}
		if run.Status != spans.RunStatusCompleted && run.Status != "" {
			statuses[run.Status]++
		}
	}
	var unfinished []string
	for _, st := range slices.Sorted(maps.Keys(statuses)) {
		unfinished = append(unfinished, count(statuses[st], Clean(string(st))))
	}
	id := Clean(s.ID)
	if s.MadeUp {
		id += " (made up: the producer named none)"
	}
	r.d.put(dim, padRight("session", labelWidth+1))
	r.d.put(bold, cut(id, r.o.Width-labelWidth-1))
	r.d.flush()
	if title := r.fact("title"); title != "" {
		r.d.field("title", cut(Clean(title), r.o.Width-labelWidth-1))
	}
	if s.Tenant != "" {
		r.d.field("tenant", Clean(s.Tenant))
	}
	r.d.field("status", words(string(s.StatusAt(r.o.AsOf))), plural(len(s.Runs), "run")+among(unfinished...),
		plural(turns, "turn"), plural(calls, "tool call")+among(count(int64(failed), "failed"), count(int64(denied), "denied")),
		suffixed(some(inputs, "input"), " denied"), some(compactions, "compaction"))
	agent := s.Agent
	if agent == "" {
		agent = s.AgentID
	}
	service := s.Service
	if strings.HasPrefix(service, "unknown_service") { // what an SDK says when nobody named it
		service = ""
	}
	if service == s.Dialect || service == agent {
		service = ""
	}
	r.d.field("agent", Clean(agent), Clean(s.Dialect), Clean(service))
	r.d.field("time", r.period(s.Start, s.Last), took(s.Start, s.Last), ago(s.Last, r.o.Now))
	r.d.field("tokens", append(usageWords(s.Usage), cacheIdle(s))...)
	if s.Discarded != nil {
		r.d.field("", append([]string{"and in discarded attempts"}, usageWords(*s.Discarded)...)...)
	}
	if n, u := r.others(); n > 0 {
		r.d.field("", append([]string{"and in " + plural(n, "sub-agent session")}, usageWords(u)...)...)
	}
	r.d.field("cost", r.costs()...)
	for _, run := range s.Runs {
		if run.ParentSessionID != "" && run.ParentSessionID != s.ID {
			r.d.field("parent", "session "+Clean(run.ParentSessionID), prefixed("run ", Clean(run.ParentID)))
			break
		}
	}
	r.historyFields()
	r.facts()
	for _, def := range s.Defects {
		for i, line := range wrap(defectText(def), r.o.Width-labelWidth-1, maxWrap) {
			r.d.field([]string{defectLabel(def), " "}[min(i, 1)], line)
		}
	}
}

// mostForks bounds how many forks and messages of the queue are named.
const mostForks = 8

// historyFields say where the session was forked from, which were forked from it, and what waits in its queue.
func (r *renderer) historyFields() {
	h := r.history(r.main)
	if f := h.Fork; f != nil {
		r.d.field("forked", "from session "+Clean(f.Session), prefixed("at message ", Clean(f.Message)))
	}
	for i, f := range r.o.Forks {
		if i == mostForks {
			r.d.field("", "and "+plural(len(r.o.Forks)-i, "more fork"))
			break
		}
		r.d.field("fork", "session "+Clean(f.ID), plural(int(f.Turns), "turn"), words(string(f.StatusAt(r.o.AsOf))))
	}
	var waiting []string
	for i, m := range h.Waiting() {
		if i == mostForks {
			waiting = append(waiting, "…")
			break
		}
		waiting = append(waiting, Clean(m.ID)+" since "+r.clock(m.Queued))
	}
	r.d.field("queue", append([]string{suffixed(some(len(waiting), "message"), " waiting")}, waiting...)...)
}

// mostFacts bounds the facts that are shown.
const mostFacts = 8

// facts are the facts that count, but for the title and for the rows of a producer, which exports give back.
func (r *renderer) facts() {
	s, n := r.main.Session, 0
	for i := range s.Facts {
		f := &s.Facts[i]
		if f.Key == session.FactTitle || f.Key == factRules || ofHistory(f) || strings.HasPrefix(f.Key, "guide.") || s.Fact(f.Subject, f.Key) != f {
			continue
		}
		if n++; n > mostFacts {
			continue
		}
		subject := ""
		if f.Subject != "session" {
			subject = f.Subject + " "
		}
		value := ""
		if f.Value != nil {
			if body, ok := r.main.Blocks.Body(*f.Value); ok {
				value = " " + body
			}
		}
		r.d.field("fact", cut(Clean(subject+f.Key+value), r.o.Width-labelWidth-1))
	}
	if n > mostFacts {
		r.d.field("", "and "+plural(n-mostFacts, "more fact"))
	}
}

// ofHistory tells of facts about messages that were rewound or wait: what they come to is shown.
func ofHistory(f *session.Fact) bool {
	if !strings.HasPrefix(f.Subject, session.SubjectMessage) {
		return false
	}
	return f.Key == session.FactHidden || f.Key == session.FactQueued || f.Key == session.FactCanceled
}

// fact returns what a fact of the session says, a string as it reads; empty when it was not stated, or not captured.
func (r *renderer) fact(key string) string {
	f := r.main.Fact("session", key)
	if f == nil || f.Value == nil {
		return ""
	}
	body, ok := r.main.Blocks.Body(*f.Value)
	if !ok || body == "null" {
		return ""
	}
	var text string
	if json.Unmarshal([]byte(body), &text) != nil {
		return body
	}
	return text
}

// others counts the sessions shown in place, and what they used.
func (r *renderer) others() (int, session.Usage) {
	var u session.Usage
	seen := map[*session.Session]bool{}
	for _, p := range r.runs {
		if p.tree.Session != r.main.Session && r.placed[p.run] {
			seen[p.tree.Session] = true
			u.Add(p.run.Usage)
		}
	}
	return len(seen), u
}

func (r *renderer) period(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	from, to = from.In(r.o.Location), to.In(r.o.Location)
	s := from.Format("2006-01-02 15:04:05")
	switch {
	case to.IsZero() || from.Format(time.DateTime) == to.Format(time.DateTime):
	case from.Format(time.DateOnly) == to.Format(time.DateOnly):
		s += to.Format(" – 15:04:05")
	default:
		s += to.Format(" – 2006-01-02 15:04:05")
	}
	return s + from.Format(" MST")
}

// cacheIdle points it out when nothing was read from a cache over several turns although their provider has one.
func cacheIdle(s *session.Session) string {
	turns, idle := 0, ""
	for _, run := range s.Runs {
		for _, t := range run.Turns {
			if t.Usage.CacheRead > 0 {
				return ""
			}
			if provider := cmp.Or(t.Provider, run.Provider); t.Usage.Input > 0 && stats.Caches(provider) {
				turns, idle = turns+1, provider
			}
		}
	}
	if turns < 2 {
		return ""
	}
	return "nothing read from a cache, though " + idle + " has one"
}

func usageWords(u session.Usage) []string {
	in := Count(u.Input) + " in" + among(count(u.CacheRead, "cache read"), count(u.CacheWrite, "cache write"))
	out := Count(u.Output) + " out" + among(count(u.Reasoning, "reasoning"))
	return []string{in, out}
}
