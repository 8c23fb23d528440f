// Package codex reads the rollouts of OpenAI Codex (CODEX_HOME/sessions, archived_sessions) and turns them into events
// of package otelagent: rollout-*.jsonl of both history modes, legacy and paginated, also compressed.
//
// A rollout is one thread: a session of its own, also where a sub-agent wrote it. The reader goes through its lines
// once, in their order:
//
//   - A task is a run. In old rollouts, which state no tasks, a prompt behind a reply that asked for no tool begins
//     one. Other prompts steer the open run.
//   - Items of the model are gathered as a call until its usage is known: a token_usage_record or, in rollouts that
//     have none, an advance of total_token_usage. The call is a turn as soon as something follows that only a turn has.
//     A record "compacted" makes it the call of a compaction instead.
//   - Order and content come from response_items, exit codes and times of tools from events.
//
// Forks and sub-agents copy the history of their parent. A line is the copy of one that was read before if all lines up
// to it are the same but for their times; so legacy rollouts are read after their parents, and copies have the parent's
// times. What a sub-agent copied is left out.
//
// # Limits
//
//   - A line: MaxLine bytes (64 MiB unless input.WithMaxLine sets another number).
//   - Lines by which copies are found: 1,048,576. When there are more, the Decoder forgets those before.
//   - Threads: 4,096, then the Decoder forgets them. Runs of a thread that a rollback can hide: the last 64.
package codex

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"iter"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "codex"

const (
	maxLines   = 1 << 20 // by which copies are found
	maxThreads = 4096
	maxRecent  = 64 // runs of a thread that a rollback can hide
)

// Events reads a rollout from r until its end. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[event.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads the rollouts of a family, parents before the threads that copy them or that they spawned. Not safe
// for concurrent use.
type Decoder struct{ r reader }

// NewDecoder returns a Decoder that has read no rollout.
func NewDecoder(opts ...input.Option) *Decoder {
	d := &Decoder{reader{Shell: input.NewShell(Dialect, ndjson.Read, opts...), names: map[string]map[string]name{},
		threads: map[string]*thread{}, lines: map[digest]origin{}, sum: sha256.New()}}
	d.r.e = transcript.NewEmitter(&d.r.Shell)
	return d
}

// Stats returns what was read so far.
func (d *Decoder) Stats() input.Stats { return d.r.Stats }

// Next says which file the next call of Events reads.
func (d *Decoder) Next(f transcript.File) {
	d.r.e.Next(f)
	if d.r.th = nil; f.Offset > 0 {
		d.r.th = d.r.threads[f.ID]
	}
}

// Events reads r until its end, as [input.Decoder] describes. It is a new rollout, unless Next said that it goes on.
func (d *Decoder) Events(r io.Reader) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if d.r.e.File.Offset == 0 {
			d.r.th = nil
		}
		d.r.Shell.Events(r, input.Reader{Line: d.r.line, End: d.r.end})(yield)
	}
}

type digest [16]byte

// origin is where a line was read first: in which thread, and when it was written.
type origin struct {
	thread *thread
	at     time.Time
}

// reader is a Decoder behind its methods.
type reader struct {
	input.Shell
	e       *transcript.Emitter
	th      *thread // of the file at hand; nil before its session_meta
	threads map[string]*thread
	lines   map[digest]origin
	names   map[string]map[string]name // of threads, by the folder of the index
	sum     hash.Hash
}

// line reads one line: {"timestamp":…,"ordinal":…,"type":…,"payload":{…}}.
func (d *reader) line(line input.Line) {
	o := d.Object(line)
	if o == nil {
		return
	}
	o.Require("timestamp", "type", "payload")
	typ, at, ordinal, p := o.String("type"), o.Time("timestamp"), o.Count("ordinal"), o.Object("payload")
	if d.RejectProblems("", o) {
		return
	}
	if t := d.th; t != nil {
		t.at = at
	}
	if typ == "session_meta" && d.th == nil { // a fork may copy that of its parent
		d.meta(p, at, o.Raw("payload"))
	}
	t := d.th
	switch {
	case t == nil:
		if o.Failed() == 0 {
			d.Reject(&input.LineError{Reason: "want a line of type session_meta before it"})
		}
	case d.copied(t, typ, p, o.Raw("payload"), ordinal):
		if p.String("type") == "token_count" {
			t.total = t.counts(p.Object("info").Object("total_token_usage"))
		}
	default:
		t.record(typ, p, o.Raw("payload"))
	}
	d.Stats.Events++
	d.RejectProblems("", o)
}

