package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// maxRecording bounds what files that are looked at without a database come to as OTLP, in bytes: all of it is in
// memory.
const maxRecording = 1 << 30

// openRecording reads files that `send` takes through the adapter into a store in memory, with all their content. The
// process sends and writes nothing. A file may be a database of otelagent too, when it is the only one: that is opened
// as it is. Of several files one recording is made, as `send` does. "-" is standard input. Lines that cannot be read
// are reported and dropped; where none can, it fails.
func openRecording(ctx context.Context, a *app, files []string, from, tenant string) (*database, error) {
	if len(files) == 1 && from == auto && isDatabase(files[0]) {
		at, err := locate("the file", "sqlite:"+files[0])
		if err != nil {
			return nil, err
		}
		db, err := openToRead(ctx, a, at, tenant)
		if err == nil {
			db.show = showFiles(files, from, tenant)
		}
		return db, err
	}
	o := sendOptions{From: from, Files: files, Tenant: tenant, Replay: files[0] == "-", Capture: captureOf("content")}
	if err := o.check(); err != nil {
		return nil, err
	}
	st := memstore.New()
	r := &recording{app: a, options: o, name: "standard input", store: st}
	if files[0] != "-" {
		r.name = strings.Join(files, ", ")
	}
	nextID, err := r.madeUpIDs()
	if err == nil {
		r.nextID = nextID
		err = r.readOTLP(ctx)
	}
	if err == nil && len(r.options.Files) > 0 {
		err = r.read(ctx)
	}
	if err == nil {
		err = project.Refresh(ctx, st)
	}
	if err != nil {
		_ = st.Close()
		return nil, err
	}
	return &database{app: a, at: location{name: r.name}, store: st, tenant: tenant, show: showFiles(files, from, tenant)},
		nil
}

// recording is what files become that are looked at without a database.
type recording struct {
	app     *app
	options sendOptions
	name    string
	store   *memstore.Store
	nextID  func() string // makes the ids of sessions and runs that come without one
	size    int64
}

// madeUpHead bounds how much of standard input ids are made of.
const madeUpHead = 1 << 20

