package phi

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Fields of phi-core's records.
var (
	sessionFields = []string{"session_id", "agent_id", "loops", "model_config"} // that are no facts
	loopFields    = []string{
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
	id    string
	runs  []*record
	spawn spawnRef
	// groups are the runs by the group that they are of.
	groups map[string][]*record
}

// spawnRef says which run spawned the session.
type spawnRef struct{ session, loop, call string }

// session reads a ledger. Its runs come in the order of their starts.
func (d *Decoder) session(path string, raw []byte) {
	d.Counts.Lines++
	s := &session{Object: object.Of(path, raw), groups: make(map[string][]*record)}
	once(s.Object)
	s.id = s.String("session_id")
	d.runs.meet(s.id)
	s.readRuns(path)
	if len(s.runs) == 0 {
		s.Require("session_id")
	}
	if !d.RejectProblems("", s.Object) {
		d.Counts.Events++
	}
	for _, p := range s.runs {
		if d.Stopped() {
			return
		}
		if !p.done && !d.group(s, p) {
			d.loop(s, p)
		}
	}
	d.facts(s)
}

// readRuns finds the runs of the session.
func (s *session) readRuns(path string) {
	for i, raw := range s.List("loops") {
		if raw[0] != '{' {
			s.Fail(object.Element("loops", i), "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		at := object.Element(object.Join(path, "loops"), i)
		o := object.Of("", raw) // problems are those of its reader
		p := &record{path: at, raw: raw, id: o.Text("loop_id")}
		p.start.Time = input.Time(o.Raw("started_at"))
		s.runs = append(s.runs, p)
		if group := o.Raw("parallel_group"); group != nil && group[0] == '{' {
			p.group = group
		}
	}
	slices.SortStableFunc(s.runs, func(a, b *record) int {
		if a.start.Time.IsZero() != b.start.Time.IsZero() { // those without a start come last
			return b.start.Time.Compare(a.start.Time)
		}
		return a.start.Time.Compare(b.start.Time)
	})
	times := map[string]int{}
	for _, p := range s.runs {
		if p.group != nil { // a later run of an id is of another group, which names the same
			name := groupOf(p.group)
			times[name+" "+p.id]++
			p.of = name + " " + strconv.Itoa(times[name+" "+p.id])
			s.groups[p.of] = append(s.groups[p.of], p)
		}
	}
	// A parent that is a run of this very session did not spawn it: phi-core takes the text before the first dot of a
	// parent's id for its session, which is wrong where session ids have dots.
	if ref := object.Of("", s.Raw("parent_spawn_ref")); ref != nil {
		s.spawn = spawnRef{ref.Text("parent_session_id"), ref.Text("parent_loop_id"), ref.Text("tool_call_id")}
		if slices.ContainsFunc(s.runs, func(p *record) bool { return p.id == s.spawn.loop }) {
			s.spawn = spawnRef{}
		}
	}
}

// facts emits what a session says and none of its runs, as facts that hold since it was last active.
// Without a time there is nothing to order them by, and they are dropped.
func (d *Decoder) facts(s *session) {
	at := cmp.Or(input.Time(s.Raw("last_active_at")), input.Time(s.Raw("created_at")))
	e := &event.FactStated{
		Meta: event.Meta{Session: s.id, Time: at}, Dialect: Dialect, Recording: spans.RecordingLedger,
	}
	for key := range s.All() {
		if value := s.Raw(key); value != nil && !slices.Contains(sessionFields, key) {
			e.Facts = append(e.Facts, event.Fact{
				Subject: "session", Key: Dialect + "." + key, Value: value, At: event.Moment{Time: at},
			})
		}
	}
	if len(e.Facts) > 0 && s.id != "" && !at.IsZero() {
		d.emit(e)
	}
}

// groupOf names the group that a record of it describes: its members and which of them was selected.
func groupOf(record []byte) string {
	o := object.Of("", record)
	return string(o.Raw("all_loop_ids")) + string(o.Raw("selected_loop_id")) + string(o.Raw("selected_config_index"))
}

// group reads the parallel group of which first is the first run, with all its runs, and reports whether there is one.
// A ledger does not say when it started: not later than its first run.
func (d *Decoder) group(s *session, first *record) bool {
	at := object.Join(first.path, "parallel_group")
	o := object.Of(at, first.group)
	members, selected := texts(o, "all_loop_ids", false), o.Raw("selected_loop_id")
	if first.start.Time.IsZero() || !slices.Contains(members, first.id) || o.Text("selected_loop_id") == "" {
		return false
	}
	start := record{start: event.Bound(first.start.Time)}
	d.begin(&start)
	ok := d.made(at, "ParallelLoopStart", "session_id", s.id, "loop_ids", o.Raw("all_loop_ids"))
	d.record = nil
	if !ok {
		return false
	}
	o.Use(groupFields...)
	for _, p := range s.groups[first.of] {
		if !p.done && slices.Contains(members, p.id) {
			p.grouped = o.Rest() == nil
			d.loop(s, p)
		}
	}
	d.begin(&record{})
	d.Seq = 1
	if !d.made(at, "ParallelLoopEnd", "session_id", s.id, "selected_loop_id", selected,
		"selected_config_index", o.Raw("selected_config_index"), "evaluation_usage", o.Raw("evaluation_usage")) {
		// It ends all the same: else later runs would be taken for its judge.
		d.made(at, "ParallelLoopEnd", "session_id", s.id, "selected_loop_id", selected)
	}
	d.record = nil
	return true
}
