package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/spans"
)

// importOptions are the flags of import.
type importOptions struct {
	sendOptions
	agents []string
	since  string
	state  string
	dryRun bool
	yes    bool
	after  time.Time // files that were written since
}

func (a *app) importCommand() *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use:   "import",
		Short: "Read the sessions that coding agents left on this machine",
		Long: `Read the sessions that coding agents keep on this machine. AGENT is one of
` + strings.Join(agentNames(), ", ") + `.

The command looks into the folders of these agents, and into those that
CLAUDE_CONFIG_DIR, CODEX_HOME, XDG_DATA_HOME and the like name instead. It
prints what is there, asks, and reads it into the database of --db, by default
that of 'otelagent up'. The database is on this machine, so prompts, replies
and results of tools are kept unless --capture says otherwise.

With --endpoint it sends spans over OTLP instead, and no content without
--capture content.

It remembers what it read, and the next time reads what is new or has changed.
Reading the same again changes nothing. With --follow it goes on until Ctrl-C
and reads what agents write.

Settings, credentials and histories of prompts are never opened, symbolic links
not followed. docs/agents.md lists what each agent records.

Exit codes: 0 everything was read and delivered, 1 not delivered or not read,
2 wrong usage, 3 files or lines were rejected and the rest was delivered.`,
		Example: `  otelagent import
  otelagent import --dry-run
  otelagent import --agent codex --since 30d --yes
  otelagent import --follow --yes
  otelagent import --endpoint http://127.0.0.1:4317 --yes`,
		Args:        noArgs,
		Annotations: refuses("output"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.Tenant = a.tenant
			if o.DB, err = a.oneDatabase(); err != nil {
				return err
			}
			if err := a.checkImport(&o, cmd.Flags().Changed("capture")); err != nil {
				return err
			}
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return a.imports(ctx, &o)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.agents, "agent", nil, "read the sessions of this `AGENT` alone; may be repeated")
	f.StringVar(&o.since, "since", "", "read what was written in this `AGE`: 30d, 12h (default: all)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what is there, and read nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVarP(&o.Follow, "follow", "F", false, "go on reading what agents write, until Ctrl-C")
	f.StringVar(&o.state, "state", "", "`FILE` that remembers what was read (default: next to the default database)")
	f.StringVar(&o.Capture, "capture", "none", "`LEVEL` of content: none, digests or content (default content into a "+
		"database, none with --endpoint)")
	f.Lookup("capture").DefValue = "" // the description names it
	f.StringVar(&o.Redact, "redact", "",
		"redact content by the rules in this `FILE` (docs/redaction.md), or by the built-in set: default")
	f.StringVar(&o.Endpoint, "endpoint", "", "`URL` of a collector to send to, instead of a database")
	return c
}

const (
	// importMemory is where the garbage collector begins to work more often. GOMEMLIMIT replaces it.
	importMemory = 96 << 20
	// importChat is the content of the largest session whose rows of the agent guide are written at once: they are in
	// memory meanwhile. 'otelagent up' writes those of larger ones.
	importChat = 12 << 20
)

// agentNames are the dialects of agents that keep their sessions.
func agentNames() (names []string) {
	for _, d := range dialects.All() {
		if d.Layout != nil {
			names = append(names, d.Name)
		}
	}
	return names
}

// checkImport completes the options, and names everything that is wrong with the flags.
func (a *app) checkImport(o *importOptions, captured bool) error {
	var wrong wrongs
	o.From = auto
	for _, name := range o.agents {
		wrong.when(!slices.Contains(agentNames(), name), "--agent %s: want %s", name, strings.Join(agentNames(), ", "))
	}
	if o.since != "" {
		age, err := store.ParseAge(o.since)
		if err != nil || age <= 0 {
			wrong.addf("--since %s: want an age: 30d, 12h", o.since)
		}
		o.after = time.Now().Add(-age)
	}
	given := o.DB != ""
	if o.Endpoint == "" {
		at, err := chooseDatabase(o.DB)
		wrong.note(err)
		if o.DB = at.dsn; at.file && !captured {
			o.Capture = string(spans.CaptureContent)
		}
	}
	wrong.when(given && o.Endpoint != "", "--db and --endpoint exclude each other")
	if o.state == "" {
		path, err := defaultPath()
		wrong.note(err)
		o.state = filepath.Join(filepath.Dir(path), "import.json")
	}
	if err := wrong.err(); err != nil {
		return err
	}
	follow := o.Follow
	o.Follow = false // of send: one file
	err := o.check()
	o.Follow, o.Live, o.chatLimit = follow, follow, importChat
	if o.Endpoint == "" && o.PreviewBytes == nil {
		o.PreviewBytes = new(0) // previews are for backends that do not put sessions together
	}
	return err
}

