// Package transcript holds what the dialects share that read the files which coding agents keep of their sessions.
//
// Such files have much in common. One model call is in several records, each with the usage of the whole call.
// Files copy each other: forks, resumed sessions, sub-agents that inherit a context. A session has companions: files of
// its sub-agents, large outputs. So a Decoder reads a family of files (Family), oldest first, parents before children.
// The part of a dialect in it, a Reader a file, reports to one Decoder what the records say. The Decoder finds copies
// by id, merges the records of a call, closes what a record implies to be over, and emits the events:
//
//	t := d.Thread(session, "")                      // the conversation of a session, or of a sub-agent in it
//	t.Begin(transcript.Run{RunInfo: event.RunInfo{ID: prompt}, At: at, Trigger: spans.TriggerUser})
//	t.Message(event.Message{Raw: raw, Role: "user"})
//	if t.Call(transcript.Call{ID: id, At: at, Blocks: blocks}) { // each record of the call
//		t.Tool(event.ToolCall{ID: call, Name: name, Args: args}, at)
//	}
//	t.Result(transcript.Result{CallID: call, At: at, ToolResult: result})
//	t.End(at, event.RunResult{Status: spans.RunStatusCompleted})
//	d.Finish()                                      // at the end of each file
//
// # Copies
//
// An id is where it was met first. In the same file it is another record of the same call. In another file of the same
// session it is a duplicate, which the Decoder drops. In another session it is a copy: the run is RunInfo.Copied and in
// no sum. The Decoder keeps 8 bytes of the SHA-256 of each id, so its memory does not grow with the content.
package transcript

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// Bounds of what an Decoder keeps.
const (
	maxIDs      = 1 << 21 // digests of ids
	maxThreads  = 4096
	maxChildren = 1 << 16
	maxPending  = 256      // messages and other records before a call or run
	maxTurn     = 32 << 20 // bytes of reply and results of a turn
)

// Decoder reads the files of one family, parents before children, or single ones, and makes events of what their
// records say. Not safe for concurrent use.
type Decoder struct {
	*input.Shell
	// Shared is what a dialect keeps of all files.
	Shared any

	open     func(*Decoder, File) (input.Reader, func() error)
	files    map[string]*source // by path
	from     *source            // at hand
	inputs   int32
	ids      map[digest]*place     // where each was met first
	place    *place                // of the last one
	threads  map[[2]string]*Thread // by session and name
	used     []*Thread             // by the current file, in order
	children map[digest]Link
	facts    map[digest]digest              // last ones stated
	waiting  map[string][]*event.FactStated // by session, for its first run; nil of one that has a run
}

// source is a file that was read.
type source struct {
	reader input.Reader
	whole  func() error
	number int32
	lines  int64 // before the current input
	read   int64 // bytes, of a file that grows
}

// NewDecoder returns a Decoder of the files of the agent that has read nothing.
func (a Agent) NewDecoder(opts ...input.Settings) *Decoder {
	shell := input.NewShell(a.Dialect, ndjson.Read, opts...)
	return &Decoder{Shell: &shell, open: a.Open, files: map[string]*source{}, ids: map[digest]*place{}, place: &place{},
		threads: map[[2]string]*Thread{}, children: map[digest]Link{}, facts: map[digest]digest{},
		waiting: map[string][]*event.FactStated{}}
}

type digest [8]byte

// place is where ids were met first.
type place struct {
	session string
	file    int32
}

func digestOf(parts ...string) digest {
	text := make([]byte, 0, 128)
	for _, p := range parts {
		text = append(append(text, p...), 0)
	}
	sum := sha256.Sum256(text)
	return digest(sum[:len(digest{})])
}

// First returns the session in which an id was met first, and whether that was in this file, and remembers it. Of an id
// that is new, which the empty one always is, the session is empty.
func (d *Decoder) First(session, id string) (owner string, here bool) {
	if owner, here = d.Met(id); owner == "" && id != "" {
		if at := (place{session, d.from.number}); *d.place != at {
			d.place = &at
		}
		input.Put(d.ids, maxIDs, digestOf(id), d.place)
	}
	return owner, here
}

// Met returns what First returns, and remembers nothing.
func (d *Decoder) Met(id string) (owner string, here bool) {
	at := cmp.Or(d.ids[digestOf(id)], &place{})
	return at.session, at.file == d.from.number
}

// Link is the tool call that spawned a run. Done says that the call has the result of that run.
type Link struct {
	Session, Run, Call string
	Done               bool
}

// Spawn remembers that a tool call spawned the child of that name (a run of its session, or a session), so that the run
// which begins by that name is its child.
func (d *Decoder) Spawn(session, child string, l Link) {
	input.Put(d.children, maxChildren, digestOf(session, child), l)
}

// Spawned returns the tool call that spawned a child; zero when it is not known.
func (d *Decoder) Spawned(session, child string) Link { return d.children[digestOf(session, child)] }

// Fact states a fact about a session: a title, a folder. It waits for the first run of the session. What was stated
// last is not stated again. Value is JSON; nil is no fact.
func (d *Decoder) Fact(session, key string, value []byte, at time.Time) {
	d.FactOf(session, "session", key, value, at)
}

