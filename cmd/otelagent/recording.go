package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
)

// maxRecording bounds a recording as OTLP, in bytes: all of it is in memory.
const maxRecording = 1 << 30

// recording reads files of events into a store in memory.
type recording struct {
	app   *app
	name  string
	store *memstore.Store
	stdin []byte
	sources
	size int64
	ids  func() string // of sessions and runs without one
}

// openRecording reads files that `send` takes, or spans as OTLP JSON, through the adapter into a store in memory, with
// all their content. The process sends and writes nothing. Several files become one recording. Lines that cannot be
// read are reported and dropped; where none can be read, it fails.
func (a *app) openRecording(ctx context.Context, files []string, from string) (*database, error) {
	if i := slices.IndexFunc(files, func(f string) bool { return !isRecording(f) }); i >= 0 {
		return nil, usagef("--db %s: several are read together when each is a FILE of events", files[i])
	}
	if len(files) > 1 && slices.Contains(files, "-") {
		return nil, usagef("- stands for standard input and cannot be mixed with files")
	}
	r := &recording{app: a, name: strings.Join(files, ", "), store: memstore.New()}
	defer r.sources.close()
	if len(files) == 1 && files[0] == "-" {
		r.name = "standard input"
	}
	rest, err := r.readOTLP(ctx, files)
	if err == nil && len(rest) > 0 {
		r.ids = r.generatedIDs(rest)
		err = r.read(ctx, rest, from)
	}
	if err == nil {
		err = project.Refresh(ctx, r.store)
	}
	if err != nil {
		_ = r.store.Close()
		return nil, err
	}
	db := a.databaseOf(location{name: r.name}, r.store)
	db.recording = true
	return db, nil
}

// generatedIDs makes the ids of sessions and runs without one. They are the same each time the same files are read, and
// random where a file cannot be read twice.
func (r *recording) generatedIDs(files []string) func() string {
	digest := sync.OnceValue(func() []byte { // most inputs name their own ids
		all := sha256.New()
		for _, name := range files {
			one := sha256.New()
			in, err := r.open(name)
			if err == nil && in != nil {
				_, err = io.Copy(one, in)
			}
			if err != nil || in == nil {
				return []byte(rand.Text())
			}
			all.Write(one.Sum(nil))
		}
		return all.Sum(nil)
	})
	var n atomic.Uint64
	return func() string {
		id := sha256.Sum256(binary.BigEndian.AppendUint64(slices.Clone(digest()), n.Add(1)))
		return base32.StdEncoding.EncodeToString(id[:])[:26] // as long as random ones
	}
}

// open opens an input that can be read several times, nil for any other. It reads standard input into memory.
func (r *recording) open(name string) (in io.ReadSeeker, err error) {
	if name != "-" {
		return r.regular(name)
	}
	if r.stdin == nil {
		if r.stdin, err = io.ReadAll(io.LimitReader(r.app.stdin, maxRecording+1)); err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
	}
	return bytes.NewReader(r.stdin), nil
}

// regular opens a regular file, nil for any other.
func (s *sources) regular(name string) (io.ReadSeeker, error) {
	if !isRegular(name) {
		return nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, f)
	return f, nil
}

// grow counts the bytes that are kept.
func (r *recording) grow(n int) error {
	if r.size += int64(n); r.size > maxRecording {
		return fmt.Errorf("%s is too large to be read into memory: 'otelagent send --db FILE --capture content' makes a "+
			"database of it", r.name)
	}
	return nil
}

// put keeps a batch of spans under the owner of --tenant, whatever owner the environment names.
func (r *recording) put(ctx context.Context, otlp []byte) error {
	if err := r.grow(len(otlp)); err != nil {
		return err
	}
	batch, _, err := otlprow.DecodeProto(otlp, otlprow.WithTenant(r.app.tenant))
	if err != nil {
		return err
	}
	return r.store.Put(ctx, batch)
}

// read sends files as `send` does, into the store.
func (r *recording) read(ctx context.Context, files []string, from string) error {
	a := *r.app
	a.stdin = bytes.NewReader(r.stdin)
	s, err := a.deliver(ctx, sendOptions{From: from, Files: files, Tenant: a.tenant, Replay: true,
		Capture: "content", into: r})
	if err == nil && s.Events == 0 && s.Rejected > 0 {
		err = fmt.Errorf("nothing in %s could be read as %s\n%s", r.name, s.Dialect, s.FirstRejected)
	}
	return err
}

// readOTLP keeps the spans and log records of the files that hold such, and returns the other files. It keeps them as a
// collector would have got them. It reads standard input into memory.
func (r *recording) readOTLP(ctx context.Context, files []string) ([]string, error) {
	otlp, rest, err := openOTLP(files, r.open)
	for _, f := range otlp {
		all := keptOTLP{rejected: map[string]int{}}
		err := f.each(maxRecording, func(d document) error {
			return cmp.Or(r.grow(d.size), all.put(ctx, r.store, d, otlprow.WithTenant(r.app.tenant)))
		})
		if err != nil {
			return nil, err
		}
		all.say(r.app, f.name)
	}
	return rest, err
}

// keptOTLP counts what a store kept of a file.
type keptOTLP struct {
	spans, records, foreign, metrics int
	rejected                         map[string]int
}

// put keeps a document in a store.
func (k *keptOTLP) put(ctx context.Context, st store.Store, d document, opts ...otlprow.Option) error {
	batch, ofSpans := otlprow.Decode(d.traces, opts...)
	logs, ofLogs := otlprow.DecodeLogs(d.logs, opts...)
	batch.Rows, batch.Blocks = append(batch.Rows, logs.Rows...), append(batch.Blocks, logs.Blocks...)
	k.spans, k.records, k.metrics = k.spans+ofSpans.Spans, k.records+ofLogs.Spans, k.metrics+d.metrics
	for _, report := range []otlprow.Report{ofSpans, ofLogs} {
		k.foreign += report.Foreign
		for reason, n := range report.Rejected {
			k.rejected[reason] += n
		}
	}
	return st.Put(ctx, batch)
}

// say names what was not kept.
func (k *keptOTLP) say(a *app, name string) {
	of := "span"
	if k.records > 0 {
		of = "record"
	}
	for _, reason := range slices.Sorted(maps.Keys(k.rejected)) {
		a.say("%s: %s rejected: %s", name, count(k.rejected[reason], of), reason)
	}
	if k.foreign > 0 {
		a.say("%s: %s of other instrumentation left out", name, count(k.foreign, of))
	}
	if k.metrics > 0 {
		a.say("%s: %s of metrics left out, which are not read", name, count(k.metrics, "document"))
	}
}
