package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
)

// exportFormat is a format that sessions are written in.
type exportFormat struct {
	name, ending string
	writer       func(context.Context, io.Writer, *session.Session, export.Bodies, export.Options) ([]export.Missing, error)
}

var exportFormats = []exportFormat{
	{"phi-core", "phi-core.json", export.PhiCore},
	{"json", "json", export.JSON},
	{"jsonl", "jsonl", export.JSONL},
	{"csv", "csv", export.CSV},
	{"acp", "acp.ndjson", export.ACP},
}

// write writes a session with the content and the parent session that the database has.
func (f exportFormat) write(ctx context.Context, e *exporting, w io.Writer, s *session.Session,
	o export.Options) ([]export.Missing, error) {
	var failed error
	bodies := func(s *session.Session) export.Bodies {
		b, err := store.NewBodies(ctx, e.db.store, session.Key{Tenant: s.Tenant, ID: s.ID})
		if failed = firstError(failed, err); err != nil {
			return nil
		}
		b.Add(s.LiveBlocks())
		return b
	}
	o.Session = func(id string) *session.Session {
		other, err := e.db.tree(ctx, session.Key{Tenant: s.Tenant, ID: id})
		if failed = firstError(failed, err); err != nil || len(other.Runs) == 0 {
			return nil
		}
		return other
	}
	o.CallMessage = func(id, call string) string {
		other := o.Session(id)
		if other == nil {
			return ""
		}
		message, err := export.CallMessage(ctx, other, bodies(other), call)
		failed = firstError(failed, err)
		return message
	}
	content := bodies(s)
	if failed != nil {
		return nil, failed
	}
	missing, err := f.writer(ctx, w, s, content, o)
	return missing, firstError(failed, err)
}

func exportFormatNames() string {
	var names []string
	for _, f := range exportFormats {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}

// exportOptions say what to write, how and where to.
type exportOptions struct {
	db                   dbFlags
	format, file, folder string
	since                string
	all, partial, strict bool
	session              string
}

func (a *app) exportCommand() *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export [SESSION | --all | --since TIME] --format FORMAT",
		Short: "Write sessions in formats of others",
		Long: `Write sessions in formats of others (docs/formats.md):

  json, jsonl  sessions, messages and parts of the agent guide
  csv          one row a part; sums of its columns are those of the session
  acp          a trace of Agent Client Protocol messages, rebuilt from the session
  phi-core     the session file that phi-core itself saves and loads

They need the content: send with --capture content. What the rows of the guide
have no place for stands under keys and on lines of our own; --strict-guide
leaves these out. SESSION is as in 'otelagent show'. With --all, or --since,
each session becomes a file of its own in the folder that -d names.`,
		Example: `  otelagent export last --format json | jq '.messages[].parts[].data_json | fromjson'
  otelagent export last --format phi-core -o session.json
  otelagent export --since 24h --format jsonl -d ./sessions`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.session = args[0]
			}
			format, since, err := o.check()
			if err != nil {
				return err
			}
			return a.export(cmd.Context(), &o, format, since)
		},
	}
	o.db.add(c)
	c.Flags().StringVar(&o.format, "format", "", "`format` to write: "+exportFormatNames())
	c.Flags().StringVarP(&o.file, "output", "o", "", "`file` to write, replaced whole (default standard output)")
	c.Flags().StringVarP(&o.folder, "dir", "d", "", "`folder` to write one file a session to, made if it is not there")
	c.Flags().BoolVar(&o.all, "all", false, "write all sessions")
	c.Flags().StringVar(&o.since, "since", "", "write the sessions that something was seen of since `TIME`: 2026-11-21, "+
		"2026-11-21T09:00:00Z, or 90m, 24h, 7d ago")
	c.Flags().BoolVar(&o.partial, "partial", false,
		"leave out what was not captured, did not arrive, or the format cannot say, instead of refusing")
	c.Flags().BoolVar(&o.strict, "strict-guide", false,
		"of json, jsonl and csv write what the agent guide defines and nothing else")
	return c
}

// check names everything that is wrong with the flags.
func (o *exportOptions) check() (f exportFormat, since time.Time, err error) {
	var wrong []string
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	i := slices.IndexFunc(exportFormats, func(f exportFormat) bool { return f.name == o.format })
	switch {
	case o.format == "":
		add("--format is missing: want %s", exportFormatNames())
	case i < 0:
		add("--format %s: want %s", o.format, exportFormatNames())
	default:
		f = exportFormats[i]
	}
	if o.since != "" {
		if since, err = store.ParseTime(o.since, time.Now()); err != nil {
			add("--since %s: want a date, a time in RFC 3339, or how long ago: 90m, 24h, 7d", o.since)
		}
	}
	many := o.all || o.since != ""
	switch {
	case many && o.session != "":
		add("%s and --all or --since exclude each other", o.session)
	case !many && o.session == "":
		add("nothing to write: name a SESSION, or give --all or --since")
	}
	if many && o.folder == "" {
		add("several sessions are several files: name their folder with -d")
	}
	if o.folder != "" && o.file != "" {
		add("-d and -o exclude each other")
	}
	if o.strict && i >= 0 && !slices.Contains([]string{"json", "jsonl", "csv"}, o.format) {
		add("--strict-guide is for json, jsonl and csv")
	}
	if len(wrong) > 0 {
		return f, since, usagef("%s", strings.Join(wrong, "\n"))
	}
	return f, since, nil
}