// FactOf is Fact about a part of a session, such as message/ID.
func (d *Decoder) FactOf(session, subject, key string, value []byte, at time.Time) {
	of, is := digestOf(session, subject, key), digestOf(string(value))
	if value == nil || session == "" || d.facts[of] == is {
		return
	}
	input.Put(d.facts, maxThreads, of, is)
	ev := &event.FactStated{Meta: event.Meta{Session: session, Time: at, Arrived: d.Arrived, Seq: d.from.lines + d.Number},
		Dialect: d.Name, Recording: spans.RecordingLedger,
		Facts: []event.Fact{{Subject: subject, Key: key, Value: bytes.Clone(value)}}}
	switch list, met := d.waiting[session]; {
	case subject != "session", met && list == nil:
		d.Emit(ev)
	case len(list) < maxPending:
		input.Put(d.waiting, maxThreads, session, append(list, ev))
	}
}

// Hide states that a message, or a run by its prompt, is no part of the conversation from a time on, or that it is one
// again.
func (d *Decoder) Hide(session, message string, hidden bool, at time.Time) {
	value := []byte("null")
	if hidden && !at.IsZero() {
		value = strconv.AppendInt(nil, at.UnixMilli(), 10)
	}
	d.FactOf(session, "message/"+message, "hidden_at", value, at)
}

// Objects returns the Line of a Reader of lines that are objects of a shape (see input.Check). Read reads one, and
// returns its type, for errors.
func (d *Decoder) Objects(shape string, read func(o *object.Object, text []byte) string) func(input.Line) {
	return func(l input.Line) {
		o := d.Object(l)
		if o == nil {
			return
		}
		if input.Check(o, shape); !d.RejectProblems("", o) {
			d.Counts.Events++
			d.RejectProblems(read(o, l.Text), o)
		}
	}
}

// Block returns a block of a type with a member that has its name: text or thinking.
func Block(typ string, value any) []byte { return input.Members("type", typ, typ, value) }

// Thread returns the conversation of a session (name is empty) or of a sub-agent in it. It is the same for all files of
// the session.
func (d *Decoder) Thread(session, name string) *Thread {
	key := [2]string{session, name}
	t := d.threads[key]
	if t == nil {
		if len(d.threads) == maxThreads {
			d.Finish()
			clear(d.threads)
		}
		t = &Thread{d: d, Session: session, Name: name}
		d.threads[key] = t
	}
	if !slices.Contains(d.used, t) {
		d.used = append(d.used, t)
	}
	return t
}

// Finish reports what is known of open turns at the end of an input, and ends runs whose last reply asked for nothing
// more. Other runs stay open: their file may grow, also in the next input. The Recorder ends them as aborted when it
// closes. A live input ends no run.
func (d *Decoder) Finish() {
	for _, t := range d.used {
		t.finish(!d.Settings.Live)
	}
	d.used = d.used[:0]
}

// Events reads r until its end, as [input.Decoder] describes.
func (d *Decoder) Events(r io.Reader) iter.Seq2[event.Event, error] {
	d.begin(File{})
	return d.Shell.Events(r)
}

// Rest returns what follows when no file grows any more: what waits for a next record, and the ends of runs that are
// over.
func (d *Decoder) Rest() iter.Seq2[event.Event, error] {
	return d.Shell.Read(func() error {
		d.Settings.Live = false
		byAge := func(a, b *source) int { return cmp.Compare(a.number, b.number) }
		for _, d.from = range slices.SortedFunc(maps.Values(d.files), byAge) {
			if end := d.from.reader.End; end != nil {
				end()
			}
		}
		for _, t := range d.threads {
			t.finish(true)
		}
		return nil
	})
}

// begin begins a file, or goes on with one that grows.
func (d *Decoder) begin(f File) {
	if d.from = d.files[f.Path]; d.from == nil || f.Path == "" || !d.Settings.Live {
		d.inputs++
		d.from = &source{number: d.inputs}
		d.from.reader, d.from.whole = d.open(d, f)
		d.files[f.Path] = d.from
	}
	d.Shell.Reader = d.from.reader
}

// ErrRewritten says that a file is shorter than what was read of it.
var ErrRewritten = errors.New("the file was written anew")

// Read reads a file. With Settings.Live it reads whole lines, and what follows them the next time.
func (d *Decoder) Read(f File) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		d.begin(f)
		from := d.from
		if from.whole != nil {
			d.Shell.Read(from.whole)(yield)
			return
		}
		r, err := f.Open()
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		whole := io.Reader(r)
		if file, ok := r.(*os.File); ok && d.Settings.Live {
			end, err := lastLine(file, from.read)
			if err != nil {
				yield(nil, err)
				return
			}
			whole, from.read = io.NewSectionReader(file, from.read, end-from.read), end
		}
		d.Shell.Events(whole)(yield)
		from.lines += d.Number
	}
}

// lastLine returns where the last whole line of a file ends, at least from.
func lastLine(f *os.File, from int64) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && end < from {
		err = ErrRewritten
	}
	for buf := make([]byte, 64<<10); err == nil && end > from; end -= int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), end-from)]
		if _, err = f.ReadAt(buf, end-int64(len(buf))); err == nil {
			if i := bytes.LastIndexByte(buf, '\n'); i >= 0 {
				return end - int64(len(buf)) + int64(i) + 1, nil
			}
		}
	}
	return from, err
}

// Events reads the files of the family with a Decoder that has read no other family. An error that is no
// *input.LineError is about one file; the next one is read. Each error names its file.
func (f Family) Events(d *Decoder) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, file := range f.Files {
			for ev, err := range d.Read(file) {
				if line, ok := errors.AsType[*input.LineError](err); ok {
					line.File = file.Path
				} else if err != nil {
					err = inFile(file.Path, err)
				}
				if !yield(ev, err) {
					return
				}
			}
		}
	}
}
