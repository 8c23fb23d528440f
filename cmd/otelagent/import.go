package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/spans"
)

// importOptions are the flags of import.
type importOptions struct {
	sendOptions
	agents       []string
	since, state string
	dryRun, yes  bool
	follow       bool
	after        time.Time // files that were written since
	at           location  // of the database; of a collector only the name
}

func (a *app) importCommand() *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use:   "import",
		Short: "Read the sessions that coding agents left on this machine",
		Long: `Read the sessions that coding agents keep on this machine. AGENT is one of
` + strings.Join(agentNames(), ", ") + `.

The command looks into the folders of these agents, and into those that
CLAUDE_CONFIG_DIR, CODEX_HOME, GEMINI_CLI_HOME, XDG_DATA_HOME (OpenCode) and
PI_CODING_AGENT_DIR name instead. It prints what is there, asks, and reads it
into the database of --db, by default that of 'otelagent up'. The database is on
this machine, so prompts, replies and results of tools are kept unless --capture
says otherwise.

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
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	f.StringVar(&o.since, "since", "", "read what was written "+sinceHelp)
	f.BoolVar(&o.dryRun, "dry-run", false, "print what is there, and read nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	f.BoolVarP(&o.follow, "follow", "F", false, "go on reading what agents write, until Ctrl-C")
	f.StringVar(&o.state, "state", "", "`FILE` that remembers what was read (default: next to the default database)")
	f.StringVar(&o.Capture, "capture", "none", "`LEVEL` of content: none, digests or content (default content into a "+
		"database, none with --endpoint)")
	f.Lookup("capture").DefValue = "" // the description names it
	f.StringVar(&o.Redact, "redact", "",
		"redact content by the rules in this `FILE` (docs/redaction.md), or by the built-in set: default")
	f.StringVar(&o.Endpoint, "endpoint", "", "`URL` of a collector to send to, instead of a database")
	f.StringVar(&o.Protocol, "protocol", "", protocolHelp)
	return c
}

const (
	// importMemory is where the garbage collector begins to work more often. GOMEMLIMIT replaces it.
	importMemory = 64 << 20
	// importLargest is the largest session, in bytes, whose summary and rows of the agent guide are made at once: all of
	// it is in memory meanwhile. The command that reads the database next makes those of larger ones.
	importLargest = 12 << 20
)

// checkImport completes the options, and names everything that is wrong with the flags.
func (a *app) checkImport(o *importOptions, captured bool) (err error) {
	var wrong wrongs
	for _, name := range o.agents {
		wrong.oneOf("--agent", name, agentNames()...)
	}
	o.after, err = parseSince(o.since)
	wrong.note(err)
	if o.state == "" {
		path, err := defaultPath()
		wrong.when(err != nil, "the user's folder is not known: give --state FILE, and --db or --endpoint")
		o.state = filepath.Join(filepath.Dir(path), "import.json")
	}
	o.From, o.at.name = auto, o.Endpoint
	wrong.note(o.check(a))
	if o.Endpoint == "" && len(wrong) == 0 {
		o.at, err = chooseDatabase(o.DB)
		wrong.note(err)
		if o.DB = o.at.dsn; o.at.file && !captured {
			o.Capture = string(spans.CaptureContent)
		}
		o.PreviewBytes = new(0) // previews are for backends that do not put sessions together
	}
	o.Live, o.largest = o.follow, importLargest
	return wrong.err()
}

// extent is how much there is of some families, and from when.
type extent struct {
	sessions    map[string]bool // by id: there may be copies
	bytes       int64
	first, last time.Time
}

func extentOf(families ...transcript.Family) (e extent) {
	e.sessions = map[string]bool{}
	for _, family := range families {
		for _, f := range family.Files {
			if begun := cmp.Or(f.Started, f.Modified); e.first.IsZero() || begun.Before(e.first) {
				e.first = begun
			}
			e.last = input.Later(e.last, f.Modified)
			if e.bytes += f.Size; !f.Part {
				e.sessions[f.ID] = true
			}
			for _, id := range f.Sessions {
				e.sessions[id] = true
			}
		}
	}
	return e
}

// print lists what is there of an agent.
func (f *agentFiles) print(w io.Writer, read map[string]stamp) {
	all, todo, news := extentOf(f.families...), extentOf(f.todo...), "all read"
	isRead := func(x transcript.File) bool { return read[x.Path] != stamp{} }
	if len(f.todo) > 0 {
		news = fmt.Sprintf("%d to read, %s", len(todo.sessions), humanize.IBytes(uint64(todo.bytes)))
	}
	if !slices.ContainsFunc(f.families, func(x transcript.Family) bool { return slices.ContainsFunc(x.Files, isRead) }) {
		news = "new"
	}
	fmt.Fprintf(w, "%-12s %-16s %s to %s  %8s  %s\n", f.dialect.Name, count(len(all.sessions), "session"),
		all.first.Local().Format(time.DateOnly), all.last.Local().Format(time.DateOnly), humanize.IBytes(uint64(all.bytes)),
		news)
}

func (a *app) imports(ctx context.Context, o *importOptions) error {
	im, err := a.importer(o)
	if err != nil {
		return err
	}
	there, todo := false, []transcript.Family(nil)
	for _, f := range im.agents {
		if len(f.families) > 0 {
			there = true
			f.print(a.stdout, im.state.read)
		}
		todo = append(todo, f.todo...)
	}
	switch {
	case !there:
		since := ""
		if !o.after.IsZero() {
			since = " since " + o.after.Local().Format(time.DateTime)
		}
		for _, f := range im.agents {
			a.say("%s: no sessions%s in %s", f.dialect.Name, since, strings.Join(f.roots, ", "))
		}
	case len(todo) == 0 && !o.dryRun:
		a.say("there is nothing new to read")
	}
	if o.dryRun || len(todo) == 0 && !o.follow {
		return im.rejected()
	}
	e := extentOf(todo...)
	all := fmt.Sprintf("%s (%s) into %s, %s", count(len(e.sessions), "session"), humanize.IBytes(uint64(e.bytes)),
		inspect.ShellWords(o.at.name), map[string]string{"none": "without content",
			"digests": "with sizes and hashes of content", "content": "with prompts, replies and results of tools"}[o.Capture])
	switch {
	case e.bytes == 0:
	case o.yes:
		a.say("reading %s", all)
	case !a.ask("Read "+all+"? [Y/n] ", "y"):
		return errors.New("nothing was read; with --yes import does not ask")
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(importMemory)
	}
	im.bar = progressbar.NewOptions64(max(1, e.bytes), progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetDescription("reading"),
		progressbar.OptionFullWidth(), progressbar.OptionSetVisibility(e.bytes > 0 && isTerminal(a.stderr)))
	return im.run(ctx)
}

// agentFiles are the sessions of one agent.
type agentFiles struct {
	dialect  dialects.Dialect
	finder   transcript.Finder
	roots    []string
	families []transcript.Family
	said     map[string]bool     // what was left out
	todo     []transcript.Family // those that import is to read
	to       *delivery           // of import; nil before it reads any
}

// agents returns those that keep their sessions: all, or the ones of these names.
func agents(names ...string) (list []*agentFiles) {
	for _, d := range dialects.All() {
		if d.Agent != nil && (len(names) == 0 || slices.Contains(names, d.Name)) {
			list = append(list, &agentFiles{dialect: d, finder: transcript.Finder{Agent: *d.Agent}, said: map[string]bool{}})
		}
	}
	return list
}

func agentNames() (names []string) {
	for _, f := range agents() {
		names = append(names, f.dialect.Name)
	}
	return names
}

// find looks for sessions in files and folders, and names what is left out, once.
func (f *agentFiles) find(a *app, paths ...string) {
	families, problems := f.finder.Find(paths...)
	f.families = families
	for _, err := range problems {
		if text := err.Error(); !f.said[text] {
			f.said[text] = true
			a.say("%s: left out: %s", f.dialect.Name, text)
		}
	}
}

// source returns a family as a source with the name of its first session: the file of a sub-agent may come before that.
func (f *agentFiles) source(x transcript.Family) source {
	first := max(0, slices.IndexFunc(x.Files, func(f transcript.File) bool { return !f.Part }))
	return source{name: x.Files[first].Path, dialect: f.dialect, family: &x, written: extentOf(x).last}
}

// transcripts returns the sessions of coding agents in a folder or file, one source a family; none of another file, or
// of one that is followed.
func (o *sendOptions) transcripts(a *app, name string) (list []source, err error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() && (o.Follow || !info.Mode().IsRegular()) {
		return nil, err
	}
	var only []string
	if o.From != auto && o.From != "" {
		only = []string{o.From}
	}
	for _, f := range agents(only...) {
		f.find(a, name)
		for _, x := range f.families {
			list = append(list, f.source(x))
		}
		if len(f.families) > 0 {
			o.say(a, "%s: %s (%s)", name, f.dialect.Name, count(len(extentOf(f.families...).sessions), "session"))
		}
		o.unread = o.unread || len(f.said) > 0
	}
	switch {
	case len(list) == 0 && (info.IsDir() || filepath.Ext(name) == ".zst"):
		return nil, fmt.Errorf("%s has no sessions of %s", name, strings.Join(agentNames(), ", "))
	case o.Follow:
		return nil, fmt.Errorf("--follow is for a file of lines; 'otelagent import --follow' reads the folders of agents")
	}
	return list, nil
}

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
		f.roots = f.dialect.Agent.Roots(os.Getenv, home)
		for i, folder := range f.roots {
			f.roots[i], _ = filepath.Abs(folder) // the state is of all working directories
		}
		f.find(im.app, f.roots...)
		im.failed = im.failed || len(f.said) > 0
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
		if f.to, err = im.pump.delivery(sending, f.dialect.Name); err != nil {
			return err
		}
	}
	_ = im.bar.RenderBlank() // and the clock starts
	err = im.read(ctx)
	interrupted := ctx.Err() != nil
	im.report()
	before, follow := im.exported(), im.o.follow && err == nil && !interrupted
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
	if follow && im.exported() > before {
		im.report()
	}
	switch {
	case err != nil || follow:
		return err
	case interrupted:
		return errors.New("interrupted; the next import reads the rest")
	case ctx.Err() != nil:
		im.say("stopped; the command that reads these sessions next makes the summaries that are missing")
	}
	return im.rejected()
}

// rejected returns an error without a text when files or lines were not read: each is named already.
func (im *importer) rejected() error {
	if im.failed || im.pump.rejected > 0 {
		return &exitError{Code: exitPartial}
	}
	return nil
}

// exported is the number of spans that arrived.
func (im *importer) exported() (spans int64) {
	for _, f := range im.agents {
		spans += f.to.providers.Stats().Exported
	}
	return spans
}

// report says what was read.
func (im *importer) report() {
	_ = im.bar.Clear()
	if spans := im.exported(); spans > 0 {
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
			s := f.source(family)
			s.live = im.o.follow && len(im.pump.families) < maxFollowed && time.Since(s.written) < quietTime &&
				!slices.ContainsFunc(family.Files, func(f transcript.File) bool { return filepath.Ext(f.Path) != ".jsonl" })
			err := im.pump.source(f.to, s)
			switch {
			case ctx.Err() != nil || f.to.providers.Stats().Failed > 0:
				return im.flush(f)
			case err != nil:
				im.say("%s: left out: %v", f.dialect.Name, err)
				note(im.state.failed, family)
				im.failed = true
			default:
				note(im.state.read, family)
				for id := range extentOf(family).sessions {
					if family.Files[0].Since.IsZero() && !im.pump.sessions[id] { // else others may be up to date
						im.silent++
					}
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
	if err = cmp.Or(f.to.failure(), err); err != nil {
		return fmt.Errorf("not delivered: %w", plainly(err, f.to.target.name))
	}
	return im.state.save()
}

// importState remembers, for each target, how the files were that were read.
type importState struct {
	Format  int                         `json:"format"` // 1
	Targets map[string]map[string]stamp `json:"targets"`

	path         string
	read, failed map[string]stamp // those of the target, and those that cannot be read now
}

// stamp is a file as it was found before it was read.
type stamp struct {
	Size     int64 `json:"size"`
	Modified int64 `json:"modified_ns"`
}

func stampOf(f transcript.File) stamp { return stamp{f.Size, f.Modified.UnixNano()} }

// readImportState reads the file of --state. One that is damaged is an error, so that it is not replaced. Where the
// database is not there, nothing was read.
func readImportState(o *importOptions) (*importState, error) {
	s := &importState{Format: 1, Targets: map[string]map[string]stamp{}, path: o.state, failed: map[string]stamp{}}
	text, err := os.ReadFile(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--state: %w", err)
	}
	if err == nil && json.Unmarshal(text, s) != nil || s.Format != 1 || s.Targets == nil {
		return nil, fmt.Errorf("--state %s is damaged: remove it, and everything is read again", s.path)
	}
	target := o.at.name
	if path, err := filepath.Abs(target); err == nil && o.at.file {
		target = path
	}
	target += " " + o.Capture + " " + o.Tenant
	_, err = os.Stat(o.at.name)
	if s.read = s.Targets[target]; s.read == nil || o.at.file && errors.Is(err, fs.ErrNotExist) {
		s.read = map[string]stamp{}
		s.Targets[target] = s.read
	}
	return s, nil
}

// has reports whether the family was read as it is now, or cannot be read, and notes when files that have grown were
// read before.
func (s *importState) has(f transcript.Family) bool {
	all := true
	for i, file := range f.Files {
		now, was := stampOf(file), s.read[file.Path]
		if all = all && (was == now || s.failed[file.Path] == now); was.Modified != 0 && was.Size <= now.Size {
			f.Files[i].Since = time.Unix(0, was.Modified)
		}
	}
	return all
}

// note remembers how the files of a family are.
func note(in map[string]stamp, f transcript.Family) {
	for _, file := range f.Files {
		in[file.Path] = stampOf(file)
	}
}

// save writes the file, whole or not at all.
func (s *importState) save() error {
	err := cmp.Or(os.MkdirAll(filepath.Dir(s.path), 0o700),
		writeFile(context.Background(), s.path, func(w io.Writer) error { return json.NewEncoder(w).Encode(s) }))
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}
