package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/otelagent/otelagent/dialects/transcript"
)

const (
	// saveEvery is how often the state is saved meanwhile.
	saveEvery = 5 * time.Second
	// followEvery is how often the files of agents are looked at.
	followEvery = time.Second
	// quietTime is how long a family that is followed may be quiet before it is closed.
	quietTime = 30 * time.Minute
	// maxFollowed bounds the families that are followed at a time.
	maxFollowed = 256
)

// importer reads families into a target.
type importer struct {
	*app
	o      *importOptions
	state  *importState
	agents []*agentFiles
	pump   *pump
	bar    *progressbar.ProgressBar
	silent int  // sessions that have no prompt
	failed bool // files were not read
}

// importer returns an importer that has looked for the sessions of agents.
func (a *app) importer(o *importOptions) (*importer, error) {
	state, err := readImportState(o)
	if err != nil {
		return nil, err
	}
	im := &importer{app: a, o: o, state: state, agents: agents(o.agents...),
		pump: &pump{app: a, o: &o.sendOptions, in: &sources{}, families: map[string]*family{}}}
	im.look()
	return im, nil
}

// look finds the families of all agents, and those to be read.
func (im *importer) look() {
	home, _ := os.UserHomeDir()
	old := func(f transcript.Family) bool { return extentOf(f).last.Before(im.o.after) }
	for _, f := range im.agents {
		f.find(im.app, f.dialect.Layout.Roots(os.Getenv, home)...)
		f.families = slices.DeleteFunc(f.families, old)
		f.todo = slices.DeleteFunc(slices.Clone(f.families), im.state.has)
	}
}

// run reads what is to be read, and with --follow what agents write then, until ctx ends. A database makes the
// summaries of its sessions at the end.
func (im *importer) run(ctx context.Context) (err error) {
	sending, ended := context.WithCancel(context.WithoutCancel(ctx))
	defer ended()
	im.pump.quit = ctx.Done()
	im.agents = slices.DeleteFunc(im.agents, func(f *agentFiles) bool { return len(f.todo) == 0 && !im.o.follow })
	for _, f := range im.agents {
		if f.to, err = im.pump.delivery(sending, im.o.tracer, f.dialect.Name); err != nil {
			return err
		}
	}
	err = im.read(ctx)
	interrupted := ctx.Err() != nil
	im.report()
	follow := im.o.follow && err == nil && !interrupted
	if follow {
		im.say("waiting for what agents write; Ctrl-C stops")
	}
	for tick := time.Tick(followEvery); follow && err == nil && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick:
			im.look()
			err = im.read(ctx)
		}
	}
	for name := range im.pump.families {
		im.pump.end(name)
	}
	for _, f := range im.agents {
		if err == nil {
			err = im.flush(f)
		}
		if ended := f.to.end(ctx); err == nil && ctx.Err() == nil {
			err = im.delivered(f, ended)
		}
	}
	switch {
	case err != nil || follow:
		return err
	case interrupted:
		return errors.New("interrupted; the next import reads the rest")
	case ctx.Err() != nil:
		im.say("stopped; the command that reads these sessions next makes the summaries that are missing")
	case im.failed || im.pump.rejected > 0:
		return &exitError{Code: exitPartial}
	}
	return nil
}

// report says what was read.
func (im *importer) report() {
	_ = im.bar.Clear()
	spans := int64(0)
	for _, f := range im.agents {
		spans += f.to.providers.Stats().Exported
	}
	if spans > 0 {
		im.say("read %s as %s into %s", count(len(im.pump.sessions), "session"), count(int(spans), "span"), im.o.at.name)
	}
	if im.silent > 0 {
		im.say("%s without a prompt: left out", count(im.silent, "session"))
	}
	if n := im.pump.rejected - maxRejected; n > 0 {
		im.say("and %s", count(int(n), "more rejected line"))
	}
	if n := im.pump.over.Outside; n > 0 {
		im.say("%s outside of runs are left out", count(int(n), "record"))
	}
}

// read reads the families that are to be read.
func (im *importer) read(ctx context.Context) error {
	for name, f := range im.pump.families {
		if time.Since(f.last) > quietTime {
			im.pump.end(name)
		}
	}
	for _, f := range im.agents {
		saved := time.Now()
		for i, family := range f.todo {
			s, before := f.source(family), len(im.pump.sessions)
			s.live = im.o.follow && len(im.pump.families) < maxFollowed && time.Since(s.written) < quietTime &&
				!slices.ContainsFunc(family.Files, func(f transcript.File) bool { return filepath.Ext(f.Path) != ".jsonl" })
			err := im.pump.source(f.to, s, im.pump.eventsOf(s))
			switch {
			case ctx.Err() != nil || f.to.providers.Stats().Failed > 0:
				return im.flush(f)
			case err != nil:
				im.say("%s: left out: %v", family.Files[0].Path, err)
				note(im.state.failed, family)
				im.failed = true
			default:
				note(im.state.read, family)
				if there := extentOf(family).sessions; family.Files[0].Since.IsZero() { // else others may be up to date
					im.silent += max(0, there-len(im.pump.sessions)+before)
				}
			}
			_ = im.bar.Add64(extentOf(family).bytes)
			if i == len(f.todo)-1 || time.Since(saved) > saveEvery {
				if err := im.flush(f); err != nil {
					return err
				}
				saved = time.Now()
			}
		}
	}
	return nil
}

// flush waits until everything is delivered.
func (im *importer) flush(f *agentFiles) error {
	return im.delivered(f, f.to.providers.ForceFlush(context.Background()))
}

// delivered saves the state when everything is delivered, and returns why it is not.
func (im *importer) delivered(f *agentFiles, err error) error {
	if err = firstError(f.to.failure(), err); err != nil {
		return fmt.Errorf("not delivered: %w", plainly(err, f.to.target.name))
	}
	return im.state.save()
}
