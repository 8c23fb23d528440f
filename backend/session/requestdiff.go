package session

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
	"github.com/aymanbagabas/go-udiff/lcs"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// RequestDiff says what changed from one request to another.
type RequestDiff struct {
	// Same is how many first messages both have in common.
	Same int64 `json:"same"`
	// Added are messages of the later request only, Removed of the earlier one only. Changed stand in both at one place in the history
	// (their provenance) with another body. Moved stand in both, in another order.
	Added   []Message       `json:"added,omitempty"`
	Removed []Message       `json:"removed,omitempty"`
	Changed []MessageChange `json:"changed,omitempty"`
	Moved   []MessageChange `json:"moved,omitempty"`
	// Compactions lie between the two turns and may be why messages are gone or others; none where every message stayed.
	Compactions []*Compaction `json:"compactions,omitempty"`
	// System says how the system prompt changed: by its sections where both requests name them, else by lines.
	System []TextChange `json:"system,omitempty"`
	// Tools by name, and all other parameters by key.
	Tools  []TextChange  `json:"tools,omitempty"`
	Params []ParamChange `json:"params,omitempty"`
	// Unknown names what could not be compared because something of it is missing: messages, system, tools, rest.
	Unknown []string `json:"unknown,omitempty"`
}

// MessageChange is a message as it was and as it is.
type MessageChange struct {
	Before Message `json:"before"`
	After  Message `json:"after"`
}

// TextChange is a change of something that has a name.
type TextChange struct {
	// Name of the section or tool; empty for the whole system prompt.
	Name string `json:"name,omitempty"`
	// Change is added, removed or changed.
	Change string `json:"change"`
	// Lines is a unified diff of what changed.
	Lines string `json:"lines,omitempty"`
}

// ParamChange is a change of one parameter; Before or After is empty where there was none.
type ParamChange struct {
	Key    string  `json:"key"`
	Before RawJSON `json:"before,omitempty"`
	After  RawJSON `json:"after,omitempty"`
}

// Words of TextChange.Change.
const (
	changeAdded   = "added"
	changeRemoved = "removed"
	changeChanged = "changed"
)

// DiffRequests says what changed from request a to request b of s, whose blocks these are. What cannot be told because it is missing
// is named in Unknown. Bodies of messages are not needed: messages are compared by their ids.
func (s *Session) DiffRequests(a, b *Request, blocks *BlockSet) RequestDiff {
	var d RequestDiff
	d.messages(a, b, blocks)
	if len(d.Removed)+len(d.Changed)+len(d.Moved) > 0 {
		d.Compactions = s.compactionsBetween(a, b)
	}
	d.system(a, b, blocks)
	d.tools(a, b, blocks)
	d.params(a, b, blocks)
	return d
}

func (d *RequestDiff) messages(a, b *Request, blocks *BlockSet) {
	if a.Messages == nil || b.Messages == nil || !a.Messages.Complete || !b.Messages.Complete {
		d.Unknown = append(d.Unknown, "messages")
		return
	}
	if (a.Messages.end == nil) == (b.Messages.end == nil) { // always so in one session
		d.Same = shared(a.Messages, b.Messages)
	}
	before, after := a.Messages.From(d.Same), b.Messages.From(d.Same)
	ids := func(l []Ref) []string {
		out := make([]string, len(l))
		for i := range l {
			out[i] = l[i].Block
		}
		return out
	}
	var removed, added []Message
	read := func(refs []Ref, i int) Message { return readMessage(blocks, refs[i], int(d.Same)+i) }
	i, j := 0, 0
	same := func(end int) { // what an edit to an item's provenance or envelope leaves
		for ; i < end; i, j = i+1, j+1 {
			if before[i] != after[j] {
				d.Changed = append(d.Changed, MessageChange{read(before, i), read(after, j)})
			}
		}
	}
	for _, e := range lcs.DiffLines(ids(before), ids(after)) {
		same(e.Start)
		for ; i < e.End; i++ {
			removed = append(removed, read(before, i))
		}
		for ; j < e.ReplEnd; j++ {
			added = append(added, read(after, j))
		}
	}
	same(len(before))

	block := func(m *Message) string { return m.Block }
	d.Moved, removed, added = pairs(removed, added, block, nil)
	place := func(m *Message) string { return m.Provenance }
	changed, removed, added := pairs(removed, added, place, func(m *Message) bool {
		switch m.Source.Kind { // the others name no place
		case spans.ProvenanceLoopTurn, spans.ProvenanceIdentityBlock, spans.ProvenanceMemoryTier, spans.ProvenanceSystemPrompt:
			return true
		}
		return false
	})
	d.Changed = append(d.Changed, changed...)
	slices.SortStableFunc(d.Changed, func(x, y MessageChange) int { return x.After.Position - y.After.Position })
	d.Removed, d.Added = removed, added
}

