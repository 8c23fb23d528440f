package export

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// acpDialect is the dialect of sessions that were told from the wire of ACP, by package dialects/acp.
const acpDialect = "acp"

// ACP writes s as a trace of version 1 of the Agent Client Protocol: a line a message, {"ts":...,"direction":...,"message":{...}} (docs/formats.md
// says what becomes of what). No such messages were exchanged, unless s was told from ACP itself: the trace is a reconstruction, which the
// _meta of its first message says, and its times are those of the tree.
//
// It is made of the rows of Guide, always from the tree, and what they do not say from the tree itself. Of opts it heeds Partial and Progress. Content
// that is missing is treated as JSON does, and so are ctx and w. Besides, what is returned counts what ACP has no place for. In memory is a turn at
// a time, what Guide says, and the ids of tool calls. A session that came from ACP gives back what it held; what was not valid there is not
// made valid.
func ACP(ctx context.Context, w io.Writer, s *session.Session, bodies Bodies, opts Options) ([]Missing, error) {
	g, err := newGuide(ctx, s, bodies, opts, false)
	if err != nil {
		return missingOf(err), err
	}
	t := &trace{
		g: g, w: bufio.NewWriterSize(w, 1<<16), left: map[string]int{}, calls: map[string]bool{},
		written: map[*session.Compaction]bool{}, costs: map[string]float64{},
		waiting: map[direction]map[string]int64{toAgent: {}, toClient: {}}, next: map[direction]int64{},
	}
	t.fromACP = slices.ContainsFunc(s.Runs, func(r *session.Run) bool { return r.Dialect == acpDialect })
	if err := t.plan(); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return missingOf(err), err
	}
	if err := t.all(); err != nil {
		return t.missing(), err
	}
	return t.missing(), flushed(t.w, s)
}

// direction is who a message goes to.
type direction string

const (
	toAgent  direction = "client_to_agent"
	toClient direction = "agent_to_client"
)

func (d direction) back() direction {
	if d == toAgent {
		return toClient
	}
	return toAgent
}

// wire is one message to be.
type wire struct {
	at time.Time
	// seq orders messages of one time; only those of sessions that came from ACP have one.
	seq    int64
	dir    direction
	method string // empty: a response
	params []byte
	// reply is the name under which a request waits for its response, which has it too. A notification has none.
	reply         string
	result, error []byte
}

// trace is one walk over the units of a guide.
type trace struct {
	g       *Guide
	w       *bufio.Writer
	fromACP bool
	cwd     string

	next    map[direction]int64            // ids of requests
	waiting map[direction]map[string]int64 // requests without a response, by their name
	queue   []wire                         // of the step that is put together
	calls   map[string]bool                // ids of tool calls that were given out
	decided []*session.Permission          // those of the turn of the step, that no call has

	skip    []bool               // by unit: it is not part of the conversation as it stands
	last    map[*session.Run]int // the last unit of each run
	byID    map[*session.Compaction]int
	written map[*session.Compaction]bool

	facts  []*session.Fact
	asked  map[factPlace]bool // where facts tell of a request, which says what it changed
	replay []byte             // updates that came with a session/load
	opened []byte             // what initialize said last

	open  *prompt
	said  []byte // content blocks that no prompt was made of yet, each behind a comma
	of    *unit  // the first of the messages that they are from
	now   int    // the unit that is written
	used  int64  // tokens in the model's context
	costs map[string]float64
	// costless says that a turn did not tell its cost.
	costless bool

	left map[string]int // what was left out, and how often
}

type factPlace struct {
	at  int64
	seq int64
}

// plan finds out what is part of the conversation, what is last of each run, and which facts there are to tell.
func (t *trace) plan() error {
	g := t.g
	t.last, t.byID, t.asked = map[*session.Run]int{}, map[*session.Compaction]int{}, map[factPlace]bool{}
	t.skip = make([]bool, len(g.units))
	for i := range g.units {
		u := &g.units[i]
		var err error
		if t.skip[i], err = t.skips(u); err != nil {
			return err
		}
		switch {
		case u.kind == unitCompaction:
			t.byID[u.compaction] = i
		case !t.skip[i]:
			t.last[u.run] = i
		case u.role == "system" && u.hidden == 0:
			t.lacks("messages of the role system")
		}
	}
	for _, r := range g.s.Runs {
		for _, x := range r.Permissions {
			if asked(x) && r.Dialect != acpDialect {
				t.lacks(noCall)
			}
		}
	}
	for i := range g.s.Facts {
		f := &g.s.Facts[i]
		if f.Subject != "session" {
			continue
		}
		switch _, fromACP := strings.CutPrefix(f.Key, "acp."); {
		case fromACP:
			t.fromACP = true
			if slices.Contains(exchanges, strings.TrimPrefix(f.Key, "acp.")) {
				t.asked[placeOfFact(f)] = true
			}
		case f.Key == "title", f.Key == "updated_at", f.Key == "mode", f.Key == "config_options", f.Key == "available_commands":
		default:
			continue
		}
		t.facts = append(t.facts, f)
	}
	slices.SortStableFunc(t.facts, func(a, b *session.Fact) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Key, b.Key))
	})
	return nil
}