// madeUpIDs makes the ids of what comes without one. They follow from all that the files hold and in which order, so
// that an id that was shown names the same session when the same files are read again, and no other input gives it.
// Standard input and pipes cannot be read twice: of standard input that is at most madeUpHead long the same holds, of
// anything else they are random. It reads the head of standard input.
func (r *recording) madeUpIDs() (next func() string, err error) {
	var head []byte
	if slices.Contains(r.options.Files, "-") {
		in := bufio.NewReaderSize(r.app.stdin, madeUpHead+1)
		if head, err = in.Peek(madeUpHead + 1); err != nil && err != io.EOF {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		r.app = &app{stdin: in, stdout: r.app.stdout, stderr: r.app.stderr}
		head = slices.Clone(head)
	}
	files := slices.Clone(r.options.Files)
	// only when an id is wanted: most inputs name their own
	input := sync.OnceValue(func() []byte { return digestOf(files, head) })
	var n atomic.Uint64
	return func() string {
		sum := input()
		if sum == nil {
			return rand.Text()
		}
		id := sha256.Sum256(binary.BigEndian.AppendUint64(slices.Clone(sum), n.Add(1)))
		return base32.StdEncoding.EncodeToString(id[:])[:26] // as long as those that are random
	}, nil
}

// digestOf is the digest of what the files hold; nil when one of them cannot be read twice, or no more.
func digestOf(files []string, head []byte) []byte {
	sum := sha256.New()
	for _, name := range files {
		one := sha256.New()
		switch {
		case name == "-" && len(head) <= madeUpHead:
			one.Write(head)
		case name == "-" || hashFile(one, name) != nil:
			return nil
		}
		sum.Write(one.Sum(nil))
	}
	return sum.Sum(nil)
}

// hashFile writes what a file holds; nothing of one that cannot be read twice.
func hashFile(to io.Writer, name string) error {
	if !isRegular(name) {
		return os.ErrInvalid
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

func isRegular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// grow counts what is kept.
func (r *recording) grow(n int) error {
	if r.size += int64(n); r.size > maxRecording {
		return fmt.Errorf("%s is too large to be looked at in memory: 'otelagent send --db FILE --capture content' makes a "+
			"database of it", r.name)
	}
	return nil
}

// put keeps a batch of spans, whatever owner the environment names.
func (r *recording) put(ctx context.Context, otlp []byte) error {
	if err := r.grow(len(otlp)); err != nil {
		return err
	}
	batch, _, err := otlprow.DecodeProto(otlp, otlprow.WithTenant(r.options.Tenant))
	if err != nil {
		return err
	}
	return r.store.Put(ctx, batch)
}

func (r *recording) read(ctx context.Context) error {
	quiet := &app{stdin: r.app.stdin, stdout: r.app.stdout, stderr: io.Discard} // which dialect it is need not be reported
	in, err := r.options.open(ctx, quiet)
	if err != nil {
		return err
	}
	defer in.close()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // reported once, at the end
	otel.SetLogger(logr.Discard())
	providers, err := otelsetup.Setup(ctx, otelsetup.WithExporter(otelsetup.NewFuncExporter(r.put)),
		otelsetup.WithSampler(sdktrace.AlwaysSample()),
		otelsetup.WithServiceName(in.serviceOf()), otelsetup.WithTenant(r.options.Tenant), otelsetup.WithoutMetrics(),
		otelsetup.WithoutGlobal(), otelsetup.WithBlocking())
	if err != nil {
		return err
	}
	capture, err := r.options.Capture.options()
	if err != nil {
		return err
	}
	rec := event.NewRecorder(otelagent.NewTracer(append(capture, otelagent.WithMeterProvider(noop.NewMeterProvider()),
		otelagent.WithIDs(otelagent.IDsDerived), otelagent.WithTracerProvider(providers.TracerProvider()))...),
		event.WithIDs(r.nextID))
	p := &pump{app: r.app, rec: rec, undated: true, options: r.options.inputOptions(false), quit: make(chan struct{}),
		failed: func() bool { return ctx.Err() != nil || providers.Stats().Failed > 0 }}
	readErr := p.run(in.list)
	rec.Close(ctx)
	shutErr := providers.Shutdown(context.WithoutCancel(ctx))
	s, stats := p.sum(), providers.Stats()
	switch {
	case stats.LastError != nil:
		return stats.LastError
	case readErr != nil || shutErr != nil || ctx.Err() != nil:
		return firstError(readErr, shutErr, ctx.Err())
	case s.Events == 0 && s.Rejected > 0:
		return fmt.Errorf("nothing in %s could be read as %s\n%s", r.name, in.list[0].dialect.Name, s.FirstRejected)
	case stats.Ended == 0 && len(s.Sessions) > 0:
		return errors.New("nothing can be shown: the environment switches it off (OTEL_SDK_DISABLED)")
	}
	if n := rec.Lost(); n > 0 {
		r.app.say("%s belong to no run that was open; they are left out", count(int(n), "event"))
	}
	if n := s.Rejected - maxRejected; n > 0 {
		r.app.say("and %s", count(int(n), "more rejected line"))
	}
	return nil
}

// isDatabase reports whether a file is an SQLite database of otelagent. Otherwise it looks like one of the agent
// guide's: the guide's tables are there too.
func isDatabase(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	const applicationID = 68 // where it stands in the head of an SQLite file
	head := make([]byte, applicationID+4)
	if _, err := io.ReadFull(f, head); err != nil || string(head[:len(sqliteMagic)]) != sqliteMagic {
		return false
	}
	return binary.BigEndian.Uint32(head[applicationID:]) == 0x6f746167 // otag
}

// openArgument opens what an argument is looked for in. An argument that is the path of an existing file, or "-", is
// that file, and ref is empty: nothing in it was named. Any other is a reference to a session, and ref is it. An
// argument that is both the name of a file and the id of a session of a database on this machine is a reference too,
// and openArgument reports that. With --db or --file every argument is a reference.
func (f *dbFlags) openArgument(ctx context.Context, a *app, arg string) (db *database, ref string, err error) {
	if f.db != "" || len(f.files) > 0 || !isFile(arg) {
		db, err = f.open(ctx, a)
		return db, arg, err
	}
	if arg == "-" || filepath.IsAbs(arg) || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../") {
		db, err = openRecording(ctx, a, []string{arg}, f.source(), f.tenant)
		return db, "", err
	}
	if at, err := chooseDatabase(f.db); err != nil || !at.file { // nobody is asked over a network about what lies here
		db, err = openRecording(ctx, a, []string{arg}, f.source(), f.tenant)
		return db, "", err
	}
	if db, err := f.open(ctx, a); err == nil {
		if _, err := db.store.Revision(ctx, session.Key{Tenant: f.tenant, ID: arg}); err == nil {
			a.say("%q is a session in %s, and a file here; ./%s is the file", arg, db.at.name, arg)
			return db, arg, nil
		}
		db.close()
	}
	db, err = openRecording(ctx, a, []string{arg}, f.source(), f.tenant)
	return db, "", err
}

// isFile says that an argument is a file to be read, and not a reference to a session.
func isFile(arg string) bool {
	if arg == "-" {
		return true
	}
	info, err := os.Stat(arg)
	return err == nil && !info.IsDir()
}

// noFile adds to err, of arguments of which nothing was found, that the one there is is no file, where its name looks
// like that of one.
func (f *dbFlags) noFile(args []string, err error) error {
	if len(args) != 1 || f.db != "" || len(f.files) > 0 || isFile(args[0]) {
		return err
	}
	arg := args[0]
	if info, statErr := os.Stat(arg); statErr == nil && info.IsDir() {
		return fmt.Errorf("%w\n%s is a directory", err, arg)
	}
	if file, _ := fileAndAddress(arg); file != "" {
		return err
	}
	if filepath.Ext(arg) != "" || filepath.IsAbs(arg) || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../") {
		return fmt.Errorf("%w\nAnd there is no file %s", err, arg)
	}
	return err
}

// orFile adds to err that one of the arguments, which that verb takes for something else, is a file.
func (f *dbFlags) orFile(args []string, err error) error {
	if err == nil || f.db != "" || len(f.files) > 0 {
		return err
	}
	for _, arg := range args {
		if arg != "-" && isFile(arg) {
			return fmt.Errorf("%w\n%s is a file: --file looks into it", err, arg)
		}
	}
	return err
}

// source is the dialect that --from names.
func (f *dbFlags) source() string {
	if f.from == "" {
		return auto
	}
	return f.from
}
