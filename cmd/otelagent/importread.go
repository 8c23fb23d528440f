package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
)

const (
	// saveEvery is how often the state is saved meanwhile.
	saveEvery = 5 * time.Second
	// followEvery is how often the files of agents are looked at.
	followEvery = time.Second
	// quietTime is how long a family that is followed may be quiet before it is closed.
	quietTime = 30 * time.Minute
	// maxFollowed bounds the families of an agent that are followed at a time.
	maxFollowed = 256
)

// agentFiles are the sessions of one agent.
type agentFiles struct {
	dialect  dialects.Dialect
	finder   transcript.Finder
	roots    []string
	families []transcript.Family
	todo     []transcript.Family  // those to be read
	failed   map[string]time.Time // when those that cannot be read were written, by the path of the first file

	to       *delivery
	followed map[string]*reading // families that go on, by the path of the first file
}

// reading is a family that is read.
type reading struct {
	dec  *transcript.Decoder
	rec  *event.Recorder
	last time.Time
}

// importer reads families into a target.
type importer struct {
	*app
	o        *importOptions
	state    *importState
	agents   []*agentFiles
	bar      *progressbar.ProgressBar // nil without a terminal
	said     map[string]bool          // files that were left out
	sessions map[string]bool
	spans    int64
	bad      int   // rejected lines, and files that were not read
	lost     int64 // records outside runs
}

// find looks for the sessions of all agents.
func (im *importer) find() {
	home, _ := os.UserHomeDir()
	for _, d := range dialects.All() {
		if d.Layout == nil || len(im.o.agents) > 0 && !slices.Contains(im.o.agents, d.Name) {
			continue
		}
		f := &agentFiles{dialect: d, finder: transcript.Finder{Layout: *d.Layout}, failed: map[string]time.Time{},
			followed: map[string]*reading{}}
		for _, root := range d.Layout.Roots(os.Getenv, home) {
			if info, err := os.Stat(root); err == nil && info.IsDir() { // a link to the folder is the user's own
				if root, err = filepath.EvalSymlinks(root); err == nil {
					f.roots = append(f.roots, root)
				}
			}
		}
		im.agents = append(im.agents, f)
		im.look(f)
	}
}

// look finds the families of an agent, and those to be read.
func (im *importer) look(f *agentFiles) {
	families, problems := f.finder.Find(f.roots...)
	for _, err := range problems {
		im.leaveOut(f.dialect.Name, err)
	}
	f.families, f.todo = nil, nil
	for _, family := range families {
		at := newest(family)
		if at.Before(im.o.after) {
			continue
		}
		f.families = append(f.families, family)
		if !im.state.has(family) && !f.failed[family.Files[0].Path].Equal(at) {
			f.todo = append(f.todo, family)
		}
	}
}

// leaveOut names what is not read, once.
func (im *importer) leaveOut(name string, err error) {
	if text := fmt.Sprintf("%s: left out: %v", name, err); !im.said[text] {
		im.said[text] = true
		im.say("%s", text)
	}
}

