package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
)

// source is one thing to read, and the dialect that it speaks.
type source struct {
	name    string
	r       io.Reader
	dialect dialects.Dialect
	// database is the path of an SQLite file, which is not read as a stream.
	database string
	// trajectory says that it holds records of clark-agent's trajectory, which have the times of events that are in
	// another file.
	trajectory bool
	records    io.Reader // the trajectories of these events; nil without any
	grows      *follower // what r reads from, when it is followed
	written    time.Time // when the file was last written, or a pipe opened
}

// sources are all that is to be read.
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

// open opens everything that is to be read and finds out which dialects are spoken, so that a name mistyped and a file
// of another kind are known before anything is sent.
func (o *sendOptions) open(ctx context.Context, a *app) (_ *sources, err error) {
	s := &sources{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if len(o.Files) == 0 || o.Files[0] == "-" {
		s.live = true
		if f, ok := a.stdin.(*os.File); ok {
			if len(o.Files) == 0 && isTerminal(f) {
				return nil, usagef("nothing to send: name files, or pipe events in")
			}
			info, err := f.Stat()
			s.live = err != nil || !info.Mode().IsRegular()
			if s.live && isTerminal(f) {
				a.say("reading events from the terminal; Ctrl-D ends")
			}
		}
		s.live = s.live && !o.Replay
		s.list = []source{{name: "standard input", r: a.stdin, written: time.Now()}}
	}
	for _, name := range o.Files {
		if name == "-" {
			continue
		}
		f, err := openFile(ctx, name)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, f)
		x := source{name: name, r: f, written: time.Now()}
		if info, err := f.Stat(); err == nil {
			if info.IsDir() {
				return nil, fmt.Errorf("%s is a directory", name)
			}
			x.written = info.ModTime()
		}
		s.list = append(s.list, x)
	}
	for i := range s.list {
		if err := s.list[i].recognise(ctx, o, a); err != nil {
			return nil, err
		}
	}
	s.pair()
	return s, nil
}

// waitFor returns the result of f, which may block for ever. When ctx ends first, f has grace more, and ok is false
// then.
func waitFor[T any](ctx context.Context, grace time.Duration, f func() T) (v T, ok bool) {
	result := make(chan T, 1)
	go func() { result <- f() }()
	select {
	case v = <-result:
		return v, true
	case <-ctx.Done():
	}
	select {
	case v = <-result: // events that were read already are sent
		return v, true
	case <-time.After(grace):
		return v, false
	}
}

// openFile opens a file. A named pipe blocks until it has a writer, or ctx ends.
func openFile(ctx context.Context, name string) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	o, ok := waitFor(ctx, headTime, func() opened {
		f, err := os.Open(name)
		return opened{f, err}
	})
	if !ok {
		return nil, fmt.Errorf("interrupted before %s had a writer", name)
	}
	return o.f, o.err
}

// pair puts the trajectories of clark-agent behind the first of its event files where there are both: it is read with
// them, and they are no recordings of their own.
func (s *sources) pair() {
	if s.live {
		return
	}
	var records []io.Reader
	events := -1
	for i := range s.list {
		x := &s.list[i]
		if x.dialect.Name != clark.Dialect {
			continue
		}
		head := bufio.NewReaderSize(x.r, trajectoryHead)
		first, _ := head.Peek(trajectoryHead)
		x.r, x.trajectory = head, clark.IsTrajectory(first)
		switch {
		case x.trajectory:
			records = append(records, x.r, strings.NewReader("\n"))
		case events < 0:
			events = i
		}
	}
	if events < 0 || len(records) == 0 {
		return
	}
	s.list[events].records = io.MultiReader(records...)
	s.list = slices.DeleteFunc(s.list, func(x source) bool { return x.trajectory })
}

// trajectoryHead is how much of a file is looked at to distinguish a trajectory from events.
const trajectoryHead = 64 << 10

