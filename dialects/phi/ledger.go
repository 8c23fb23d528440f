package phi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Fields of phi-core's Session, LoopRecord and Turn.
var (
	sessionFields = []string{
		sSessionID: "session_id", sAgentID: "agent_id", sCreatedAt: "created_at", sLastActiveAt: "last_active_at", sFormation: "formation",
		sSpawnRef: "parent_spawn_ref", sScope: "scope", sLoops: "loops", sModelConfig: "model_config",
	}
	loopFields = []string{
		lLoopID: "loop_id", lSessionID: "session_id", lAgentID: "agent_id", lParent: "parent_loop_id", lContinuation: "continuation_kind",
		lStartedAt: "started_at", lEndedAt: "ended_at", lStatus: "status", lRejection: "rejection", lConfig: "config", lMessages: "messages",
		lTurns: "turns", lUsage: "usage", lMetadata: "metadata", lEvents: "events", lChildren: "children_loop_ids", lRefs: "child_loop_refs",
		lGroup: "parallel_group", lBlock: "compaction_block",
	}
	turnFields = []string{
		tID: "turn_id", tTrigger: "triggered_by", tUsage: "usage", tInputs: "input_messages", tOutput: "output_message",
		tResults: "tool_results", tStartedAt: "started_at", tEndedAt: "ended_at", tPayload: "request_payload",
	}
	refFields   = []string{rCall: "tool_call_id", rTool: "tool_name", rLoop: "child_loop_id", rSession: "child_session_id"}
	groupFields = []string{
		gMembers: "all_loop_ids", gSelected: "selected_loop_id", gIndex: "selected_config_index", gUsage: "evaluation_usage", gIsSelected: "is_selected",
	}
)

const (
	sSessionID = iota
	sAgentID
	sCreatedAt
	sLastActiveAt
	sFormation
	sSpawnRef
	sScope
	sLoops
	sModelConfig
)

const (
	lLoopID = iota
	lSessionID
	lAgentID
	lParent
	lContinuation
	lStartedAt
	lEndedAt
	lStatus
	lRejection
	lConfig
	lMessages
	lTurns
	lUsage
	lMetadata
	lEvents
	lChildren
	lRefs
	lGroup
	lBlock
	loopKeys
)

const (
	tID = iota
	tTrigger
	tUsage
	tInputs
	tOutput
	tResults
	tStartedAt
	tEndedAt
	tPayload
	turnKeys
)

const (
	rCall = iota
	rTool
	rLoop
	rSession
	refKeys
)

const (
	gMembers = iota
	gSelected
	gIndex
	gUsage
	gIsSelected
	groupKeys
)

// Names of a record's fields where the event that we write calls them otherwise. "." is the record itself.
var (
	startNames   = map[string]string{"timestamp": "started_at", "config_snapshot": "config", "turn_index": "turn_id.turnIndex"}
	endNames     = map[string]string{"timestamp": "ended_at", "message": "output_message"}
	payloadNames = map[string]string{"payload": "request_payload"}
)

// ledger is the run that is told from a ledger.
type ledger struct {
	id      []byte // the run's id as it is spelled
	status  string // the ledger's word
	running bool   // no end is told of it
	dirty   bool   // somewhere in it is text that is not UTF-8
	start   otelagent.Moment
	spawn   *spawnRef
	refs    []childRef
	// unused are the numbers of the references of a call that no tool call took yet.
	unused map[string][]int
	block  []byte
	// groupStart is the start of the parallel group that is told.
	groupStart time.Time
	// turns and events are those of the record, each as it is spelled. Used again.
	turns, events [][]byte
	text, result  []byte // scratch
}

// spawnRef says what spawned the session.
type spawnRef struct{ session, loop, call string }

// childRef names the run that a tool call spawned.
type childRef struct {
	raw                []byte
	call, run, session string
	used               bool
	more               bool // it has keys that we do not know
}

// sessionRecord is a session of a ledger.
type sessionRecord struct {
	values [sModelConfig + 1][]byte
	others []member
	loops  []loopPlace
	spawn  *spawnRef
	// groups are the numbers of the loops by the group that they tell of, and by their id.
	groups map[groupMember][]int
}

// groupMember is a run as one of a parallel group.
type groupMember struct {
	group [sha256.Size]byte
	id    string
}

// loopPlace is where a run stands in a ledger, and what decides its place among the others.
type loopPlace struct {
	raw   []byte
	index int
	start time.Time
	id    string
	group []byte
	told  bool
	// grouped says that its parallel group was told, and all of it.
	grouped bool
}

