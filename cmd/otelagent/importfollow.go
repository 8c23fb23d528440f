package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/transcript"
)

const (
	// followEvery is how often the files of agents are looked at.
	followEvery = time.Second
	// quietTime is how long a family that is followed may be quiet before it is closed.
	quietTime = 30 * time.Minute
	// maxFollowed bounds the families that are followed at a time.
	maxFollowed = 256
)

// followedAgent are the families of an agent that grow.
type followedAgent struct {
	*agentFiles
	to    *delivery
	seen  map[string]stamp    // all files
	grown map[string]*growing // by path of a file
}

// growing is a family that goes on: its decoder has read each file up to an offset.
type growing struct {
	dec    transcript.Decoder
	rec    *event.Recorder
	files  []transcript.File
	offset map[string]int64
	last   time.Time
}

// follow reads what agents write until ctx ends.
func (im *importer) follow(ctx context.Context) error {
	if im.bar != nil {
		_ = im.bar.Clear()
		im.bar = nil
	}
	im.app.say("waiting for what agents write; Ctrl-C stops")
	var all []*followedAgent
	for _, f := range im.found {
		all = append(all, &followedAgent{agentFiles: f, seen: f.stamps(), grown: map[string]*growing{}})
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var failed error
	for ctx.Err() == nil && failed == nil {
		for _, f := range all {
			if failed = im.poll(ctx, f); failed != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	for _, f := range all {
		for _, g := range f.grown {
			g.rec.Close(context.Background())
		}
		if f.to != nil {
			end, cancel := context.WithTimeout(context.Background(), flushTime)
			failed = firstError(failed, f.to.end(end))
			cancel()
		}
	}
	return firstError(failed, im.state.save())
}

// stamps returns the files of an agent as they are now. It opens none.
func (f *agentFiles) stamps() map[string]stamp {
	out := map[string]stamp{}
	for _, root := range f.roots {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && f.dialect.Layout.Is(filepath.ToSlash(path)) {
				out[path] = stampOf(path)
			}
			return nil
		})
	}
	return out
}

// poll reads what an agent has written since the last time.
func (im *importer) poll(ctx context.Context, f *followedAgent) error {
	now := f.stamps()
	var changed []string
	unknown := false
	for path, is := range now {
		if was, ok := f.seen[path]; ok && was == is {
			continue
		}
		changed = append(changed, path)
		unknown = unknown || f.grown[path] == nil
	}
	f.seen = now
	f.forget()
	if len(changed) == 0 {
		return nil
	}
	if f.to == nil {
		to, err := im.open(f.agentFiles, true)
		if err != nil {
			return err
		}
		f.to = to
	}
	if unknown { // a new file, or one that was not followed yet
		im.app.look(f.agentFiles, im.o, im.state)
		for _, family := range f.todo {
			im.join(ctx, f, family)
		}
	}
	for _, path := range changed {
		if g := f.grown[path]; g != nil {
			im.grow(ctx, f, g)
		}
	}
	if err := f.to.providers.ForceFlush(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return im.state.save()
}

// forget closes what was quiet for long.
func (f *followedAgent) forget() {
	for path, g := range f.grown {
		if time.Since(g.last) > quietTime {
			g.rec.Close(context.Background())
			delete(f.grown, path)
		}
	}
}

// join follows a family whose files are lines, and reads any other whole.
func (im *importer) join(ctx context.Context, f *followedAgent, family transcript.Family) {
	lines := len(f.grown) < maxFollowed
	var g *growing
	for _, file := range family.Files {
		lines = lines && strings.HasSuffix(file.Path, ".jsonl")
		if f.grown[file.Path] != nil {
			g = f.grown[file.Path] // it has another file now
		}
	}
	if !lines {
		stamps := stampsOf(family)
		if im.family(ctx, f.to, f.agentFiles, family) {
			im.state.note(stamps)
		}
		return
	}
	if g == nil {
		dec := f.dialect.New(im.o.inputOptions(true)...).(transcript.Decoder)
		g = &growing{dec: dec, rec: f.to.recorder(), offset: map[string]int64{}}
		g.rec.NextInput(newest(family))
	}
	g.files = family.Files
	for _, file := range g.files {
		f.grown[file.Path] = g
	}
	im.grow(ctx, f, g)
}

// grow reads what is new in the files of a family, up to the end of the last line.
func (im *importer) grow(ctx context.Context, f *followedAgent, g *growing) {
	g.last = time.Now()
	read := map[string]stamp{}
	for _, file := range g.files {
		from, is := g.offset[file.Path], stampOf(file.Path)
		if is.Size < from { // it was written anew
			g.rec.Close(context.Background())
			for _, file := range g.files {
				delete(f.grown, file.Path)
				delete(f.seen, file.Path)
			}
			return
		}
		file.Offset = from
		to, err := im.lines(ctx, g, file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			im.app.say("%s: %v", file.Path, err)
		}
		if g.offset[file.Path] = to; to == is.Size {
			read[file.Path] = is
		}
	}
	im.state.note(read)
}

// lines reads the whole lines of a file behind its offset, and returns where they end.
func (im *importer) lines(ctx context.Context, g *growing, file transcript.File) (end int64, err error) {
	r, err := file.Open()
	if err != nil {
		return file.Offset, err
	}
	defer r.Close()
	size, err := lastLine(r.(*os.File), file.Offset)
	if size <= file.Offset || err != nil {
		return file.Offset, err
	}
	g.dec.Next(file)
	return size, im.record(ctx, g.rec, file.Path, g.dec.Events(io.LimitReader(r, size-file.Offset)))
}

// lastLine returns where the last whole line of a file ends, at least from.
func lastLine(f *os.File, from int64) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return from, err
	}
	buf := make([]byte, 64<<10)
	for end := info.Size(); end > from; {
		n := min(int64(len(buf)), end-from)
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return from, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return from, nil
}