// recognise finds out which dialect is spoken, where no flag names it. It waits for the first line of a pipe.
func (s *source) recognise(ctx context.Context, o *sendOptions, a *app) error {
	if f, ok := s.r.(*os.File); ok && f != a.stdin {
		if isRegular(s.name) && isSQLite(s.name) {
			if o.From != auto && o.From != "" && o.From != guide.Dialect {
				return fmt.Errorf("%s is an SQLite file; of those %s is read, not %s", s.name, guide.Dialect, o.From)
			}
			s.database = s.name
			s.dialect, _ = dialects.Named(guide.Dialect)
			a.say("%s: %s (an SQLite file)", s.name, s.dialect.Name)
			return nil
		}
		if o.Follow {
			s.grows = &follower{f: f, name: s.name, quit: ctx.Done()}
			s.r = s.grows
		}
	}
	if o.From != auto && o.From != "" {
		s.dialect, _ = dialects.Named(o.From)
		return nil
	}
	type found struct {
		d   dialects.Dialect
		why string
		r   io.Reader
		err error
	}
	f, ok := waitFor(ctx, headTime, func() (f found) {
		f.d, f.why, f.r, f.err = dialects.Open(s.r)
		return f
	})
	if !ok {
		return fmt.Errorf("interrupted before the first line of %s", s.name)
	}
	var unknown *dialects.UnknownError
	switch {
	case errors.As(f.err, &unknown) && unknown.Empty:
		s.dialect, _ = dialects.Named(dialects.Names()[0])
	case unknown != nil:
		return fmt.Errorf("%s: %w\n'otelagent send --from' names it", s.name, f.err)
	case f.err != nil:
		return fmt.Errorf("%s: %w", s.name, f.err)
	default:
		s.dialect = f.d
		a.say("%s: %s (%s)", s.name, f.d.Name, f.why)
	}
	s.r = f.r
	return nil
}

// headTime is how long the dialect of what was read is waited for after Ctrl-C.
const headTime = 200 * time.Millisecond

// pollTime is how long a growing file is left alone between two looks at it.
const pollTime = 200 * time.Millisecond

// follower reads a file that grows, until quit is closed.
type follower struct {
	f    *os.File
	name string
	quit <-chan struct{}
	read int64
	last byte // that was read
}

// cut reports, once it ended, whether it did so inside a line, which its writer is still at. nil: no.
func (w *follower) cut() bool { return w != nil && w.read > 0 && w.last != '\n' }

// Read waits at the end of the file for more of it.
func (w *follower) Read(p []byte) (int, error) {
	for {
		n, err := w.f.Read(p)
		if w.read += int64(n); n > 0 {
			w.last = p[n-1]
		}
		if n > 0 || err != io.EOF {
			return n, err
		}
		if info, err := w.f.Stat(); err == nil && info.Mode().IsRegular() && info.Size() < w.read {
			return 0, fmt.Errorf("%s became shorter: it was written anew", w.name)
		}
		select {
		case <-w.quit:
			return 0, io.EOF
		case <-time.After(pollTime):
		}
	}
}

// rereadTime is how long a database is left alone between two looks at it.
const rereadTime = 2 * time.Second

// readDatabase yields the events of an SQLite file of the guide's tables; with follow again each time that it has
// changed, until quit is closed.
func readDatabase(path string, follow bool, quit <-chan struct{},
	opts []input.Option) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { // interrupts a query that takes long
			select {
			case <-quit:
				time.Sleep(graceTime / 2)
				cancel()
			case <-ctx.Done():
			}
		}()
		db, err := openSQLite(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer db.Close()
		db.SetMaxOpenConns(1) // data_version is one of a connection
		version := func() (n int64) {
			_ = db.QueryRowContext(ctx, "PRAGMA data_version").Scan(&n)
			return n
		}
		for last := !follow; ; {
			seen := version()
			for ev, err := range guide.ReadDB(ctx, db, opts...) {
				if !yield(ev, err) {
					return
				}
			}
			if last {
				return
			}
			for changed := false; !changed; changed = version() != seen {
				if last {
					return
				}
				select { // also where it changes all the time: it is read whole
				case <-quit:
					last = true // and what came since the last look is read still
				case <-time.After(rereadTime):
				}
			}
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