// pairs takes out of removed and added those of one key, each once and in order.
func pairs(removed, added []Message, key func(*Message) string, may func(*Message) bool) (found []MessageChange, _, _ []Message) {
	waiting := map[string][]int{}
	for i := range removed {
		if may == nil || may(&removed[i]) {
			k := key(&removed[i])
			waiting[k] = append(waiting[k], i)
		}
	}
	gone := map[int]bool{}
	rest := added[:0]
	for i := range added {
		k := key(&added[i])
		if l := waiting[k]; len(l) > 0 {
			found = append(found, MessageChange{removed[l[0]], added[i]})
			gone[l[0]] = true
			waiting[k] = l[1:]
			continue
		}
		rest = append(rest, added[i])
	}
	left := removed[:0]
	for i := range removed {
		if !gone[i] {
			left = append(left, removed[i])
		}
	}
	return found, left, rest
}

// compactionsBetween returns the compactions that began after the turn of a began and before the turn of b was over, in their runs and
// those between them, and were applied as far as is known.
func (s *Session) compactionsBetween(a, b *Request) []*Compaction {
	runA, turnA := s.turnOf(a)
	runB, turnB := s.turnOf(b)
	if turnA == nil || turnB == nil {
		return nil
	}
	if runB < runA || runB == runA && turnB.Start.Before(turnA.Start) {
		return nil // b is the earlier one
	}
	from, to := turnA.Start, turnB.End
	var out []*Compaction
	add := func(l []*Compaction) {
		for _, c := range l {
			if !c.Start.Before(from) && (to.IsZero() || !c.Start.After(to)) && (c.Applied == nil || *c.Applied) {
				out = append(out, c)
			}
		}
	}
	for _, r := range s.Runs[runA : runB+1] {
		add(r.Compactions)
		for _, t := range r.Turns {
			add(t.Compactions)
		}
	}
	slices.SortStableFunc(out, func(x, y *Compaction) int { return x.Start.Compare(y.Start) })
	return out
}

func (s *Session) turnOf(q *Request) (run int, turn *Turn) {
	for i, r := range s.Runs {
		for _, t := range r.Turns {
			if slices.Contains(t.Requests, q) {
				return i, t
			}
		}
	}
	return 0, nil
}

// param returns the item of the params list that is of a kind, and its body; known is false when it may be there and is not known.
func (r *Request) param(blocks *BlockSet, kind spans.ProvenanceKind) (block, body string, known bool) {
	if r.Params == nil || !r.Params.Complete {
		return "", "", false
	}
	for _, ref := range r.Params.Items() {
		if ref.Provenance == string(kind) {
			body, ok := blocks.Body(ref)
			return textBlock(ref, body, ok), body, ok
		}
	}
	return "", "", true
}

// heldRequest is a request and the blocks of its session.
type heldRequest struct {
	*Request
	blocks *BlockSet
}

// changedParam returns the bodies of one kind where they differ and both are known.
func changedParam(a, b heldRequest, kind spans.ProvenanceKind) (before, after string, changed, known bool) {
	blockA, before, knownA := a.param(a.blocks, kind)
	blockB, after, knownB := b.param(b.blocks, kind)
	if blockA == blockB && blockA != "" {
		return "", "", false, true
	}
	if !knownA || !knownB {
		return "", "", false, false
	}
	return before, after, before != after, true
}

// changedParam is the function, and names in Unknown what is not known.
func (d *RequestDiff) changedParam(a, b *Request, blocks *BlockSet, kind spans.ProvenanceKind) (before, after string, changed bool) {
	before, after, changed, known := changedParam(heldRequest{a, blocks}, heldRequest{b, blocks}, kind)
	if !known {
		d.Unknown = append(d.Unknown, string(kind))
	}
	return before, after, changed
}

// system compares the system prompts.
func (d *RequestDiff) system(a, b *Request, blocks *BlockSet) {
	before, after, changed := d.changedParam(a, b, blocks, spans.ProvenanceSystem)
	if changed {
		d.System = textChanges(changedSystem(before, after))
	}
}

// changedSystem returns what changed of system prompts that differ.
func changedSystem(before, after string) []namedChange {
	return []namedChange{{"", before != "", after != "", spoken(before), spoken(after)}}
}

// namedText is a section or a tool.
type namedText struct{ name, text string }

// spoken returns what a JSON string says, and any other text as it is.
func spoken(raw string) string {
	if rawjson.Valid([]byte(raw), rawjson.MaxDepth) == nil {
		if text, ok := rawjson.String(bytes.TrimSpace([]byte(raw))); ok {
			return text
		}
	}
	return raw
}

