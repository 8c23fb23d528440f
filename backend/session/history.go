package session

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/spans"
)

// Nothing that was once said leaves a session. What is no part of the conversation as it stands now is there and marked: messages that were
// rewound (hidden), messages that wait for their turn or were taken off the queue, what a fork took over. Loops tell of it by facts about
// messages (hidden_at, queued_at, queue_canceled_at) and by compactions of kind revert; this file reads both.

// Keys of facts about messages and sessions, as the agent guide names them.
const (
	FactHidden   = "hidden_at"         // since when a message is rewound
	FactQueued   = "queued_at"         // since when a message waits
	FactCanceled = "queue_canceled_at" // when it was taken off the queue
	FactArchived = "archived_at"       // since when a session is put away
	FactTitle    = "title"
	FactRow      = "guide.row" // the row of the guide as it came
)

// SubjectSession is the subject of facts about the session itself; those about a message have its id behind SubjectMessage.
const (
	SubjectSession = "session"
	SubjectMessage = "message/"
)

// Relation says how a run goes on from another one, in one word.
type Relation string

// The relations. The zero value: it begins anew, or nothing says that it does not. A continuation that this version does not know is told by its own word.
const (
	RelationContinues  Relation = "continues"
	RelationRerun      Relation = "rerun"
	RelationBranch     Relation = "branch"
	RelationCompaction Relation = "compaction"
	RelationSubAgent   Relation = "sub-agent"
)

// History is what became of what a session says. Make it with HistoryOf. It is read-only and safe for concurrent use; slices and
// pointers are its own and must not be changed. A nil *History knows of nothing.
type History struct {
	// Messages are those that facts say something of: hidden, waiting or taken off the queue, by the earliest of these times, then by id.
	Messages []MessageState
	// Fork says from where the session was forked; nil: it was not, or nothing says so.
	Fork *Fork

	runs  map[*Run]*RunState
	turns map[*Turn]time.Time
}

// MessageState is what facts say of one message.
type MessageState struct {
	// ID is that of the message, as the source has it.
	ID string `json:"id"`
	// Hidden is since when it is rewound, Queued since when it waits for its turn, Canceled when it was taken off the queue. Zero: it is not.
	Hidden   time.Time `json:"hidden,omitzero"`
	Queued   time.Time `json:"queued,omitzero"`
	Canceled time.Time `json:"canceled,omitzero"`
	// Run is the run that holds it; nil when none does: what waits is in no run.
	Run *Run `json:"-"`
}

// Waiting says that the message waits for its turn.
func (m *MessageState) Waiting() bool { return !m.Queued.IsZero() && m.Canceled.IsZero() }

// Fork is where a session was forked from.
type Fork struct {
	// Session is the one that it was forked from. The forks of a session are those whose Summary.ForkedFrom it is (store.Query.ForkedFrom).
	Session string `json:"session"`
	// Message is the message of that session at which it left, where the source says so and content was captured.
	Message string `json:"message,omitempty"`
	// Last is the last run that was taken over: what follows it is the fork's own. It has the time of its twin in the session that was
	// forked, but not its id. Nil when none was, or nothing says so.
	Last *Run `json:"-"`
}

// RunState is how a run stands in its session.
type RunState struct {
	// Relation says how it goes on from Parent, a run of the session; Parent is nil where there is none, or it is of another session, or
	// did not arrive.
	Relation Relation
	Parent   *Run
	// Children are the runs of the session that go on from this one, in the order of the tree: continuations, reruns, branches, compactions
	// and sub-agents.
	Children []*Run
	// Hidden is since when all that it says is rewound; zero: it is not, or not all of it.
	Hidden time.Time
}

// Run returns how r stands. It is the zero RunState for a run of another session.
func (h *History) Run(r *Run) RunState {
	if h == nil || h.runs[r] == nil {
		return RunState{}
	}
	return *h.runs[r]
}

// Hidden returns since when all that the turn says is rewound; zero: it is not.
func (h *History) Hidden(t *Turn) time.Time {
	if h == nil {
		return time.Time{}
	}
	return h.turns[t]
}

// Branches returns the runs of the session that left the history of r at an earlier point, or did its work again.
func (h *History) Branches(r *Run) []*Run {
	var out []*Run
	for _, c := range h.Run(r).Children {
		if rel := h.Run(c).Relation; rel == RelationBranch || rel == RelationRerun {
			out = append(out, c)
		}
	}
	return out
}

