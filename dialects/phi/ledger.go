package phi

import (
	"slices"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Fields of phi-core's records.
var (
	sessionFields = []string{
		"session_id", "agent_id", "created_at", "last_active_at", "formation", "parent_spawn_ref",
		"scope", "loops", "model_config",
	}
	loopFields = []string{
		"loop_id", "session_id", "agent_id", "parent_loop_id", "continuation_kind", "started_at", "ended_at", "status",
		"rejection", "config", "messages", "turns", "usage", "metadata", "events", "children_loop_ids", "child_loop_refs",
		"parallel_group", "compaction_block",
	}
	turnFields = []string{
		"turn_id", "triggered_by", "usage", "input_messages", "output_message", "tool_results", "started_at", "ended_at",
		"request_payload",
	}
	refFields   = []string{"tool_call_id", "tool_name", "child_loop_id", "child_session_id"}
	groupFields = []string{"all_loop_ids", "selected_loop_id", "selected_config_index", "evaluation_usage", "is_selected"}
)

// session is one session of a ledger.
type session struct {
	*object.Object
	path, id string
	loops    []*loop
	spawn    spawnRef
	// groups are the runs by the group that they name.
	groups map[string][]*loop
}

// loop is the record of one run.
type loop struct {
	path  string
	raw   []byte
	start time.Time
	id    string
	group []byte // its parallel_group
	done  bool
	// grouped says that its group was read, and all of it.
	grouped bool
}

// spawnRef says which run spawned the session.
type spawnRef struct{ session, loop, call string }

// session reads a ledger. Its runs come in the order of their starts. It is broken when the document ends in or
// behind it too early.
func (d *Decoder) session(path string, raw []byte, broken bool) {
	d.shell.Stats.Lines++
	s := &session{Object: object.Of(path, raw), path: path, groups: make(map[string][]*loop)}
	once(s.Object)
	s.id = s.String("session_id")
	d.runs.meet(s.id)
	s.readLoops()
	if len(s.loops) == 0 && !broken {
		s.Require("session_id")
	}
	if !d.shell.RejectProblems("", s.Object) {
		d.shell.Stats.Events++
	}
	for _, p := range s.loops {
		if d.shell.Stopped() {
			return
		}
		if !p.done && !d.group(s, p) {
			d.loop(s, p)
		}
	}
	d.sessionFacts(s)
}

// readLoops finds the runs of the session.
func (s *session) readLoops() {
	for i, raw := range s.List("loops") {
		if raw[0] != '{' {
			s.Fail(elementAt("loops", i), "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		p := &loop{path: elementAt(member(s.path, "loops"), i), raw: raw}
		o := object.Of("", raw) // problems are those of its reader
		p.id, p.start = word(o.Raw("loop_id")), timeOf(o.Raw("started_at"))
		if group := o.Raw("parallel_group"); group != nil && group[0] == '{' {
			p.group = group
		}
		s.loops = append(s.loops, p)
	}
	slices.SortStableFunc(s.loops, func(a, b *loop) int {
		if a.start.IsZero() != b.start.IsZero() { // those without a start come last
			return b.start.Compare(a.start)
		}
		return a.start.Compare(b.start)
	})
	for _, p := range s.loops {
		if p.group != nil {
			name := groupOf(p.group)
			s.groups[name] = append(s.groups[name], p)
		}
	}
	// A parent that is a run of this very session did not spawn it: phi-core takes the text before the first dot of a
	// parent's id for its session, which is wrong where session ids have dots.
	if ref := object.Of("", s.Raw("parent_spawn_ref")); ref != nil {
		s.spawn = spawnRef{word(ref.Raw("parent_session_id")), word(ref.Raw("parent_loop_id")), word(ref.Raw("tool_call_id"))}
		if slices.ContainsFunc(s.loops, func(p *loop) bool { return p.id == s.spawn.loop }) {
			s.spawn = spawnRef{}
		}
	}
}

// sessionFacts hands out what a session says and none of its runs, as facts that hold since it was last active.
// Without a time there is nothing to order them by, and they are counted only.
func (d *Decoder) sessionFacts(s *session) {
	if d.shell.Stopped() {
		return
	}
	at := timeOf(s.Raw("last_active_at"))
	if at.IsZero() {
		at = timeOf(s.Raw("created_at"))
	}
	e := &otelagent.FactStated{
		Meta: otelagent.Meta{Session: s.id, Time: at}, Dialect: Dialect, Recording: spans.RecordingLedger,
	}
	state := func(key string) {
		if value := s.Raw(key); value != nil {
			e.Facts = append(e.Facts, otelagent.Fact{
				Subject: "session", Key: Dialect + "." + key, Value: value, At: otelagent.Moment{Time: at},
			})
		}
	}
	for _, key := range []string{"created_at", "last_active_at", "formation", "parent_spawn_ref", "scope"} {
		state(key)
	}
	for _, key := range s.Keys() {
		if !slices.Contains(sessionFields, key) {
			state(key)
		}
	}
	if s.Has("model_config") {
		d.shell.Stats.IgnoredKeys++
	}
	switch {
	case len(e.Facts) == 0:
	case s.id == "" || at.IsZero():
		d.shell.Stats.IgnoredKeys += int64(len(e.Facts))
	default:
		d.emit(e)
	}
}

// groupOf names the group that a record of it describes: its members and which of them was selected.
func groupOf(record []byte) string {
	o := object.Of("", record)
	members, selected, index := o.Raw("all_loop_ids"), o.Raw("selected_loop_id"), o.Raw("selected_config_index")
	return string(members) + ";" + string(selected) + ";" + string(index)
}

// group reads the parallel group of which first is the first run, with all its runs, and reports whether there is one.
// A ledger does not say when it started: not later than its first run.
func (d *Decoder) group(s *session, first *loop) bool {
	path := member(first.path, "parallel_group")
	o := object.Of(path, first.group)
	ids, selected := o.Raw("all_loop_ids"), o.Raw("selected_loop_id")
	if first.start.IsZero() || ids == nil || ids[0] != '[' || word(selected) == "" {
		return false
	}
	const record = "ParallelGroupRecord"
	d.ledger = &ledger{start: otelagent.Moment{Time: first.start, Source: spans.TimeSourceBound}}
	defer func() { d.ledger = nil }()
	d.shell.Seq = 0
	members := texts(o, "all_loop_ids", false)
	started := d.step(record, o, func(l *line) []otelagent.Event { return d.groupStarted(l, s.id, members) })
	if started == nil {
		return false
	}
	o.Use(groupFields...)
	missing := make(map[string]bool, len(members))
	for _, id := range members {
		missing[id] = true
	}
	for _, p := range s.groups[groupOf(first.group)] {
		if !p.done && missing[p.id] { // a later run of that id is of another group
			delete(missing, p.id)
			p.grouped = o.Rest() == nil
			d.loop(s, p)
		}
	}
	d.ledger, d.shell.Seq = &ledger{}, 1
	end := func(l *line) []otelagent.Event { return d.groupEnded(l, s.id) }
	if d.step(record, o, end) == nil { // its end is handed out at least: else later runs would be taken for its judge
		short := object.Of(path, append(append([]byte(`{"selected_loop_id":`), selected...), '}'))
		d.step(record, short, end)
	}
	return true
}

// timeOf returns the time that a JSON string says; zero when it says none.
func timeOf(raw []byte) time.Time {
	if len(raw) == 0 || raw[0] != '"' {
		return time.Time{}
	}
	t, _ := input.Time(raw)
	return t
}
