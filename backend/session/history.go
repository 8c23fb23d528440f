package session

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/spans"
)

// A session keeps everything. What is no part of the conversation now is there and marked: messages that were rewound
// (hidden), messages that wait for their turn or were taken off the queue, and runs that a fork copied. Loops report
// it by facts about messages (hidden_at, queued_at, queue_canceled_at) and by compactions of kind revert; this file
// reads both.

// Keys of facts about messages and sessions, as the agent guide names them.
const (
	FactHidden   = "hidden_at"         // since when a message is rewound
	FactQueued   = "queued_at"         // since when a message waits
	FactCanceled = "queue_canceled_at" // when it was taken off the queue
	FactArchived = "archived_at"       // since when a session is archived
	FactTitle    = "title"
	FactRow      = "guide.row" // the row of the guide as it came
)

// SubjectSession is the subject of facts about the session itself; SubjectMessage and an id that of facts about a
// message.
const (
	SubjectSession = "session"
	SubjectMessage = "message/"
)

// Relation says how a run continues from another one.
type Relation string

// The relations. The zero value: it begins anew, as far as known. An unknown continuation keeps its own spelling.
const (
	RelationContinues  Relation = "continues"
	RelationRerun      Relation = "rerun"
	RelationBranch     Relation = "branch"
	RelationCompaction Relation = "compaction"
	RelationSubAgent   Relation = "sub-agent"
)

// History says which parts of a session are hidden, wait or were copied. HistoryOf makes it. It is read-only and safe
// for concurrent use; do not change its slices and pointers. A nil *History is empty.
type History struct {
	// Messages are those with facts: hidden, waiting or taken off the queue, by the earliest of these times, then by
	// id.
	Messages []MessageState
	// Fork says where the session was forked; nil if it was not, as far as known.
	Fork *Fork

	runs  map[*Run]*RunState
	turns map[*Turn]time.Time
}

// MessageState holds the facts about one message.
type MessageState struct {
	// ID is that of the message in its source.
	ID string `json:"id"`
	// Hidden is the time from which it is rewound, Queued the time from which it waits for its turn, Canceled the
	// time at which it was taken off the queue; each is zero if it does not apply.
	Hidden   time.Time `json:"hidden,omitzero"`
	Queued   time.Time `json:"queued,omitzero"`
	Canceled time.Time `json:"canceled,omitzero"`
	// Run is the run that holds it; nil if none does, as of messages that wait.
	Run *Run `json:"-"`
}

// Waiting reports whether the message waits for its turn.
func (m *MessageState) Waiting() bool { return !m.Queued.IsZero() && m.Canceled.IsZero() }

// Fork is where a session was forked.
type Fork struct {
	// Session is the one that it was forked from. Summary.ForkedFrom (store.Query.ForkedFrom) finds the forks of a
	// session.
	Session string `json:"session"`
	// Message is the message of that session at which the fork begins, if the source states it and content was
	// captured.
	Message string `json:"message,omitempty"`
	// Last is the last run that was copied: the runs after it are the fork's own. It has the time of its twin in the
	// session that was forked, but not its id. It is nil if none was copied, as far as known.
	Last *Run `json:"-"`
}

// RunState is the position of a run in its session.
type RunState struct {
	// Relation says how it continues from Parent, a run of the session: of the runs with the id that it names, the last
	// one that started no later, else the first. Parent is nil if there is none, if it belongs to another session, if it
	// did not arrive, or where a ring of parents was cut.
	Relation Relation
	Parent   *Run
	// Hidden is the time from which all content of the run is rewound; zero if some is not.
	Hidden time.Time
}

// Run returns the state of r, the zero RunState for a run of another session.
func (h *History) Run(r *Run) RunState {
	if h == nil {
		return RunState{}
	}
	return *cmp.Or(h.runs[r], &RunState{})
}

// Hidden returns the time from which all content of the turn is rewound; zero if it is not.
func (h *History) Hidden(t *Turn) time.Time {
	if h == nil {
		return time.Time{}
	}
	return h.turns[t]
}

// Waiting returns the messages that wait for their turn, in their order in the queue.
func (h *History) Waiting() []MessageState {
	if h == nil {
		return nil
	}
	out := slices.DeleteFunc(slices.Clone(h.Messages), func(m MessageState) bool { return !m.Waiting() })
	slices.SortStableFunc(out, func(a, b MessageState) int { return a.Queued.Compare(b.Queued) })
	return out
}