// copied reports whether a line is one of the parent that a sub-agent inherited. Of a fork it sets the time of a copied
// line to that of its original.
func (d *reader) copied(t *thread, typ string, p *object.Object, payload []byte, ordinal *int64) bool {
	switch {
	case t.parent != "" && (ordinal != nil && *ordinal < t.own || t.at.Before(t.born) || p.String("thread_id") != "" &&
		typ == "token_usage_record" && p.String("thread_id") != t.Session):
		return true
	case ordinal != nil:
		return false
	case typ == "response_item", typ == "event_msg", typ == "compacted", typ == "token_usage_record":
	default: // others are written anew
		return t.copying && t.parent != ""
	}
	d.sum.Reset()
	_, _ = d.sum.Write(t.chain[:])
	_, _ = io.WriteString(d.sum, typ)
	_, _ = d.sum.Write(payload)
	copy(t.chain[:], d.sum.Sum(nil))
	first, met := d.lines[t.chain]
	if !met || first.thread.Session == t.Session {
		if len(d.lines) == maxLines {
			clear(d.lines)
		}
		d.lines[t.chain] = origin{t, t.at}
		if t.copying && t.parent == "" {
			t.end(time.Time{}, event.RunResult{Status: spans.RunStatusAborted}) // what follows is the fork's own
		}
		t.copying = false
		return false
	}
	t.at, t.copying = first.at, true
	return t.parent != ""
}

// meta begins a thread with its first line.
func (d *reader) meta(p *object.Object, at time.Time, payload []byte) {
	spawn := object.Of("", object.Of("", object.Of("", p.Raw("source")).Raw("subagent")).Raw("thread_spawn"))
	id := p.String("id")
	if !p.Require("id") || id == "" {
		return
	}
	t := &thread{Thread: d.e.Thread(id, ""), d: d, at: at, born: p.Time("timestamp"), forked: p.String("forked_from_id"),
		provider: p.String("model_provider"), based: p.Has("history_base")}
	t.parent = cmp.Or(p.String("parent_thread_id"), spawn.String("parent_thread_id"))
	if role := spawn.String("agent_role"); builtIn[role] {
		t.agent = role
	}
	if n := p.Count("subagent_history_start_ordinal"); n != nil {
		t.own = *n
	}
	t.root = cmp.Or(t.parent, t.forked, id)
	if from := d.threads[t.root]; from != nil {
		t.root = from.root
	} else {
		t.orphan = t.forked != "" && t.parent == "" && !t.based
	}
	sum := sha256.Sum256([]byte(t.root))
	copy(t.chain[:], sum[:])
	if len(d.threads) == maxThreads {
		clear(d.threads)
	}
	d.th, d.threads[id] = t, t
	d.e.Fact(id, "cwd", p.Raw("cwd"), at)
	d.e.Fact(id, "git_branch", object.Of("", p.Raw("git")).Raw("branch"), at)
	d.e.Fact(id, "version", p.Raw("cli_version"), at)
	d.e.Fact(id, "codex.session_meta", payload, at)
	if n := d.name(id); n.text != nil {
		d.e.Fact(id, "title", n.text, n.at)
	}
}

// builtIn are the roles of agents that users cannot name.
var builtIn = map[string]bool{"default": true, "explorer": true, "worker": true, "awaiter": true}

// end is the end of an input.
func (d *reader) end() {
	if d.th != nil {
		d.th.atEnd()
	}
	d.e.Finish()
}

// short returns the id of a run or call that has none, from the lines up to it: a copy has the same.
func (d digest) short(kind string) string { return kind + "-" + hex.EncodeToString(d[:8]) }

// Recognise returns why a line, which may be cut, is the first of a rollout; empty when it is none.
func Recognise(o input.Outline) (why string) {
	if o.Text("", "type") == "session_meta" && o.First("", "payload") == '{' {
		return "lines with type session_meta and a payload"
	}
	return ""
}