func (d *RequestDiff) tools(a, b *Request, blocks *BlockSet) {
	before, after, changed := d.changedParam(a, b, blocks, spans.ProvenanceTools)
	if changed {
		d.Tools = textChanges(changedTools(before, after))
	}
}

// changedTools returns what changed of catalogues that differ.
func changedTools(before, after string) []namedChange {
	if l := named(tools(before), tools(after)); len(l) > 0 {
		return l
	}
	return []namedChange{{"", before != "", after != "", before, after}} // another order, or no catalogue that names tools
}

// tools returns the entries of a catalogue by name, as phi-core, Anthropic (name) and OpenAI (function.name) spell it.
func tools(raw string) []namedText {
	if rawjson.Valid([]byte(raw), rawjson.MaxDepth) != nil {
		return nil
	}
	var l []namedText
	c := rawjson.NewCursor([]byte(raw), rawjson.MaxDepth)
	for c.Open('['); c.More(']'); {
		value := c.Value()
		name := member(value, "name")
		if name == nil {
			name = member(member(value, "function"), "name")
		}
		if text, ok := rawjson.String(name); ok {
			l = append(l, namedText{text, indented(value)})
		}
	}
	return l
}

// indented spreads JSON over lines, so that a diff shows what changed in it.
func indented(value []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, value, "", "  ") != nil {
		return string(value)
	}
	return b.String()
}

// member returns the value of a member of a JSON object, or nil.
func member(object []byte, key string) (found []byte) {
	c := rawjson.NewCursor(object, rawjson.MaxDepth)
	if !c.Open('{') {
		return nil
	}
	for c.More('}') {
		name := string(c.Key())
		if value := c.Value(); name == key {
			found = value
		}
	}
	return found
}

// namedChange is a text that was, or is, or both, and is another one.
type namedChange struct {
	name          string
	was, is       bool
	before, after string
}

// named compares texts by their names; of one name those in order.
func named(before, after []namedText) []namedChange {
	waiting := map[string][]string{}
	for _, t := range before {
		waiting[t.name] = append(waiting[t.name], t.text)
	}
	var l []namedChange
	for _, t := range after {
		old := waiting[t.name]
		switch {
		case len(old) == 0:
			l = append(l, namedChange{t.name, false, true, "", t.text})
			continue
		case old[0] != t.text:
			l = append(l, namedChange{t.name, true, true, old[0], t.text})
		}
		waiting[t.name] = old[1:]
	}
	for _, t := range before {
		if old := waiting[t.name]; len(old) > 0 {
			l = append(l, namedChange{t.name, true, false, old[0], ""})
			waiting[t.name] = old[1:]
		}
	}
	return l
}

// word returns the word of TextChange.Change.
func (n *namedChange) word() string {
	switch {
	case !n.was:
		return changeAdded
	case !n.is:
		return changeRemoved
	}
	return changeChanged
}

func textChanges(changes []namedChange) []TextChange {
	l := make([]TextChange, len(changes))
	for i := range changes {
		l[i] = textChange(&changes[i])
	}
	return l
}

func textChange(n *namedChange) TextChange {
	c := TextChange{Name: n.name, Change: n.word()}
	before, after := ended(n.before), ended(n.after)
	c.Lines, _ = udiff.ToUnified("before", "after", before, udiff.Lines(before, after), udiff.DefaultContextLines) // its own edits fit
	return c
}

// ended returns text with an end to its last line.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

func (d *RequestDiff) params(a, b *Request, blocks *BlockSet) {
	before, after, changed := d.changedParam(a, b, blocks, spans.ProvenanceRest)
	if !changed {
		return
	}
	x, y := members(before), members(after)
	for _, m := range x {
		i := slices.IndexFunc(y, func(o namedText) bool { return o.name == m.name })
		switch {
		case i < 0:
			d.Params = append(d.Params, ParamChange{Key: m.name, Before: RawJSON(m.text)})
		case y[i].text != m.text:
			d.Params = append(d.Params, ParamChange{Key: m.name, Before: RawJSON(m.text), After: RawJSON(y[i].text)})
		}
	}
	for _, m := range y {
		if !slices.ContainsFunc(x, func(o namedText) bool { return o.name == m.name }) {
			d.Params = append(d.Params, ParamChange{Key: m.name, After: RawJSON(m.text)})
		}
	}
}

// members returns those of a JSON object, each key once.
func members(raw string) []namedText {
	if rawjson.Valid([]byte(raw), rawjson.MaxDepth) != nil {
		return nil
	}
	var l []namedText
	c := rawjson.NewCursor([]byte(raw), rawjson.MaxDepth)
	for c.Open('{'); c.More('}'); {
		key := string(c.Key())
		if value := c.Value(); len(l) < 1024 {
			l = append(l, namedText{key, string(value)})
		}
	}
	return l
}