// HistoryOf reads the history of a session. blocks are those of the session. If they are nil, times are those of the
// facts themselves, and Fork.Message is unknown. Without captured content facts have no values and mark nothing.
func HistoryOf(s *Session, blocks *BlockSet) *History {
	h := &History{runs: map[*Run]*RunState{}, turns: map[*Turn]time.Time{}}
	h.relate(s)
	h.fork(s, blocks)
	messages, reverted := factsOfMessages(s, blocks), reverted(s)
	rewound := len(reverted) > 0
	for _, m := range messages {
		rewound = rewound || !m.Hidden.IsZero()
	}
	for _, r := range s.Runs {
		if !rewound {
			break // which is nearly always so, and spares a look at every message
		}
		h.hide(r, messages[r.ID], func(ref *Ref) (since time.Time, known bool) {
			id, node := envelopeOf(ref, blocks)
			if at, ok := reverted[runNode{r, node}]; ok && node != "" {
				return at, true
			}
			m := messages[id]
			if m == nil || id == "" {
				return reverted[runNode{nil, id}], id+node != ""
			}
			if m.Run == nil {
				m.Run = r
			}
			if m.Hidden.IsZero() {
				return reverted[runNode{nil, id}], true
			}
			return m.Hidden, true
		})
	}
	first := map[string]time.Time{} // of the times of a message
	for id, m := range messages {
		times := slices.DeleteFunc([]time.Time{m.Hidden, m.Queued, m.Canceled}, time.Time.IsZero)
		if len(times) > 0 {
			first[id] = slices.MinFunc(times, time.Time.Compare)
			h.Messages = append(h.Messages, *m)
		}
	}
	slices.SortFunc(h.Messages, func(a, b MessageState) int {
		return cmp.Or(first[a.ID].Compare(first[b.ID]), cmp.Compare(a.ID, b.ID))
	})
	return h
}

// relate finds out how runs continue from each other.
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

