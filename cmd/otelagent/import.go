package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/otelagent"
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
	tracer       []otelagent.Option
}

func (a *app) importCommand() *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use:   "import",
		Short: "Read the sessions that coding agents left on this machine",
		Long: `Read the sessions that coding agents keep on this machine. AGENT is one of
` + agentNames() + `.

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
		wrong.when(len(agents(name)) == 0, "--agent %s: want %s", name, agentNames())
	}
	o.after, err = parseSince(o.since)
	wrong.note(err)
	if o.state == "" {
		path, err := defaultPath()
		wrong.note(err)
		o.state = filepath.Join(filepath.Dir(path), "import.json")
	}
	o.DB, err = a.oneDatabase()
	wrong.note(err)
	o.From, o.Tenant, o.at.name = auto, a.tenant, o.Endpoint
	wrong.note(o.check())
	if o.Endpoint == "" && len(wrong) == 0 {
		o.at, err = chooseDatabase(o.DB)
		wrong.note(err)
		if o.DB = o.at.dsn; o.at.file && !captured {
			o.Capture = string(spans.CaptureContent)
		}
		o.PreviewBytes = new(0) // previews are for backends that do not put sessions together
	}
	o.Live, o.largest = o.follow, importLargest
	o.tracer, err = o.tracerOptions()
	wrong.note(err)
	return wrong.err()
}

// extent is how much there is of some families, and from when.
type extent struct {
	sessions    int
	bytes       int64
	first, last time.Time
}

func extentOf(families ...transcript.Family) (e extent) {
	ids := map[string]bool{}
	for _, family := range families {
		for _, f := range family.Files {
			if begun := cmp.Or(f.Started, f.Modified); e.first.IsZero() || begun.Before(e.first) {
				e.first = begun
			}
			e.last = transcript.Later(e.last, f.Modified)
			if e.bytes, e.sessions = e.bytes+f.Size, e.sessions+f.Sessions; !f.Part {
				ids[f.ID] = true
			}
		}
	}
	e.sessions += len(ids)
	return e
}

// print lists what is there of an agent.
func (f *agentFiles) print(w io.Writer) {
	all, todo, news := extentOf(f.families...), extentOf(f.todo...), "all read"
	if len(f.todo) == len(f.families) {
		news = "new"
	} else if len(f.todo) > 0 {
		news = fmt.Sprintf("%d new or changed, %s", todo.sessions, humanize.IBytes(uint64(todo.bytes)))
	}
	fmt.Fprintf(w, "%-12s %-16s %s to %s  %8s  %s\n", f.dialect.Name, count(all.sessions, "session"),
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
			f.print(a.stdout)
		}
		todo = append(todo, f.todo...)
	}
	switch {
	case !there && !o.follow:
		a.say("there are no sessions of %s in their folders", agentNames())
		return nil
	case o.dryRun:
		return nil
	case len(todo) == 0:
		if a.say("everything was read before"); !o.follow {
			return nil
		}
	}
	e, into := extentOf(todo...), inspect.ShellWords(o.at.name)+", "+map[string]string{"none": "without content",
		"digests": "with sizes and hashes of content", "content": "with prompts, replies and results of tools"}[o.Capture]
	if o.yes || e.bytes == 0 {
		a.say("into %s", into)
	} else if !a.ask(fmt.Sprintf("Read %s (%s) into %s? [Y/n] ", count(e.sessions, "session"),
		humanize.IBytes(uint64(e.bytes)), into), "y") {
		return errors.New("nothing was read; --yes does not ask")
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(importMemory)
	}
	im.bar = progressbar.NewOptions64(max(1, e.bytes), progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetDescription("reading"),
		progressbar.OptionFullWidth(), progressbar.OptionSetVisibility(e.bytes > 0 && isTerminal(a.stderr)))
	return im.run(ctx)
}
