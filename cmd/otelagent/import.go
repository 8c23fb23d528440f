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
	importMemory = 72 << 20
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

// newest returns when the last file of a family was written.
func newest(f transcript.Family) (at time.Time) {
	for _, file := range f.Files {
		at = transcript.Later(at, file.Modified)
	}
	return at
}

// measure returns how many sessions families are, and how many bytes.
func measure(families []transcript.Family) (sessions int, bytes int64) {
	for _, f := range families {
		sessions += max(1, f.Files[0].Sessions)
		for _, file := range f.Files {
			bytes += file.Size
		}
	}
	return sessions, bytes
}

// print lists what is there of an agent.
func (f *agentFiles) print(w io.Writer) {
	if len(f.families) == 0 {
		return
	}
	first, last := time.Now(), time.Time{}
	for _, family := range f.families {
		for _, file := range family.Files {
			if begins := cmp.Or(file.Started, file.Modified); begins.Before(first) {
				first = begins
			}
		}
		last = transcript.Later(last, newest(family))
	}
	n, size := measure(f.families)
	todo, left := measure(f.todo)
	news := "all read"
	if len(f.todo) == len(f.families) {
		news = "new"
	} else if todo > 0 {
		news = fmt.Sprintf("%d new or changed, %s", todo, humanize.IBytes(uint64(left)))
	}
	fmt.Fprintf(w, "%-12s %-16s %s to %s  %8s  %s\n", f.dialect.Name, count(n, "session"),
		first.Local().Format(time.DateOnly), last.Local().Format(time.DateOnly), humanize.IBytes(uint64(size)), news)
}

func (a *app) imports(ctx context.Context, o *importOptions) error {
	st, err := readImportState(o)
	if err != nil {
		return err
	}
	im := &importer{app: a, o: o, state: st, sessions: map[string]bool{}, said: map[string]bool{}}
	im.find()
	there, todo := 0, []transcript.Family(nil)
	for _, f := range im.agents {
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
		if a.say("everything was read before"); !o.Follow {
			return nil
		}
	}
	n, size := measure(todo)
	if err := a.agrees(o, n, size); err != nil {
		return err
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(importMemory)
	}
	if size > 0 && isTerminal(a.stderr) {
		im.bar = progressbar.NewOptions64(size, progressbar.OptionSetWriter(a.stderr), progressbar.OptionShowBytes(true),
			progressbar.OptionUseIECUnits(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription("reading"), progressbar.OptionFullWidth())
	}
	return im.run(ctx)
}

// agrees asks before anything is read.
func (a *app) agrees(o *importOptions, n int, size int64) error {
	into := inspect.ShellWords(cmp.Or(o.Endpoint, strings.TrimPrefix(o.DB, "sqlite:")))
	kept := map[string]string{"none": "without content", "digests": "with sizes and hashes of content",
		"content": "with prompts, replies and results of tools"}[o.Capture]
	if o.yes || n == 0 {
		a.say("into %s, %s", into, kept)
		return nil
	}
	fmt.Fprintf(a.stderr, "Read %s (%s) into %s, %s? [Y/n] ", count(n, "session"), humanize.IBytes(uint64(size)), into,
		kept)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	if err != nil || !slices.Contains([]string{"", "y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return errors.New("nothing was read; --yes does not ask")
	}
	return nil
}