// agentFiles are the sessions of one agent.
type agentFiles struct {
	dialect  dialects.Dialect
	roots    []string
	families []transcript.Family
	todo     []transcript.Family // those to be read
}

// find looks for the sessions of all agents.
func (a *app) find(o *importOptions, st *importState) (found []*agentFiles) {
	home, _ := os.UserHomeDir()
	for _, d := range dialects.All() {
		if d.Layout == nil || len(o.agents) > 0 && !slices.Contains(o.agents, d.Name) {
			continue
		}
		f := &agentFiles{dialect: d}
		for _, root := range d.Layout.Roots(os.Getenv, home) {
			if info, err := os.Stat(root); err == nil && info.IsDir() { // a link to the folder is the user's own
				if root, err = filepath.EvalSymlinks(root); err == nil {
					f.roots = append(f.roots, root)
				}
			}
		}
		found = append(found, f)
		a.look(f, o, st)
	}
	return found
}

// look finds the families of an agent, and those to be read.
func (a *app) look(f *agentFiles, o *importOptions, st *importState) {
	families, problems := transcript.Find(*f.dialect.Layout, f.roots...)
	for _, err := range problems {
		a.say("%s: left out: %v", f.dialect.Name, err)
	}
	f.families, f.todo = nil, nil
	for _, family := range families {
		if newest(family).Before(o.after) {
			continue
		}
		f.families = append(f.families, family)
		if !st.has(family) {
			f.todo = append(f.todo, family)
		}
	}
}

func newest(f transcript.Family) (at time.Time) {
	for _, file := range f.Files {
		if s := stampOf(file.Path); s.at().After(at) {
			at = s.at()
		}
	}
	return at
}

func sizeOf(families []transcript.Family) (n int64) {
	for _, f := range families {
		for _, file := range f.Files {
			n += file.Size
		}
	}
	return n
}

// print lists what is there.
func (f *agentFiles) print(w io.Writer) {
	if len(f.families) == 0 {
		return
	}
	var first, last time.Time
	databases := 0
	for _, family := range f.families {
		for _, file := range family.Files {
			begins := cmp.Or(file.Started, file.Modified)
			if first.IsZero() || begins.Before(first) {
				first = begins
			}
		}
		if at := newest(family); at.After(last) {
			last = at
		}
		if strings.HasSuffix(family.Files[0].Path, ".db") {
			databases++
		}
	}
	var what []string
	if n := len(f.families) - databases; n > 0 {
		what = append(what, count(n, "session"))
	}
	if databases > 0 {
		what = append(what, count(databases, "database"))
	}
	news := "all read"
	if n := len(f.todo); n == len(f.families) {
		news = "new"
	} else if n > 0 {
		news = fmt.Sprintf("%d new or changed, %s", n, humanize.IBytes(uint64(sizeOf(f.todo))))
	}
	fmt.Fprintf(w, "%-12s %-24s %s to %s  %8s  %s\n", f.dialect.Name, strings.Join(what, ", "),
		first.Local().Format(time.DateOnly), last.Local().Format(time.DateOnly),
		humanize.IBytes(uint64(sizeOf(f.families))), news)
}

func (a *app) imports(ctx context.Context, o *importOptions) error {
	st, err := readImportState(o)
	if err != nil {
		return err
	}
	found := a.find(o, st)
	there, todo := 0, []transcript.Family(nil)
	for _, f := range found {
		f.print(a.stdout)
		there += len(f.families)
		todo = append(todo, f.todo...)
	}
	switch {
	case there == 0 && !o.Follow:
		a.say("there are no sessions of %s in their folders", strings.Join(agentNames(), ", "))
		return nil
	case o.dryRun:
		return nil
	case len(todo) == 0:
		a.say("everything was read before")
		if !o.Follow {
			return nil
		}
	}
	if err := a.agrees(o, len(todo), sizeOf(todo)); err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(importMemory)
	}
	im := &importer{app: a, o: o, state: st, found: found}
	defer im.progress(sizeOf(todo))()
	return im.run(ctx)
}