// Waiting returns the messages that wait for their turn, in the order in which they will fire.
func (h *History) Waiting() []MessageState {
	if h == nil {
		return nil
	}
	var out []MessageState
	for i := range h.Messages {
		if m := &h.Messages[i]; m.Waiting() {
			out = append(out, *m)
		}
	}
	slices.SortStableFunc(out, func(a, b MessageState) int { return a.Queued.Compare(b.Queued) })
	return out
}

// HistoryOf reads the history of a session. blocks are those of the session, or nil: then times are those of the facts themselves, and Fork.Message is not
// known. Without captured content no fact has a value, and nothing is known of what they say.
func HistoryOf(s *Session, blocks *BlockSet) *History {
	h := &History{runs: map[*Run]*RunState{}, turns: map[*Turn]time.Time{}}
	h.relate(s)
	h.fork(s, blocks)
	messages := factsOfMessages(s, blocks)
	nodes, said := reverted(s)
	rewound := len(nodes) > 0
	for _, m := range messages {
		rewound = rewound || !m.Hidden.IsZero()
	}
	for _, r := range s.Runs {
		if !rewound {
			break // which is nearly always so, and spares a look at every message
		}
		hidden := func(ref *Ref) (since time.Time, known bool) {
			e := envelopeOf(ref, blocks)
			at, rewound := nodes[runNode{r, e.node}]
			switch {
			case e.node != "" && rewound:
				return at, true
			case e.id == "":
				return time.Time{}, e.node != ""
			}
			m := messages[e.id]
			if m != nil && m.Run == nil {
				m.Run = r
			}
			if m == nil || m.Hidden.IsZero() {
				return said[e.id], true
			}
			return m.Hidden, true
		}
		h.hide(r, messages[r.ID], hidden)
	}
	for _, m := range messages {
		if !m.Hidden.IsZero() || !m.Queued.IsZero() || !m.Canceled.IsZero() {
			h.Messages = append(h.Messages, *m)
		}
	}
	first := func(m *MessageState) (t time.Time) {
		for _, at := range []time.Time{m.Hidden, m.Queued, m.Canceled} {
			if !at.IsZero() && (t.IsZero() || at.Before(t)) {
				t = at
			}
		}
		return t
	}
	slices.SortFunc(h.Messages, func(a, b MessageState) int { return cmp.Or(first(&a).Compare(first(&b)), cmp.Compare(a.ID, b.ID)) })
	return h
}

// relate finds out how runs go on from each other.
func (h *History) relate(s *Session) {
	byID := map[string][]*Run{}
	spawned := map[string]bool{}
	for _, r := range s.Runs {
		h.runs[r] = &RunState{}
		byID[r.ID] = append(byID[r.ID], r)
		for c := range r.Calls() {
			if c.ChildRunID != "" && (c.ChildSessionID == "" || c.ChildSessionID == s.ID) {
				spawned[c.ChildRunID] = true
			}
		}
	}
	for _, r := range s.Runs {
		st := h.runs[r]
		st.Parent = parentOf(s.ID, r, byID[r.ParentID])
		switch {
		case r.ParentToolCallID != "", spawned[r.ID], r.ParentSessionID != "" && r.ParentSessionID != s.ID:
			st.Relation = RelationSubAgent
		case r.Continuation == spans.ContinuationDefault:
			st.Relation = RelationContinues
		case r.Continuation == "" || r.Continuation == spans.ContinuationInitial:
			if st.Parent != nil {
				st.Relation = RelationSubAgent
			}
		default:
			st.Relation = Relation(r.Continuation)
		}
		if st.Parent != nil {
			p := h.runs[st.Parent]
			p.Children = append(p.Children, r)
		}
	}
}

func (h *History) fork(s *Session, blocks *BlockSet) {
	from := forkedFrom(s)
	if from == "" {
		return
	}
	h.Fork = &Fork{Session: from}
	for _, r := range s.Runs {
		if r.Copied {
			h.Fork.Last = r
		}
	}
	var row struct {
		Message string `json:"parent_message_id"`
	}
	if v, ok := valueOf(s.Fact(SubjectSession, FactRow), blocks); ok && json.Unmarshal([]byte(v), &row) == nil {
		h.Fork.Message = row.Message
	}
}

// forkedFrom returns the session that s was forked from: that of the first run that names one.
func forkedFrom(s *Session) string {
	for _, r := range s.Runs {
		if r.ForkParentID != "" && r.ForkParentID != s.ID {
			return r.ForkParentID
		}
	}
	return ""
}