const noCall = "questions that are about no tool call"

func placeOfFact(f *session.Fact) factPlace { return factPlace{f.At.UnixNano(), f.Seq} }

// skips reports whether a row is not part of the conversation as it stands: rewound, queued or taken off the queue. Of a run that only compacts
// there is nothing else to tell.
func (t *trace) skips(u *unit) (bool, error) {
	switch {
	case u.hidden > 0, u.kind == unitMessage && u.role == "system", t.compacts(u):
		return true, nil
	case u.kind == unitMessage:
		for _, key := range []string{"queued_at", "queue_canceled_at"} {
			if at, known, err := t.g.timeFact(u, key); err != nil || known && at > 0 {
				return true, err
			}
		}
	}
	return false, nil
}

// compacts reports whether a row is that of a run that does nothing else.
func (t *trace) compacts(u *unit) bool {
	return u.kind == unitReply && len(u.steps) == 0 && (len(u.run.Compactions) > 0 || u.run.Continuation == spans.ContinuationCompaction)
}

// lacks counts something that ACP has no place for.
func (t *trace) lacks(what string) {
	const most = 64
	if len(t.left) == most && t.left[what] == 0 {
		what = "others"
	}
	t.left[what]++
}

// missing is what Guide.Missing names, and what was left out.
func (t *trace) missing() []Missing {
	l := t.g.Missing()
	for _, what := range slices.Sorted(maps.Keys(t.left)) {
		l = append(l, Missing{Where: t.g.s.ID, What: fmt.Sprintf("ACP has no place for %s (%d)", what, t.left[what])})
	}
	return l
}

func (t *trace) all() error {
	g := t.g
	if err := t.begin(); err != nil {
		return err
	}
	for i := range g.units {
		if err := g.ctx.Err(); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := t.unit(i); err != nil {
			return err
		}
		if _, err := t.w.Write(nil); err != nil { // one that sticks
			return fmt.Errorf("export: write session %s: %w", g.s.ID, err)
		}
		if f := g.opts.Progress; f != nil {
			f(i+1, len(g.units))
		}
	}
	if err := t.unanswered(false); err != nil {
		return err
	}
	if err := t.end(false); err != nil {
		return err
	}
	return t.tellFacts(nil)
}

// tell writes a message, behind the facts that were true before it.
func (t *trace) tell(m wire) error {
	if err := t.tellFacts(&m); err != nil {
		return err
	}
	t.write(&m)
	return nil
}

// tellQueue writes the messages of the queue in the order of time.
func (t *trace) tellQueue() error {
	slices.SortStableFunc(t.queue, func(a, b wire) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.seq, b.seq)) })
	for i := range t.queue {
		if err := t.tell(t.queue[i]); err != nil {
			return err
		}
	}
	clear(t.queue)
	t.queue = t.queue[:0]
	return nil
}

// write writes a message and numbers requests. A response whose request is not there is left out.
func (t *trace) write(m *wire) {
	for _, v := range [][]byte{m.params, m.result, m.error} {
		if v != nil && !json.Valid(v) { // a body that is not what its place says
			t.lacks("a message that is no JSON")
			return
		}
	}
	var o object
	o.str("jsonrpc", "2.0")
	switch {
	case m.method == "":
		id, ok := t.waiting[m.dir.back()][m.reply]
		if !ok {
			t.lacks("a response without its request")
			return
		}
		delete(t.waiting[m.dir.back()], m.reply)
		o.int("id", id)
		if m.error != nil {
			o.raw("error", m.error)
		} else {
			o.raw("result", m.result)
		}
	default:
		if m.reply != "" {
			id := t.next[m.dir]
			t.next[m.dir]++
			t.waiting[m.dir][m.reply] = id
			o.int("id", id)
		}
		o.str("method", m.method)
		if m.params != nil {
			o.raw("params", m.params)
		}
	}
	var line object
	line.str("ts", m.at.UTC().Format(time.RFC3339Nano))
	line.str("direction", string(m.dir))
	line.raw("message", o.bytes())
	var one bytes.Buffer
	_ = json.Compact(&one, line.bytes()) // which is JSON, since all that is put in was
	_, _ = t.w.Write(bytes.ToValidUTF8(one.Bytes(), []byte("\uFFFD")))
	_ = t.w.WriteByte('\n')
}

// update makes a session/update.
func (t *trace) update(at time.Time, seq int64, update []byte) wire {
	var o object
	o.str("sessionId", t.g.s.ID)
	o.raw("update", update)
	return wire{at: at, seq: seq, dir: toClient, method: "session/update", params: o.bytes()}
}
