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
// to it are the same but for their times; so legacy rollouts are read after their parents. A copy has the time of the
// fork, so that it takes the place of what was read without the parent. What a sub-agent copied is left out.
//
// # Limits
//
//   - A line: MaxLine bytes (64 MiB unless input.Settings set another number).
//   - Lines by which copies are found, and ids: 2,097,152. When there are more, the Decoder forgets those before.
//   - Runs and prompts of a thread that a rollback can hide: the last 1,024.
package codex

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "codex"

const (
	maxRecent = 1024     // runs and prompts of a thread that a rollback can hide
	maxCall   = 32 << 20 // bytes of items that a call may hold before it is a turn
	maxTools  = 1024     // tool calls of a model call that are known
	// maxRefusal is the length of the longest text of a call that was refused.
	maxRefusal = 2048
)

// Layout says where Codex keeps its rollouts.
var Layout = transcript.Layout{Dialect: Dialect, Env: "CODEX_HOME", Below: []string{"sessions", "archived_sessions"},
	Home: []string{".codex/sessions", ".codex/archived_sessions"}, Names: regexp.MustCompile(`\.jsonl(\.zst)?$`),
	Head: head}

// parentKey finds the thread that a rollout goes on from, or that spawned it. The first line may be longer than the
// head of the file, and these keys stand at several depths. No string of JSON holds a quote that is not escaped.
var parentKey = regexp.MustCompile(`"(?:parent_thread_id|forked_from_id)":"([^"\\]{1,256})"`)

func head(_ string, text []byte) (h transcript.Head) {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	o := input.OutlineOf(text)
	if Recognise(o) == "" {
		return h
	}
	h.ID = o.Text("payload", "id")
	h.Started, _ = time.Parse(time.RFC3339Nano, o.Text("payload", "timestamp"))
	if m := parentKey.FindSubmatch(line); m != nil {
		h.Parent = string(m[1])
	}
	return h
}

// NewDecoder returns a Decoder of the rollouts of a family, parents before the threads that copy them or that they
// spawned.
func NewDecoder(opts ...input.Settings) *transcript.Decoder {
	open := func(d *transcript.Decoder, _ transcript.File) (input.Reader, func() error) {
		t := &thread{e: d}
		return input.Reader{Line: d.Objects("timestamp:time! type! payload:object!", t.line), End: t.atEnd}, nil
	}
	return transcript.NewDecoder(Dialect, opts, open)
}

// digest is made of the lines of a thread up to one.
type digest [16]byte

func digestOf(parts ...[]byte) digest {
	sum := sha256.Sum256(bytes.Join(parts, nil))
	return digest(sum[:len(digest{})])
}

// line reads one line: {"timestamp":…,"ordinal":…,"type":…,"payload":{…}}.
func (t *thread) line(o *object.Object, _ []byte) string {
	typ, p, payload := o.String("type"), o.Object("payload"), o.Raw("payload")
	t.at, t.ended = o.Time("timestamp"), time.Time{}
	if typ == "session_meta" && t.Thread == nil { // a fork may copy that of its parent
		t.meta(p, payload)
	}
	switch {
	case t.Thread == nil:
		if o.Failed() == 0 {
			o.Fail("", "want a line of type session_meta before it")
		}
	case t.copied(typ, p, payload, o.Count("ordinal")):
		if p.String("type") == "token_count" {
			t.total = t.counts(p.Object("info").Object("total_token_usage"))
		}
	default:
		kind := p.String("type")
		if typ != "event_msg" && typ != "response_item" {
			kind = typ
		}
		if !t.record(typ, kind, p, payload) {
			t.Other(kind, payload, t.at)
		}
	}
	return ""
}

// copied reports whether a line is one of the parent that a sub-agent inherited, and notes whether it is a copy.
func (t *thread) copied(typ string, p *object.Object, payload []byte, ordinal *int64) bool {
	switch {
	case t.parent != "" && (ordinal != nil && *ordinal < t.own || t.at.Before(t.born) || p.String("thread_id") != "" &&
		typ == "token_usage_record" && p.String("thread_id") != t.Session):
		return true
	case ordinal != nil:
		t.chain = digestOf(strconv.AppendInt([]byte(t.Session+" "), *ordinal, 10))
		return false
	case typ == "response_item", typ == "event_msg", typ == "compacted", typ == "token_usage_record":
	default: // others are written anew
		return t.copying && t.parent != ""
	}
	t.chain = digestOf(t.chain[:], []byte(typ), payload)
	owner, _ := t.e.First(t.Session, "line "+string(t.chain[:]))
	copying := owner != "" && owner != t.Session
	if t.copying && !copying && t.parent == "" {
		t.leave(t.Split) // a copy, from what the fork adds to it
	}
	t.copying = copying
	return copying && t.parent != ""
}

// meta begins a thread with its first line.
func (t *thread) meta(p *object.Object, payload []byte) {
	e, id := t.e, p.String("id")
	if !p.Require("id") || id == "" {
		return
	}
	spawn := object.Of("", object.Of("", object.Of("", p.Raw("source")).Raw("subagent")).Raw("thread_spawn"))
	t.Thread, t.born, t.forked = e.Thread(id, ""), p.Time("timestamp"), p.String("forked_from_id")
	t.provider, t.based = p.String("model_provider"), p.Has("history_base")
	t.parent = cmp.Or(p.String("parent_thread_id"), spawn.String("parent_thread_id"))
	if role := spawn.String("agent_role"); builtIn[role] {
		t.agent = role
	}
	if n := p.Count("subagent_history_start_ordinal"); n != nil {
		t.own = *n
	}
	above := cmp.Or(t.parent, t.forked, id)
	root, _ := e.Met("thread " + above)
	t.orphan = root == "" && t.forked != "" && t.parent == "" && !t.based
	root = cmp.Or(root, above)
	e.First(root, "thread "+id)
	t.chain = digestOf([]byte(root))
	e.Fact(id, "cwd", p.Raw("cwd"), t.at)
	e.Fact(id, "git_branch", object.Of("", p.Raw("git")).Raw("branch"), t.at)
	e.Fact(id, "version", p.Raw("cli_version"), t.at)
	e.Fact(id, "codex.session_meta", payload, t.at)
}

// builtIn are the roles of agents that users cannot name.
var builtIn = map[string]bool{"default": true, "explorer": true, "worker": true, "awaiter": true}

// short returns the id of a run or call that has none, from the lines up to it: a copy has the same.
func (d digest) short(kind string) string { return kind + "-" + hex.EncodeToString(d[:8]) }

// Recognise returns why a line, which may be cut, is the first of a rollout; empty when it is none.
func Recognise(o input.Outline) (why string) {
	if o.Text("", "type") == "session_meta" && o.First("", "payload") == '{' {
		return "lines with type session_meta and a payload"
	}
	return ""
}