// hide notes what of a run is rewound. of is what facts say of the message that has the id of the run, as in the guide; hidden tells it of a message
// in a list, and whether that is one of which it could be told.
func (h *History) hide(r *Run, of *MessageState, hidden func(*Ref) (time.Time, bool)) {
	type sum struct {
		known, rewound int
		since          time.Time
	}
	add := func(sums []*sum, lists ...*Refs) {
		for _, l := range lists {
			for _, ref := range l.Items() {
				since, known := hidden(&ref)
				for _, s := range sums {
					if known {
						s.known++
					}
					if !since.IsZero() {
						s.rewound++
						s.since = later(s.since, since)
					}
				}
			}
		}
	}
	all := &sum{}
	add([]*sum{all}, r.Outside)
	for _, t := range r.Turns {
		out, in := &sum{}, &sum{}
		add([]*sum{all, out}, t.Output)
		add([]*sum{all, in}, t.Input)
		if out.known == 0 {
			out = in
		}
		if out.rewound > 0 && out.rewound == out.known {
			h.turns[t] = out.since
		}
	}
	switch {
	case all.rewound > 0 && all.rewound == all.known:
		h.runs[r].Hidden = all.since
	case all.known == 0 && of != nil:
		h.runs[r].Hidden = of.Hidden
		if of.Run == nil {
			of.Run = r
		}
	}
	if since := h.runs[r].Hidden; !since.IsZero() {
		for _, t := range r.Turns {
			if h.turns[t].IsZero() {
				h.turns[t] = since
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// runNode names a node: loops count them by run.
type runNode struct {
	run  *Run
	node string
}

// reverted returns what rewinds by the loop itself took away, and when: nodes of a run, and messages by their ids.
func reverted(s *Session) (nodes map[runNode]time.Time, messages map[string]time.Time) {
	nodes, messages = map[runNode]time.Time{}, map[string]time.Time{}
	for n := range s.Walk() {
		c := n.Compaction
		if c == nil || c.Kind != spans.CompactionKindRevert || c.Applied != nil && !*c.Applied {
			continue
		}
		for _, id := range c.Removed {
			nodes[runNode{n.Run, id}] = later(c.Start, c.End)
			messages[id] = later(c.Start, c.End)
		}
	}
	return nodes, messages
}

// envelope is what a message says of which one it is.
type envelope struct{ id, node string }

func envelopeOf(ref *Ref, blocks *BlockSet) envelope {
	var e struct {
		ID   json.RawMessage `json:"id"`
		Node json.RawMessage `json:"nodeId"`
	}
	if body, ok := blocks.Body(*ref); !ok || json.Unmarshal([]byte(body), &e) != nil {
		return envelope{}
	}
	var id string
	_ = json.Unmarshal(e.ID, &id) // an id is a text
	return envelope{id, string(e.Node)}
}

// factsOfMessages returns what facts say of messages, by their ids.
func factsOfMessages(s *Session, blocks *BlockSet) map[string]*MessageState {
	out := map[string]*MessageState{}
	for i := range s.Facts {
		f := &s.Facts[i]
		if len(f.Subject) <= len(SubjectMessage) || f.Subject[:len(SubjectMessage)] != SubjectMessage {
			continue
		}
		if i+1 < len(s.Facts) && s.Facts[i+1].Subject == f.Subject && s.Facts[i+1].Key == f.Key {
			continue // a later one counts
		}
		id := f.Subject[len(SubjectMessage):]
		m := out[id]
		if m == nil {
			m = &MessageState{ID: id}
			out[id] = m
		}
		switch f.Key {
		case FactHidden:
			m.Hidden = SinceOf(f, blocks)
		case FactQueued:
			m.Queued = SinceOf(f, blocks)
		case FactCanceled:
			m.Canceled = SinceOf(f, blocks)
		}
	}
	return out
}

// The values that take a fact back, known by their ids.
var takenBack = map[string]bool{
	spans.BlockOfString("null").Short().String(): true, spans.BlockOfString("false").Short().String(): true, spans.BlockOfString("0").Short().String(): true,
}

// SinceOf returns since when it is so what a fact of a time says (hidden_at, archived_at and the like), zero when it is not: when its
// value is null, false or 0, which needs no blocks to see, or there is none, since no content was captured. Where the value is not among
// blocks it is the time of the fact.
func SinceOf(f *Fact, blocks *BlockSet) time.Time {
	if f == nil || f.Value == nil || takenBack[f.Value.Block] {
		return time.Time{}
	}
	if v, ok := valueOf(f, blocks); ok {
		return FactTime(v, f.At)
	}
	return f.At
}

// valueOf returns the value of a fact, where it is there.
func valueOf(f *Fact, blocks *BlockSet) (string, bool) {
	if f == nil || f.Value == nil || blocks == nil {
		return "", false
	}
	return blocks.Body(*f.Value)
}

// FactTime reads the value of a fact that is a time: milliseconds, a text in RFC 3339, or true for the time of the fact itself, which is at. It is zero
// for null, false and 0; what it cannot read counts as true.
func FactTime(value string, at time.Time) time.Time {
	if n, err := strconv.ParseFloat(value, 64); err == nil {
		if n == 0 {
			return time.Time{}
		}
		if n > -9e12 && n < 9e12 { // what nanoseconds can say
			return time.UnixMilli(int64(n)).UTC()
		}
		return at
	}
	var text string
	if json.Unmarshal([]byte(value), &text) == nil {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t.UTC()
		}
	}
	if value == "null" || value == "false" {
		return time.Time{}
	}
	return at
}

// maxTitle bounds a title, in bytes.
const maxTitle = 512

// openingMessages bounds how many messages Title looks through for the first one of the user.
const openingMessages = 16

// TitleRefs returns the blocks that Title reads: the last name of the session, else its first messages.
func (s *Session) TitleRefs() []Ref {
	if f := s.Fact(SubjectSession, FactTitle); f != nil && f.Value != nil {
		return []Ref{*f.Value}
	}
	refs := s.opening()
	refs = slices.DeleteFunc(slices.Clone(refs), func(ref Ref) bool {
		p, _ := spans.ParseProvenance(ref.Provenance)
		return p.Kind == spans.ProvenanceMemoryTier || p.Kind == spans.ProvenanceIdentityBlock
	})
	return refs[:min(len(refs), openingMessages)]
}

// opening returns the messages of the first request, which states where they came from, else of the first run or turn.
func (s *Session) opening() []Ref {
	for _, r := range s.Runs {
		refs := r.Outside.Items()
		for _, t := range r.Turns {
			if len(t.Requests) > 0 && t.Requests[0].Messages.Len() > 0 {
				return t.Requests[0].Messages.Items()
			}
			if len(refs) == 0 {
				refs = t.Input.Items()
			}
			if len(refs) > 0 {
				break
			}
		}
		if len(refs) > 0 {
			return refs
		}
	}
	return nil
}

// Title returns the last name of the session, else the beginning of its first user message, where blocks have it: at
// most 512 bytes of a name and 120 of a message, whole characters.
func (s *Session) Title(blocks *BlockSet) string {
	if v, ok := valueOf(s.Fact(SubjectSession, FactTitle), blocks); ok {
		var title string
		if json.Unmarshal([]byte(v), &title) == nil && title != "" {
			return beginning(title, maxTitle)
		}
	}
	for _, ref := range s.TitleRefs() {
		body, _ := blocks.Body(ref)
		for _, x := range Sayings(body) {
			if x.By == ByUser && x.Kind == SaidText && strings.TrimSpace(x.Text) != "" {
				const near = 4 * maxOpening // its blanks become shorter
				text := strings.Join(strings.Fields(beginning(x.Text, near)), " ")
				return strings.TrimSpace(beginning(text, maxOpening))
			}
		}
	}
	return ""
}

// maxOpening bounds a title that is the beginning of a message, in bytes.
const maxOpening = 120

// beginning returns at most n bytes of text, in whole characters.
func beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Archived reports whether the session is put away.
func (s *Session) Archived() bool {
	return !SinceOf(s.Fact(SubjectSession, FactArchived), nil).IsZero()
}

// cost sums up what turns cost, in one currency; zero and empty where no turn says so, and where they say so in several. What was taken over
// from another session is counted there.
func (s *Session) cost() (sum float64, currency string) {
	told := false
	for _, r := range s.Runs {
		if r.Copied {
			continue
		}
		for _, t := range r.Turns {
			if t.Cost == nil {
				continue
			}
			if told && t.Currency != currency {
				return 0, ""
			}
			told, currency = true, t.Currency
			sum += *t.Cost
		}
	}
	if math.IsNaN(sum) { // of infinities
		return 0, ""
	}
	return max(min(sum, math.MaxFloat64), -math.MaxFloat64), currency
}