// agrees asks before anything is read.
func (a *app) agrees(o *importOptions, n int, size int64) error {
	into := inspect.ShellWords(cmp.Or(o.Endpoint, strings.TrimPrefix(o.DB, "sqlite:")))
	kept := map[string]string{"none": "without content", "digests": "with sizes and hashes of content",
		"content": "with prompts, replies and results of tools"}[o.Capture]
	switch {
	case o.yes || n == 0:
		a.say("into %s, %s", into, kept)
		return nil
	}
	fmt.Fprintf(a.stderr, "Read %s (%s) into %s, %s? [Y/n] ", count(n, "session"), humanize.IBytes(uint64(size)), into, kept)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	if err != nil || !slices.Contains([]string{"", "y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return errors.New("nothing was read; --yes does not ask")
	}
	return nil
}

// importer reads families into a target.
type importer struct {
	app      *app
	o        *importOptions
	state    *importState
	found    []*agentFiles
	bar      *progressbar.ProgressBar // nil without a terminal
	sessions map[string]bool
	spans    int64
	bad      int // rejected lines, and files that were not read
	targets  string
}

// progress shows a bar on a terminal until the function that it returns is called.
func (im *importer) progress(size int64) (done func()) {
	if size == 0 || !isTerminal(im.app.stderr) {
		return func() {}
	}
	im.bar = progressbar.NewOptions64(size, progressbar.OptionSetWriter(im.app.stderr), progressbar.OptionShowBytes(true),
		progressbar.OptionUseIECUnits(true), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("reading"), progressbar.OptionFullWidth())
	return func() { _ = im.bar.Clear() }
}

// saveEvery is how often the state is saved meanwhile.
const saveEvery = 5 * time.Second

// run reads everything that is to be read, then follows.
func (im *importer) run(ctx context.Context) error {
	im.sessions = map[string]bool{}
	for _, f := range im.found {
		if len(f.todo) == 0 {
			continue
		}
		if err := im.agent(ctx, f); err != nil {
			return err
		}
	}
	if im.spans > 0 || im.bad > 0 {
		im.app.say("read %s as %s into %s", count(len(im.sessions), "session"), count(int(im.spans), "span"), im.targets)
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

// open sets up the target for the sessions of an agent.
func (im *importer) open(f *agentFiles, live bool) (*delivery, error) {
	o := im.o.sendOptions
	o.Live = live
	tracer, err := o.tracerOptions()
	if err != nil {
		return nil, err
	}
	d, err := o.delivery(context.Background(), tracer, f.dialect.Name, false)
	if err == nil {
		im.targets = d.target.name
	}
	return d, err
}

// agent reads the families of an agent that are to be read.
func (im *importer) agent(ctx context.Context, f *agentFiles) error {
	d, err := im.open(f, false)
	if err != nil {
		return err
	}
	flush := func() error {
		if err := firstError(d.providers.ForceFlush(context.Background()), d.providers.Stats().LastError); err != nil {
			return err
		}
		return im.state.save()
	}
	saved := time.Now()
	for _, family := range f.todo {
		stamps := stampsOf(family)
		whole := im.family(ctx, d, f, family)
		if ctx.Err() != nil || d.providers.Stats().Failed > 0 {
			break
		}
		if whole {
			im.state.note(stamps)
		}
		if im.bar != nil {
			_ = im.bar.Add64(sizeOf([]transcript.Family{family}))
		}
		if time.Since(saved) > saveEvery {
			if err := flush(); err != nil {
				break
			}
			saved = time.Now()
		}
	}
	end, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	err = d.end(end)
	im.spans += d.providers.Stats().Exported
	if err != nil {
		return fmt.Errorf("not delivered: %w", plainly(err, d.target.name))
	}
	return im.state.save()
}

// family reads one family, and reports whether nothing of it has to be read again.
func (im *importer) family(ctx context.Context, d *delivery, f *agentFiles, family transcript.Family) bool {
	rec := d.recorder()
	defer rec.Close(context.Background())
	rec.NextInput(newest(family))
	dec := f.dialect.New(im.o.inputOptions(false)...).(transcript.Decoder)
	err := im.record(ctx, rec, family.Files[0].Path, family.Events(dec))
	if err != nil && ctx.Err() == nil {
		im.app.say("%s: left out: %v", family.Files[0].Path, err)
		im.bad++
	}
	return err == nil
}

// record records events. It reports how many lines of them were rejected, and returns an error of the input.
func (im *importer) record(ctx context.Context, rec *event.Recorder, name string, from events) (failed error) {
	rejected := 0
	for ev, err := range from {
		var bad *input.LineError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &bad):
			if !bad.Cut { // else its writer is still at it
				rejected++
			}
		case err != nil:
			failed = firstError(failed, err) // the other files of the family are read
		default:
			if started, ok := ev.(*event.RunStarted); ok {
				im.sessions[cmp.Or(started.SessionID, started.Session)] = true
			}
			rec.Record(context.Background(), ev)
		}
	}
	if rejected > 0 {
		im.app.say("%s: %s rejected", name, count(rejected, "line"))
		im.bad++
	}
	return failed
}