// hide marks the rewound content of a run. of holds the facts about the message with the id of the run, as in the
// guide. hidden returns the time from which a message in a list is rewound, and whether the message could be
// identified.
func (h *History) hide(r *Run, of *MessageState, hidden func(*Ref) (time.Time, bool)) {
	var last time.Time
	known, visible := false, false
	// rewound returns since when all messages of a list that are known are rewound, and whether any is known.
	rewound := func(l *Refs) (since time.Time, some bool) {
		all := true
		for _, ref := range l.Items() {
			if at, ok := hidden(&ref); ok {
				some, all, since = true, all && !at.IsZero(), later(since, at)
			}
		}
		if known, visible, last = known || some, visible || !all, later(last, since); !all {
			since = time.Time{}
		}
		return since, some
	}
	rewound(r.Outside)
	for _, t := range r.Turns {
		since, some := rewound(t.Output)
		if in, _ := rewound(t.Input); !some {
			since = in
		}
		if !since.IsZero() {
			h.turns[t] = since
		}
	}
	switch {
	case known && !visible:
		h.runs[r].Hidden = last
	case !known && of != nil:
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

// runNode names a node, since loops count them by run, or without a run a message.
type runNode struct {
	run *Run
	id  string
}

// reverted returns the nodes and messages that the loop itself rewound, with the time.
func reverted(s *Session) map[runNode]time.Time {
	out := map[runNode]time.Time{}
	for n := range s.Walk() {
		c := n.Compaction
		if c == nil || c.Kind != spans.CompactionKindRevert || c.Applied != nil && !*c.Applied {
			continue
		}
		for _, id := range c.Removed {
			out[runNode{n.Run, id}] = later(c.Start, c.End)
			out[runNode{nil, id}] = later(c.Start, c.End)
		}
	}
	return out
}

// envelopeOf identifies a message by its id and its node.
func envelopeOf(ref *Ref, blocks *BlockSet) (id, node string) {
	var e struct {
		ID   any             `json:"id"`
		Node json.RawMessage `json:"nodeId"`
	}
	if body, ok := blocks.Body(*ref); ok && json.Unmarshal([]byte(body), &e) == nil {
		id, _ = e.ID.(string)
		return id, string(e.Node)
	}
	return "", ""
}

// factsOfMessages returns the facts about messages, by their ids.
func factsOfMessages(s *Session, blocks *BlockSet) map[string]*MessageState {
	out := map[string]*MessageState{}
	for i := range s.Facts {
		f := &s.Facts[i]
		id, ok := strings.CutPrefix(f.Subject, SubjectMessage)
		if !ok || id == "" || s.Fact(f.Subject, f.Key) != f { // a later one counts
			continue
		}
		m := cmp.Or(out[id], &MessageState{ID: id})
		out[id] = m
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
	spans.BlockOfString("null").Short().String():  true,
	spans.BlockOfString("false").Short().String(): true,
	spans.BlockOfString("0").Short().String():     true,
}

// SinceOf returns the time from which a fact with a time holds (hidden_at, archived_at and the like). It is zero if
// the fact does not hold: its value is null, false or 0, which needs no blocks to see, or it has no value, since no
// content was captured. If the value is not among blocks, it is the time of the fact.
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
	if f == nil || f.Value == nil {
		return "", false
	}
	return blocks.Body(*f.Value)
}

// FactTime reads the value of a fact that is a time: milliseconds, a text in RFC 3339, or true for at, the time of
// the fact itself. It is zero for null, false and 0. Any other value counts as true.
func FactTime(value string, at time.Time) time.Time {
	var v any
	if json.Unmarshal([]byte(value), &v) != nil {
		return at
	}
	switch v := v.(type) {
	case float64:
		if math.Abs(v) < 9e12 && v != 0 { // what nanoseconds can say
			return time.UnixMilli(int64(v)).UTC()
		}
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return t.UTC()
		}
	}
	if v == nil || v == false || v == 0.0 {
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
	if f := s.Fact(SubjectSession, FactTitle); f != nil && f.Value != nil && !takenBack[f.Value.Block] {
		return []Ref{*f.Value}
	}
	refs := slices.DeleteFunc(s.opening(), func(ref Ref) bool {
		p, _ := spans.ParseProvenance(ref.Provenance)
		return p.Kind == spans.ProvenanceMemoryTier || p.Kind == spans.ProvenanceIdentityBlock
	})
	return refs[:min(len(refs), openingMessages)]
}

// opening returns the messages of the first request, which states where they came from, else of the first run or turn.
func (s *Session) opening() []Ref {
	for _, r := range s.Runs {
		refs := r.Outside.Items()
		for _, t := range r.Conversation() {
			if len(t.Requests) > 0 && t.Requests[0].Messages.Len() > 0 {
				return t.Requests[0].Messages.Items()
			}
			if len(refs) == 0 {
				refs = t.Input.Items()
			}
			if len(refs) > 0 {
				return refs
			}
		}
		if len(refs) > 0 {
			return refs
		}
	}
	return nil
}

// Title returns the last name of the session, else the beginning of its first user message, where blocks have it: at
// most 512 bytes of a name and 120 of a message, whole characters. Coding agents put context between tags before the
// words of the user. A message of nothing else counts only where no other message does.
func (s *Session) Title(blocks *BlockSet) (title string) {
	if v, ok := valueOf(s.Fact(SubjectSession, FactTitle), blocks); ok {
		if json.Unmarshal([]byte(v), &title) == nil && title != "" {
			return Beginning(title, maxTitle)
		}
	}
	title = ""
	for _, ref := range s.TitleRefs() {
		body, _ := blocks.Body(ref)
		for _, x := range MessageParts(body) {
			if x.By != ByUser || x.Kind != PartText || strings.TrimSpace(x.Text) == "" {
				continue
			}
			const near = 4 * maxOpening // its blanks become shorter
			text := strings.Join(strings.Fields(Beginning(withoutTags(x.Text), near)), " ")
			text = strings.TrimSpace(Beginning(text, maxOpening))
			if !strings.HasPrefix(text, "<") {
				return text
			}
			title = cmp.Or(title, text)
		}
	}
	return title
}

// openingTag is a tag at the beginning of a text.
var openingTag = regexp.MustCompile(`^\s*<([A-Za-z][\w-]*)[^<>]*>`)

// withoutTags returns a text without the elements that it begins with, the whole text where nothing follows them.
func withoutTags(text string) string {
	rest := text
	for {
		tag := openingTag.FindStringSubmatch(rest)
		if tag == nil {
			return rest
		}
		var closed bool
		if _, rest, closed = strings.Cut(rest, "</"+tag[1]+">"); !closed || strings.TrimSpace(rest) == "" {
			return text
		}
	}
}

// maxOpening bounds a title that is the beginning of a message, in bytes.
const maxOpening = 120

// Beginning returns at most n bytes of text, in whole characters. A text that was cut holds nothing of the long one.
func Beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.Clone(text[:n])
}

// Archived reports whether the session is archived.
func (s *Session) Archived() bool {
	return !SinceOf(s.Fact(SubjectSession, FactArchived), nil).IsZero()
}