// fields takes the object at c apart: values by the number of their names. It ends where c fails. Arrays that open says true for are
// left to it.
func (d *Decoder) fields(c *rawjson.Cursor, names []string, values [][]byte, open func(field int) bool) (others []member) {
	for c.Open('{'); c.More('}'); {
		spelled := c.RawKey()
		if spelled == nil {
			break
		}
		field := slices.Index(names, string(d.ev.unescaped(spelled)))
		if field >= 0 && open != nil && c.Peek() == '[' && open(field) {
			continue
		}
		value := c.Value()
		switch {
		case value == nil:
		case field < 0:
			others = append(others, member{spelled, value})
		case values[field] != nil:
			d.problem(names[field], "stands there twice")
		default:
			values[field] = value
		}
	}
	return others
}

// typed reports those of values that are of another type than the first byte of it in want says, and takes them off.
func (d *Decoder) typed(names []string, values [][]byte, want map[int]byte) {
	for field, name := range names {
		v, first := values[field], want[field]
		if first == 0 || absent(v) || v[0] == first {
			continue
		}
		d.problem(name, "want "+rawjson.KindOf([]byte{first})+", got "+rawjson.KindOf(v))
		values[field] = nil
	}
}

// session reads a ledger. Its runs are told in the order of their starts.
func (d *Decoder) session(c *rawjson.Cursor) {
	var s sessionRecord
	d.stats.Lines++
	s.others = d.fields(c, sessionFields, s.values[:], func(field int) bool {
		if field == sLoops {
			s.loops = d.loopPlaces(c)
		}
		return field == sLoops
	})
	for i, v := range s.values {
		if v == nil {
			continue
		}
		if !utf8.Valid(v) {
			d.problem(sessionFields[i], notUTF8)
			s.values[i] = nil
		}
	}
	f := fields{words: &d.words}
	id := f.id("session_id", s.values[sSessionID])
	if v := s.values[sLoops]; !absent(v) {
		f.mismatch("loops", v, "an array")
	}
	if s.values[sSessionID] == nil && len(s.loops) == 0 && c.Err() == nil {
		f.required("session_id", nil, "a string")
	}
	if f.wrong != nil {
		d.reject(f.wrong)
	} else {
		d.stats.Events++
	}
	if id == "" {
		s.values[sSessionID] = nil
	}
	if id != "" {
		d.runs.sessions.put(id, true)
	}
	s.spawn = d.spawnRef(&s)
	slices.SortStableFunc(s.loops, func(a, b loopPlace) int {
		return cmp.Or(cmp.Compare(boolInt(a.start.IsZero()), boolInt(b.start.IsZero())), a.start.Compare(b.start))
	})
	s.groups = make(map[groupMember][]int)
	for i := range s.loops {
		if p := &s.loops[i]; p.group != nil {
			m := groupMember{groupOf(p.group), p.id}
			s.groups[m] = append(s.groups[m], i)
		}
	}
	for i := range s.loops {
		if d.stopped {
			return
		}
		if p := &s.loops[i]; !p.told && !d.group(&s, p) {
			d.loop(&s, p)
		}
	}
	d.sessionFacts(&s, id)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// loopPlaces notes where the runs of a session stand. The last one may be cut.
func (d *Decoder) loopPlaces(c *rawjson.Cursor) (places []loopPlace) {
	c.Open('[')
	for i := 0; c.More(']'); i++ {
		start := c.Pos()
		raw := c.Value()
		if raw == nil {
			raw = c.Since(start)
		}
		switch {
		case i >= maxLoops:
			if i == maxLoops {
				d.problem(elementAt("loops", i), tooMany(maxLoops, "loops"))
			}
			continue
		case len(raw) == 0, raw[0] != '{' && c.Err() != nil: // cut: told at the end
			continue
		case raw[0] != '{':
			d.problem(elementAt("loops", i), "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		p := loopPlace{raw: raw, index: i}
		in := rawjson.NewCursor(raw, maxDepth)
		for in.Open('{'); in.More('}'); {
			key := in.RawKey()
			switch value := in.Value(); {
			case value == nil:
			case string(key) == `"loop_id"`:
				p.id = d.lenient(value)
			case string(key) == `"started_at"` && value[0] == '"':
				p.start, _ = parseTime(value)
			case string(key) == `"parallel_group"` && value[0] == '{':
				p.group = value
			}
		}
		places = append(places, p)
	}
	return places
}

// spawnRef returns what the session says of its origin. A parent that is a run of this very session did not spawn it: phi-core takes
// what stands before the first dot of a parent's id for its session, and so invents one where session ids have dots.
func (d *Decoder) spawnRef(s *sessionRecord) *spawnRef {
	raw := s.values[sSpawnRef]
	if absent(raw) || raw[0] != '{' {
		return nil
	}
	ref := &spawnRef{
		session: d.lenient(memberOf(raw, "parent_session_id")), loop: d.lenient(memberOf(raw, "parent_loop_id")),
		call: d.lenient(memberOf(raw, "tool_call_id")),
	}
	if ref.loop == "" || slices.ContainsFunc(s.loops, func(p loopPlace) bool { return p.id == ref.loop }) {
		return nil
	}
	return ref
}

// sessionFacts tells what a session says that none of its runs does, as facts that hold since it was last active. Without a time
// there is nothing to order them by, and they are counted only.
func (d *Decoder) sessionFacts(s *sessionRecord, id string) {
	if d.stopped {
		return
	}
	var at time.Time
	for _, field := range []int{sLastActiveAt, sCreatedAt} {
		if v := s.values[field]; at.IsZero() && v != nil && v[0] == '"' {
			at, _ = parseTime(v)
		}
	}
	e := &otelagent.FactStated{Meta: otelagent.Meta{Session: id, Time: at}, Dialect: Dialect, Recording: spans.RecordingLedger}
	state := func(key string, value []byte) {
		if absent(value) {
			return
		}
		e.Facts = append(e.Facts, otelagent.Fact{
			Subject: "session", Key: Dialect + "." + key, Value: withoutBlanks(nil, value), At: otelagent.Moment{Time: at},
		})
	}
	for _, field := range []int{sCreatedAt, sLastActiveAt, sFormation, sSpawnRef, sScope} {
		state(sessionFields[field], s.values[field])
	}
	for _, m := range s.others {
		if key, ok := rawjson.String(m.key); ok && utf8.Valid(m.key) && utf8.Valid(m.value) {
			state(key, m.value)
		}
	}
	if !absent(s.values[sModelConfig]) {
		d.stats.IgnoredKeys++
	}
	switch {
	case len(e.Facts) == 0:
	case id == "" || at.IsZero():
		d.stats.IgnoredKeys += int64(len(e.Facts))
	default:
		d.emit(e)
	}
}

// group tells of the parallel group of which first is the first run, with all its runs, and reports whether there is one.
// A ledger does not say when it started: not later than its first run.
func (d *Decoder) group(s *sessionRecord, first *loopPlace) bool {
	if first.group == nil || first.start.IsZero() || !utf8.Valid(first.group) {
		return false
	}
	var values [groupKeys][]byte
	c := rawjson.NewCursor(withoutBlanks(nil, first.group), maxDepth)
	others := d.fields(&c, groupFields, values[:], nil)
	if absent(values[gMembers]) || values[gMembers][0] != '[' || absent(values[gSelected]) || values[gSelected][0] != '"' {
		return false
	}
	session := s.values[sSessionID]
	d.doc.record, d.doc.names = "ParallelGroupRecord", map[string]string{"loop_ids": "all_loop_ids"}
	back := d.at(elementAt("loops", first.index) + ".parallel_group")
	d.begin()
	d.put(kSessionID, session)
	d.put(kLoopIDs, values[gMembers])
	d.doc.ledger = ledger{groupStart: first.start, turns: d.doc.ledger.turns, events: d.doc.ledger.events, text: d.doc.ledger.text}
	d.seq = 0
	told := d.tell(vParallelLoopStart)
	back()
	if !told {
		return false
	}
	var members []int
	met, group := make(map[string]bool, len(d.out.ids)), groupOf(first.group)
	for _, id := range d.out.ids {
		if m := (groupMember{group, id}); !met[id] && len(s.groups[m]) > 0 {
			members = append(members, s.groups[m][0])
			s.groups[m] = s.groups[m][1:] // a later run of that id is of another group
		}
		met[id] = true
	}
	slices.Sort(members)
	for _, i := range members {
		if d.stopped {
			return true
		}
		s.loops[i].grouped = len(others) == 0
		d.loop(s, &s.loops[i])
	}
	d.doc.record, d.doc.names = "ParallelGroupRecord", nil
	defer d.at(elementAt("loops", first.index) + ".parallel_group")()
	d.begin()
	d.put(kSessionID, session)
	d.put(kSelectedLoopID, values[gSelected])
	d.put(kSelectedConfigIndex, values[gIndex])
	d.put(kEvaluationUsage, values[gUsage])
	d.seq = 1
	if !d.tell(vParallelLoopEnd) {
		d.begin() // its end is told at least: else later runs would be taken for its judge
		d.put(kSessionID, session)
		d.put(kSelectedLoopID, values[gSelected])
		d.tell(vParallelLoopEnd)
	}
	return true
}

// groupOf names the group that a record of it tells of: its members and which of them was selected.
func groupOf(record []byte) [sha256.Size]byte {
	var text []byte
	for _, field := range []int{gMembers, gSelected, gIndex} {
		text = append(withoutBlanks(text, memberOf(record, groupFields[field])), ';')
	}
	return sha256.Sum256(text)
}

// loop tells of one run.
func (d *Decoder) loop(s *sessionRecord, p *loopPlace) {
	p.told = true
	d.stats.Lines++
	defer d.at(elementAt("loops", p.index))()
	l := &d.doc.ledger
	*l = ledger{turns: l.turns[:0], events: l.events[:0], text: withoutBlanks(l.text[:0], p.raw), result: l.result, spawn: s.spawn}
	l.dirty = !utf8.Valid(l.text)
	d.seq = 0

	var values [loopKeys][]byte
	c := rawjson.NewCursor(l.text, maxDepth)
	tooMuch := ""
	others := d.fields(&c, loopFields, values[:], func(field int) bool {
		list := &l.turns
		switch field {
		case lEvents:
			list = &l.events
		case lTurns:
		default:
			return false
		}
		values[field] = emptyArray
		c.Open('[')
		for c.More(']') {
			if value := c.Value(); value == nil {
			} else if len(*list) < maxItems {
				*list = append(*list, value)
			} else {
				tooMuch = loopFields[field]
			}
		}
		return true
	})
	whole := c.Err() == nil
	if tooMuch != "" {
		d.problem(tooMuch, tooMany(maxItems, tooMuch))
	}
	if values[lSessionID] == nil {
		values[lSessionID] = s.values[sSessionID]
	}
	if values[lAgentID] == nil {
		values[lAgentID] = s.values[sAgentID]
	}
	if v := values[lGroup]; !absent(v) && !p.grouped {
		others = append(others, member{quoted(loopFields[lGroup]), v})
	}
	d.wholeLoop(values[:], others, whole)
}

var emptyArray = []byte("[]")

// wholeLoop tells of a run whose record was taken apart.
func (d *Decoder) wholeLoop(values [][]byte, others []member, whole bool) {
	l := &d.doc.ledger
	if l.dirty { // what no event takes whole is looked at here
		for _, field := range []int{lBlock, lRefs, lStatus} {
			if values[field] != nil && !utf8.Valid(values[field]) {
				d.problem(loopFields[field], notUTF8)
				values[field] = nil
			}
		}
		others = d.cleaned(others)
		for i, event := range l.events {
			if !utf8.Valid(event) {
				d.problem(elementAt("events", i), notUTF8)
				l.events[i] = nil
			}
		}
		l.events = slices.DeleteFunc(l.events, func(event []byte) bool { return event == nil })
	}
	d.typed(loopFields, values, map[int]byte{lStatus: '"', lTurns: '[', lEvents: '[', lRefs: '[', lGroup: '{', lBlock: '{'})
	l.id, l.block = values[lLoopID], values[lBlock]
	if v := values[lStatus]; !absent(v) {
		l.status = d.lenient(v)
	}
	if absent(l.block) {
		l.block = nil
	}
	l.running = !whole || absent(values[lEndedAt]) && l.status != "Completed" && l.status != "Rejected"
	d.childRefs(values[lRefs])
	messages := d.readMessages(nil, "messages", values[lMessages])
	if !whole && (l.id == nil || absent(values[lStartedAt])) {
		return // cut before anything is known of it
	}
	if absent(values[lStartedAt]) {
		l.start = d.otherStart(messages)
		if l.start.Time.IsZero() {
			d.doc.record = ""
			d.reject(missingStart())
			return
		}
	}
	if whole && l.running && l.status != "" && l.status != "Aborted" {
		others = append(others, member{quoted("status"), values[lStatus]})
	}

	stored := d.tellsAll(values)
	if !stored {
		d.doc.record, d.doc.names = "LoopRecord", startNames
		d.begin()
		for k, field := range map[key]int{
			kLoopID: lLoopID, kSessionID: lSessionID, kAgentID: lAgentID, kParentLoopID: lParent, kContinuationKind: lContinuation,
			kTimestamp: lStartedAt, kMetadata: lMetadata, kConfigSnapshot: lConfig,
		} {
			d.put(k, values[field])
		}
		if len(l.events) > 0 && whole { // they tell less than the turns, and have no other place
			others = append(others, member{quoted("events"), array(l.events)})
		}
		d.ev.others = append(d.ev.others, others...)
		if !d.tell(vAgentStart) {
			return
		}
		d.stats.Events++
		d.turns(values, messages, whole)
		d.loopEnd(values, messages)
	} else {
		d.stats.Events++
		d.storedEvents(others, values)
	}
	var f fields
	f.words = &d.words
	if r := d.runs.find(f.id("", l.id)); r != nil && r.open {
		d.runs.close(r)
	}
}

func quoted(name string) []byte { return []byte(`"` + name + `"`) }

// array puts elements together again.
func array(elements [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(elements, []byte{','})...), ']')
}
