package claudecode

import (
	"bytes"
	"cmp"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// row is a line while it is read.
type row struct {
	*object.Object
	t    *transcript.Thread
	k    *talk
	text []byte // the whole line
	kind string // type and subtype
	uuid string
	at   time.Time
}

// kinds are the lines that have a meaning here, by type and subtype; all others are kept as they are. A nil one is
// known and adds nothing.
var kinds = map[string]func(*file, *row){
	"user":                         (*file).user,
	"assistant":                    (*file).assistant,
	"attachment":                   (*file).other,
	"attachment.queued_command":    (*file).queued,
	"progress":                     (*file).progress,
	"progress.agent_progress":      nil, // repeats the lines of a sub-agent
	"file-history-snapshot":        nil,
	"last-prompt":                  nil, // repeats a prompt
	"queue-operation":              (*file).other,
	"permission-mode":              nil, // state reads it
	"mode":                         (*file).other,
	"summary":                      (*file).summary,
	"custom-title":                 titled("customTitle", 3),
	"ai-title":                     titled("aiTitle", 2),
	"agent-name":                   stated("agentName", "agent_name"),
	"pr-link":                      stated("prUrl", "pr"),
	"system":                       (*file).other,
	"system.compact_boundary":      (*file).boundary,
	"system.microcompact_boundary": (*file).microcompact,
	"system.api_error":             (*file).retried,
	"system.turn_duration":         func(d *file, r *row) { r.t.End(r.at, event.RunResult{}) },
	"system.stop_hook_summary":     func(d *file, r *row) { d.other(r); r.t.Over(time.Time{}, event.RunResult{}) },
}

// known reports whether lines of that type are of Claude Code.
func known(kind string) bool { _, ok := kinds[kind]; return ok }

// line reads one line.
func (d *file) line(o *object.Object, text []byte) string {
	typ := o.String("type")
	r := &row{Object: o, text: text, kind: typ, uuid: o.String("uuid"), at: transcript.Time(o.Raw("timestamp"))}
	d.place(r)
	if r.uuid != "" {
		met, _ := d.First(r.t.Session, linePrefix+r.uuid)
		said := typ == "user" || typ == "assistant"
		if met == transcript.Repeated || met == transcript.Again && (said || uuid.MatchString(r.uuid)) {
			return ""
		}
	}
	for _, sub := range []string{o.String("subtype"), sub(o, "data"), sub(o, "attachment")} {
		if sub != "" {
			r.kind += "." + sub
			break
		}
	}
	d.state(r)
	read, ok := kinds[r.kind]
	if !ok {
		read, ok = kinds[typ]
	}
	switch {
	case !ok:
		d.other(r)
	case read != nil:
		read(d, r)
	}
	d.title(d.titles[r.uuid], 1, time.Time{})
	return typ
}

// sub returns the type of a part of a line.
func sub(o *object.Object, key string) string {
	if v := o.Raw(key); len(v) > 0 && v[0] == '{' {
		return object.Of("", v).String("type")
	}
	return ""
}

// place finds the session and the thread of a line: a sub-agent's by its id; in line, by the line above it.
func (d *file) place(r *row) {
	id, above := r.String("sessionId"), r.String("parentUuid")
	if id != "" && (d.session == "" || d.Path == "" && r.kind == "user" && above == "" && id != d.session) {
		d.session = id
	}
	agent, side := cmp.Or(r.String("agentId"), d.agent), r.Bool("isSidechain")
	switch {
	case agent != "" && (r.kind == "user" || r.kind == "assistant" || side != nil):
		r.t = d.Thread(d.session, agent)
	case side != nil && *side:
		if r.t = d.sides[above]; r.t == nil && above == "" && r.kind == "user" || r.t == nil && d.side == nil {
			if len(d.sides) > 16*maxSides {
				clear(d.sides)
			}
			r.t = d.Thread(d.session, "in line "+r.uuid)
		} else if r.t == nil {
			r.t = d.side
		}
		d.sides[r.uuid], d.side = r.t, r.t
	default:
		r.t = d.Thread(d.session, "")
	}
	if r.k = d.talks[r.t]; r.k == nil {
		if len(d.talks) > maxSides {
			clear(d.talks)
		}
		r.k = &talk{}
		d.talks[r.t] = r.k
	}
}

// state keeps what the envelope of a line says, and states what is a fact of the session.
func (d *file) state(r *row) {
	for _, c := range []struct {
		key, fact string
		to        *string
	}{{"permissionMode", "", &r.k.mode}, {"version", "", &r.k.version}, {"effort", "", &r.k.effort},
		{"cwd", "cwd", &r.k.cwd}, {"gitBranch", "git_branch", &r.k.branch}} {
		v := r.Raw(c.key)
		if len(v) == 0 || v[0] != '"' || string(v) == *c.to {
			continue
		}
		if *c.to = string(v); c.fact != "" && r.t.Name == "" && r.uuid != "" {
			d.Fact(r.t.Session, c.fact, v, r.at)
		}
	}
}

// other keeps a line as it is.
func (d *file) other(r *row) { r.t.Other(Dialect+"."+r.kind, r.text, r.at) }

// stated makes a fact of a member.
func stated(key, fact string) func(*file, *row) {
	return func(d *file, r *row) { d.Fact(r.t.Session, fact, r.Raw(key), r.at) }
}

// titled makes the title of a member. Of the titles of a session the one of the highest rank counts, then the last.
func titled(key string, rank int) func(*file, *row) {
	return func(d *file, r *row) { d.title(r.Raw(key), rank, r.at) }
}

func (d *file) title(text []byte, rank int, at time.Time) {
	if text != nil && rank >= d.rank[d.session] {
		d.rank[d.session] = rank
		d.Fact(d.session, "title", text, at)
	}
}

// summary keeps the title of the history that ends with a line until that is read: files may also hold those of earlier
// sessions.
func (d *file) summary(r *row) {
	leaf, text := r.String("leafUuid"), r.Raw("summary")
	if met, _ := d.Met(d.session, linePrefix+leaf); met == transcript.Again || met == transcript.Repeated {
		d.title(text, 1, time.Time{})
	} else if len(d.titles) < maxSides {
		d.titles[leaf] = bytes.Clone(text)
	}
}

// progress reports what a tool or hook says while it runs.
func (d *file) progress(r *row) {
	r.t.Progress(r.String("parentToolUseID"), Dialect+"."+r.kind, r.Raw("data"), r.at)
}

// queued reads a prompt or notice that waited in the queue: it steers the run, or begins one where none is at work.
func (d *file) queued(r *row) {
	a := r.Object.Object("attachment")
	content := a.Raw("prompt")
	if content == nil {
		d.other(r)
		return
	}
	m := event.Message{Raw: input.Members("role", "user", "content", content), Role: "user", Time: r.at}
	if text := transcript.Text(content); r.t.Idle() && classify(text) != prompt {
		d.begin(r, triggers[classify(text)], m)
		return
	}
	r.t.Message(m)
}

// boundary begins a compaction: its summary is the next message.
func (d *file) boundary(r *row) {
	r.k.endCompaction(nil)
	meta := r.Object.Object("compactMetadata")
	c := event.Compaction{Kind: spans.CompactionKindSummary, Trigger: meta.String("trigger"),
		InputTokens: meta.Count("preTokens")}
	res := event.CompactionResult{OutputTokens: meta.Count("postTokens"), Usage: d.claim(r.t.Session, r.at)}
	r.k.compaction = func(summary []byte) {
		res.Summary = summary
		r.t.Compact(r.uuid, r.at, c, res)
	}
}

// endCompaction reports the compaction that waits for its summary.
func (k *talk) endCompaction(summary []byte) {
	if end := k.compaction; end != nil {
		k.compaction = nil
		end(summary)
	}
}

// microcompact reports that results of tools were dropped.
func (d *file) microcompact(r *row) {
	meta := r.Object.Object("microcompactMetadata")
	r.t.Compact(r.uuid, r.at, event.Compaction{Kind: spans.CompactionKindPrune, Trigger: meta.String("trigger"),
		InputTokens: meta.Count("preTokens")}, event.CompactionResult{TokensGone: meta.Count("tokensSaved")})
}

// retried reports a call that failed and is repeated. Its record is kept, as no other call may follow.
func (d *file) retried(r *row) {
	d.other(r)
	r.t.Discard(event.DiscardedAttempt{At: event.Moment{Time: r.at}, Reason: "api_error", Error: string(r.Raw("error"))})
}