// exporting writes sessions of one database.
type exporting struct {
	app    *app
	o      *exportOptions
	format exportFormat
	db     *database
}

func (a *app) export(ctx context.Context, o *exportOptions, format exportFormat, since time.Time) error {
	db, err := o.db.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	e := &exporting{a, o, format, db}
	var keys []session.Key
	if o.session != "" {
		key, err := db.find(ctx, o.session)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	} else {
		if err := db.refresh(ctx); err != nil {
			return err
		}
		for s, err := range db.store.Sessions(ctx, store.Query{Tenant: o.db.tenant}) {
			if err != nil {
				return err
			}
			if !s.Last.Before(since) {
				keys = append(keys, s.Key)
			}
		}
	}
	if o.folder == "" {
		return e.one(ctx, keys[0])
	}
	if err := os.MkdirAll(o.folder, 0o700); err != nil {
		return err
	}
	return e.many(ctx, keys)
}

// one writes a session to a file or to standard output.
func (e *exporting) one(ctx context.Context, key session.Key) error {
	s, err := e.db.tree(ctx, key)
	if err != nil {
		return err
	}
	var missing []export.Missing
	write := func(w io.Writer) (err error) {
		missing, err = e.format.write(ctx, e, w, s, e.options())
		return err
	}
	if e.o.file == "" || e.o.file == "-" {
		out := bufio.NewWriterSize(e.app.stdout, 1<<16)
		err = firstError(write(out), out.Flush())
	} else {
		err = writeFile(e.o.file, write)
	}
	if err = e.plainly(key, err); err != nil {
		return err
	}
	if len(missing) > 0 {
		e.app.say("left out or replaced: %s, the first: %s", count(len(missing), "piece"), missing[0])
	}
	return nil
}

// many writes each session to a file in the folder. One that cannot be written does not keep the others from it.
func (e *exporting) many(ctx context.Context, keys []session.Key) error {
	var failed []error
	written, pieces := 0, 0
	bar := e.app.bar(len(keys), "sessions")
	for _, key := range keys {
		s, err := e.db.tree(ctx, key)
		if err == nil {
			path := filepath.Join(e.o.folder, fileName(key, e.format.ending))
			err = writeFile(path, func(w io.Writer) error {
				missing, err := e.format.write(ctx, e, w, s, export.Options{Partial: e.o.partial, Strict: e.o.strict})
				pieces += len(missing)
				return err
			})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err = e.plainly(key, err); err != nil {
			failed = append(failed, err)
		} else {
			written++
		}
		bar.add(1)
	}
	bar.end()
	if len(failed) > 0 {
		const most = 8
		for _, err := range failed[:min(len(failed), most)] {
			e.app.say("%v", err)
		}
		return fmt.Errorf("%s of %d were written to %s", count(written, "session"), len(keys), e.o.folder)
	}
	e.app.say("wrote %s to %s", count(written, "session"), e.o.folder)
	if pieces > 0 {
		e.app.say("left out or replaced: %s", count(pieces, "piece"))
	}
	return nil
}

// options are those of a single session, with a bar for who watches.
func (e *exporting) options() export.Options {
	o := export.Options{Partial: e.o.partial, Strict: e.o.strict}
	var bar *progress
	o.Progress = func(done, total int) {
		if bar == nil {
			bar = e.app.bar(total, "messages")
		}
		bar.to(done)
		if done == total {
			bar.end()
		}
	}
	return o
}

// plainly says in plain words why a session was not written.
func (e *exporting) plainly(key session.Key, err error) error {
	var gaps *export.MissingError
	if errors.As(err, &gaps) {
		return fmt.Errorf("session %s has no %s file: %s would be missing in it, the first: %s\nSend it with --capture "+
			"content, or leave out what was not captured, did not arrive, or %s cannot say, with --partial",
			key.ID, e.format.name, count(len(gaps.Missing), "piece"), gaps.Missing[0], e.format.name)
	}
	return err
}

// fileName is the name of a session's file: its id, with what a file name cannot hold, or would read as another,
// replaced by its hash. Capital letters read as small ones on many disks, and some words as devices on Windows.
func fileName(key session.Key, ending string) string {
	const (
		small = "abcdefghijklmnopqrstuvwxyz0123456789_-.@+="
		safe  = small + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	)
	name := key.ID
	if key.Tenant != "" {
		name = key.Tenant + "." + name
	}
	if strings.Trim(name, small) != "" || device.MatchString(name) || len(name) > 100 || name == "" ||
		strings.Contains(".-", name[:1]) || key.Tenant != "" {
		sum := sha256.Sum256([]byte(key.Tenant + "\x00" + key.ID))
		name = strings.Map(func(r rune) rune {
			if strings.ContainsRune(safe, r) {
				return r
			}
			return '_'
		}, name)
		if device.MatchString(name) {
			name = "_" + name
		}
		// A name that begins with a point is hidden, and one that begins with a dash is an option to programs.
		name = strings.TrimLeft(name[:min(len(name), 80)]+"-"+hex.EncodeToString(sum[:6]), ".-")
	}
	return name + "." + ending
}

// device is what Windows takes for a device, whatever stands behind a point.
var device = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
