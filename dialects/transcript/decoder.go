package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
)

// Reader reads the records of one file. Whole, if set, reads a file that is no stream of them, such as a database.
type Reader struct {
	input.Reader
	Whole func() error
}

// Format returns the Reader of a file of a family; the zero File is an input without a name.
type Format func(File) Reader

// Decoder reads the files of one family, parents before children, or single ones. Not safe for concurrent use.
type Decoder struct {
	e      *Emitter
	format Format
	files  map[string]*source // by path
}

// source is a file that was read.
type source struct {
	Reader
	number int32
	lines  int64 // before the input at hand
	read   int64 // bytes, of a file that grows
}

// NewDecoder returns a Decoder of the dialect of that name that has read nothing. Family makes its Format, with what
// the files of a family share.
func NewDecoder(name string, opts []input.Option, family func(*Emitter) Format) *Decoder {
	shell := input.NewShell(name, ndjson.Read, opts...)
	e := &Emitter{Shell: &shell, ids: map[digest]place{}, threads: map[[2]string]*Thread{}, children: map[digest]Link{},
		facts: map[digest]digest{}}
	return &Decoder{e: e, format: family(e), files: map[string]*source{}}
}

// Stats returns what was read so far.
func (d *Decoder) Stats() input.Stats { return d.e.Stats }

// Events reads r until its end, as [input.Decoder] describes.
func (d *Decoder) Events(r io.Reader) iter.Seq2[event.Event, error] {
	d.begin(File{})
	return d.e.Shell.Events(r, d.e.from.Reader.Reader)
}

// begin begins a file.
func (d *Decoder) begin(f File) {
	d.e.inputs++
	d.e.from = &source{Reader: d.format(f), number: d.e.inputs}
}

// ErrRewritten says that a file is shorter than what was read of it.
var ErrRewritten = errors.New("the file was written anew")

// Read reads a file. With input.WithLive it reads whole lines, and what follows them the next time.
func (d *Decoder) Read(f File) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		live := d.e.Settings.Live
		if d.e.from = d.files[f.Path]; d.e.from == nil || !live {
			d.begin(f)
			d.files[f.Path] = d.e.from
		}
		from := d.e.from
		if from.Whole != nil {
			d.e.Shell.Read(from.Whole)(yield)
			return
		}
		r, err := f.Open()
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		whole := io.Reader(r)
		if file, ok := r.(*os.File); ok && live {
			end, err := lastLine(file, from.read)
			if err != nil {
				yield(nil, fmt.Errorf("%s: %w", f.Path, err))
				return
			}
			if end == from.read {
				return
			}
			whole, from.read = io.NewSectionReader(file, from.read, end-from.read), end
		}
		d.e.Shell.Events(whole, from.Reader.Reader)(yield)
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

// Events reads the files of the family with a Decoder that has read no other family. An error that is none of a line is
// about one file; the next one is read.
func (f Family) Events(d *Decoder) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, file := range f.Files {
			for ev, err := range d.Read(file) {
				if !yield(ev, err) {
					return
				}
			}
		}
	}
}
