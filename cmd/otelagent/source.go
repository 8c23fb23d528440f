package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
)

// source is one input, and the dialect that it speaks.
type source struct {
	name     string
	r        io.Reader
	dialect  dialects.Dialect
	database bool               // an SQLite file, which is not read as a stream
	family   *transcript.Family // the files of an agent's session, which are not read as a stream either
	live     bool               // the family is read again when it has grown
	records  io.Reader          // clark-agent's trajectories of these events, which have the times; nil without any
	ahead    events             // all of them, where some were read already
	written  time.Time          // when the file was last written, or a pipe opened
}

// sources are all inputs.
type sources struct {
	list []source
	// live says that it is a pipe from an agent at work.
	live  bool
	files []*os.File
}

func (s *sources) close() {
	for _, f := range s.files {
		_ = f.Close()
	}
}

// open opens all inputs and finds out which dialects are spoken, so that a name mistyped and a file of another kind are
// known before anything is sent. It blocks until a named pipe has a writer. Files are followed until quit is closed.
func (o *sendOptions) open(a *app, quit <-chan struct{}) (_ *sources, err error) {
	s := &sources{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if len(o.Files) == 0 || o.Files[0] == "-" {
		f, isFile := a.stdin.(*os.File)
		if len(o.Files) == 0 && isTerminal(a.stdin) {
			return nil, usagef("nothing to send: name files, or pipe events in")
		}
		s.live = !o.Replay
		if isFile {
			info, err := f.Stat()
			s.live = s.live && (err != nil || !info.Mode().IsRegular())
		}
		if s.live && isTerminal(a.stdin) {
			a.say("reading events from the terminal; Ctrl-D ends")
		}
		s.list = []source{{name: "standard input", r: a.stdin, written: time.Now()}}
	}
	for _, name := range o.Files {
		if name == "-" {
			continue
		}
		list, err := o.transcripts(a, name)
		if err != nil {
			return nil, err
		}
		if s.list = append(s.list, list...); list != nil {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
		x := source{name: name, r: f, written: time.Now()}
		if info, err := f.Stat(); err == nil {
			x.written = info.ModTime()
		}
		if x.database = isRegular(name) && isSQLite(name); x.database && o.Follow {
			return nil, fmt.Errorf("--follow is for a file of lines: %s is an SQLite file", name)
		}
		if o.Follow {
			x.r = &follower{f: f, quit: quit}
		}
		s.list = append(s.list, x)
	}
	for i := range s.list {
		if s.list[i].family != nil {
			continue
		}
		if err := s.list[i].recognise(o, a); err != nil {
			return nil, err
		}
	}
	if len(s.list) > 1 {
		s.pair()
	}
	return s, nil
}

// recognise finds out which dialect is spoken, where no flag names it. It waits for the first line of a pipe.
func (s *source) recognise(o *sendOptions, a *app) (err error) {
	named := o.From != auto && o.From != ""
	switch {
	case s.database:
		if s.dialect, err = ofTables(s.name); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if named && o.From != s.dialect.Name {
			return fmt.Errorf("%s is an SQLite file of %s, not of %s", s.name, s.dialect.Name, o.From)
		}
		if s.dialect.Agent != nil {
			file := transcript.File{Path: s.name, Head: transcript.Head{ID: s.name}}
			s.family = &transcript.Family{Files: []transcript.File{file}}
		}
		o.say(a, "%s: %s (an SQLite file)", s.name, s.dialect.Name)
		return nil
	case named:
		s.dialect, _ = dialects.Named(o.From)
		return nil
	}
	d, why, r, err := dialects.Open(s.r)
	s.dialect, s.r = d, r
	var unknown *dialects.UnknownError
	switch {
	case errors.As(err, &unknown) && unknown.Empty:
		s.dialect, _ = dialects.Named(dialects.Names()[0])
	case unknown != nil:
		return fmt.Errorf("%s: %w\n'otelagent send --from' names it", s.name, err)
	case err != nil:
		return fmt.Errorf("%s: %w", s.name, err)
	default:
		o.say(a, "%s: %s (%s)", s.name, d.Name, why)
	}
	return nil
}

// ofTables returns the dialect whose tables an SQLite file has.
func ofTables(path string) (d dialects.Dialect, err error) {
	db, err := input.OpenSQLite(path)
	if err != nil {
		return d, err
	}
	defer db.Close()
	d, err = dialects.RecogniseDB(context.Background(), db)
	if errors.As(err, new(*dialects.UnknownError)) {
		err = errors.New("the SQLite file has neither sessions of otelagent nor of a known agent")
	}
	return d, err
}

// say logs a dialect that was recognised, unless the input is only looked at.
func (o *sendOptions) say(a *app, format string, args ...any) {
	if o.into == nil {
		a.say(format, args...)
	}
}

// trajectoryHead is how much of a file is looked at to distinguish a trajectory from events.
const trajectoryHead = 64 << 10

// pair puts the trajectories of clark-agent behind the first of its event files where there are both: it is read with
// them, and they are no recordings of their own.
func (s *sources) pair() {
	var records []io.Reader
	var events *source
	isTrajectory := map[string]bool{}
	for i := range s.list {
		x := &s.list[i]
		if x.dialect.Name != clark.Dialect {
			continue
		}
		head := bufio.NewReaderSize(x.r, trajectoryHead)
		first, _ := head.Peek(trajectoryHead)
		x.r = head
		if isTrajectory[x.name] = clark.IsTrajectory(first); isTrajectory[x.name] {
			records = append(records, x.r, strings.NewReader("\n"))
		} else if events == nil {
			events = x
		}
	}
	if events != nil && len(records) > 0 {
		events.records = io.MultiReader(records...)
		s.list = slices.DeleteFunc(s.list, func(x source) bool { return isTrajectory[x.name] })
	}
}

// pollTime is how long a growing file is left alone between two looks at it.
const pollTime = 200 * time.Millisecond

// follower reads a file that grows, until quit is closed.
type follower struct {
	f    *os.File
	quit <-chan struct{}
	read int64
}

// Read waits at the end of the file for more of it.
func (w *follower) Read(p []byte) (int, error) {
	for {
		n, err := w.f.Read(p)
		w.read += int64(n)
		if n > 0 || err != io.EOF {
			return n, err
		}
		if info, err := w.f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() < w.read {
			return 0, fmt.Errorf("%s became shorter: it was written anew", w.f.Name())
		}
		select {
		case <-w.quit:
			return 0, io.EOF
		case <-time.After(pollTime):
		}
	}
}

// serviceOf is the dialect of the sources if they have one in common, else otelagent.
func (s *sources) serviceOf() string {
	name := s.list[0].dialect.Name
	if slices.ContainsFunc(s.list, func(x source) bool { return x.dialect.Name != name }) {
		return "otelagent"
	}
	return name
}