// run reads what is to be read, then follows.
func (im *importer) run(ctx context.Context) (err error) {
	for _, f := range im.agents {
		if err = firstError(err, im.read(ctx, f, false), im.close(ctx, f)); err != nil {
			return err
		}
	}
	if im.bar != nil {
		_ = im.bar.Clear()
	}
	if im.spans > 0 || im.bad > 0 {
		im.say("read %s as %s into %s", count(len(im.sessions), "session"), count(int(im.spans), "span"),
			cmp.Or(im.o.Endpoint, im.o.DB))
	}
	if im.lost > 0 {
		im.say("%s outside of runs are left out", count(int(im.lost), "record"))
	}
	if im.o.Follow && ctx.Err() == nil {
		return im.follow(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; the next import reads the rest")
	case im.bad > 0:
		return &exitError{Code: exitPartial}
	}
	return nil
}

// follow reads what agents write until ctx ends.
func (im *importer) follow(ctx context.Context) (err error) {
	im.say("waiting for what agents write; Ctrl-C stops")
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for ctx.Err() == nil && err == nil {
		for _, f := range im.agents {
			im.look(f)
			err = firstError(err, im.read(ctx, f, true))
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	for _, f := range im.agents {
		err = firstError(err, im.close(ctx, f))
	}
	return err
}

// read reads the families of an agent that are to be read. Live says that those which an agent writes stay open.
func (im *importer) read(ctx context.Context, f *agentFiles, live bool) error {
	for path, r := range f.followed {
		if time.Since(r.last) > quietTime {
			r.rec.Close(context.Background())
			delete(f.followed, path)
		}
	}
	if len(f.todo) == 0 {
		return nil
	}
	if f.to == nil {
		o := im.o.sendOptions
		o.Live = live
		tracer, err := o.tracerOptions()
		if err != nil {
			return err
		}
		if f.to, err = o.delivery(context.Background(), tracer, f.dialect.Name, false); err != nil {
			return err
		}
	}
	saved := time.Now()
	for _, family := range f.todo {
		path := family.Files[0].Path
		im.state.since(family)
		err := im.family(ctx, f, family, live)
		if ctx.Err() != nil || f.to.providers.Stats().Failed > 0 {
			break
		}
		if err == nil {
			im.state.note(family)
		} else {
			im.leaveOut(path, err)
			f.failed[path] = newest(family)
			im.bad++
		}
		if im.bar != nil {
			_, size := measure([]transcript.Family{family})
			_ = im.bar.Add64(size)
		}
		if time.Since(saved) > saveEvery {
			if err := im.flush(ctx, f); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
	return im.flush(ctx, f)
}

// flush waits until everything is delivered, and saves the state then.
func (im *importer) flush(ctx context.Context, f *agentFiles) error {
	err := f.to.providers.ForceFlush(context.WithoutCancel(ctx))
	if err = firstError(f.to.providers.Stats().LastError, err); err != nil {
		return fmt.Errorf("not delivered: %w", plainly(err, f.to.target.name))
	}
	return im.state.save()
}

// close ends what is open of an agent. The summaries of a database take as long as they take,
// unless ctx has ended before: the first interrupt during them does nothing, the second one ends the process.
func (im *importer) close(ctx context.Context, f *agentFiles) error {
	if f.to == nil {
		return nil
	}
	for _, r := range f.followed {
		r.rec.Close(context.Background())
	}
	end := context.WithoutCancel(ctx)
	if im.o.Endpoint != "" || ctx.Err() != nil {
		var cancel context.CancelFunc
		end, cancel = context.WithTimeout(end, flushTime)
		defer cancel()
	}
	err := f.to.end(end)
	im.spans += f.to.providers.Stats().Exported
	if f.to = nil; err != nil {
		return fmt.Errorf("not delivered: %w", plainly(err, cmp.Or(im.o.Endpoint, im.o.DB)))
	}
	return nil
}

// family reads a family, or what is new of one that is followed. An error is one of a file, or of ctx.
func (im *importer) family(ctx context.Context, f *agentFiles, family transcript.Family, live bool) (failed error) {
	path, rejected, first := family.Files[0].Path, 0, (*input.LineError)(nil)
	live = live && len(f.followed) < maxFollowed && !slices.ContainsFunc(family.Files, func(f transcript.File) bool {
		return !strings.HasSuffix(f.Path, ".jsonl")
	})
	r := f.followed[path]
	if r == nil {
		r = &reading{dec: f.dialect.New(im.o.inputOptions(live)...).(*transcript.Decoder), rec: f.to.recorder()}
		r.rec.NextInput(newest(family))
	}
	r.last = time.Now()
	for ev, err := range family.Events(r.dec) {
		switch bad := (*input.LineError)(nil); {
		case ctx.Err() != nil:
			failed = ctx.Err()
		case errors.As(err, &bad):
			if !bad.Cut { // else its writer is still at it
				rejected, first = rejected+1, cmp.Or(first, bad)
			}
		case err != nil:
			failed = firstError(failed, err) // the other files of the family are read
		default:
			if started, ok := ev.(*event.RunStarted); ok {
				im.sessions[cmp.Or(started.SessionID, started.Session)] = true
			}
			r.rec.Record(context.Background(), ev)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if rejected > 0 {
		im.say("%s: %s rejected: %v", path, count(rejected, "line"), first)
		im.bad++
	}
	if live && failed == nil {
		f.followed[path] = r
		return nil
	}
	im.lost += r.rec.Lost() + r.dec.Stats().Outside
	r.rec.Close(context.Background())
	if delete(f.followed, path); errors.Is(failed, transcript.ErrRewritten) {
		return im.family(ctx, f, family, live)
	}
	return failed
}
