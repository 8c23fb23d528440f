package main

import (
	"bufio"
	"cmp"
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
	write        func(io.Writer, session.Tree, export.Options) ([]export.Missing, error)
}

var exportFormats = []exportFormat{
	{"phi-core", "phi-core.json", export.PhiCore},
	{"json", "json", export.JSON},
	{"jsonl", "jsonl", export.JSONL},
	{"csv", "csv", export.CSV},
	{"acp", "acp.ndjson", export.ACP},
}

// exportOptions say what to write, how and where to.
type exportOptions struct {
	format, to, since string
	all, partial      bool
}

func (a *app) exportCommand() *cobra.Command {
	var names []string
	for _, f := range exportFormats {
		names = append(names, f.name)
	}
	formats := strings.Join(names, ", ")
	var o exportOptions
	var format exportFormat
	var since time.Time
	c := &cobra.Command{
		Use:   "export [SESSION | --all | --since TIME] --format FORMAT",
		Short: "Write sessions in formats of others",
		Long: `Write sessions in formats of others (backend/session/export/README.md):

  json, jsonl  sessions, messages and parts of the agent guide
  csv          one row a part; sums of its columns are those of the session
  acp          a trace of Agent Client Protocol messages, made from the session
  phi-core     the session file that phi-core itself saves and loads

They need the content: send with --capture content. Values that the rows of the
guide have no column for stand under additional keys and on additional lines.
SESSION is as in 'otelagent show'. --all and --since write one file a session
into the directory of --to.

Exit codes: 0 written, 1 not found, not whole or not written, 2 wrong usage.`,
		Example: `  otelagent export last --format json | jq '.messages[].parts[].data_json | fromjson'
  otelagent export last --format phi-core -o session.json
  otelagent export --since 24h --format jsonl -o ./sessions/`,
		Args:              cobra.MaximumNArgs(1),
		Annotations:       refuses("output"),
		ValidArgsFunction: a.completeSession,
		PreRunE: func(_ *cobra.Command, args []string) (err error) {
			var wrong wrongs
			many, ref := o.all || o.since != "", strings.Join(args, "")
			i := slices.Index(names, o.format)
			wrong.when(o.format == "", "--format is missing: want %s", formats)
			wrong.oneOf("--format", o.format, names...)
			since, err = parseSince(o.since)
			wrong.note(err)
			wrong.when(many && ref != "", "%s and --all or --since exclude each other", ref)
			wrong.when(!many && ref == "", "nothing to write: name a SESSION, or give --all or --since")
			wrong.when(many && (o.to == "" || o.to == "-"), "several sessions are several files: name their directory with --to")
			if err := wrong.err(); err != nil {
				return err
			}
			format = exportFormats[i]
			return nil
		},
		RunE: a.reads(func(ctx context.Context, db *database, args []string) error {
			ctx, stop := untilInterrupted(ctx)
			defer stop()
			return interrupted((&exporting{&o, format, db}).export(ctx, a, strings.Join(args, ""), since), "")
		}),
	}
	c.Flags().StringVar(&o.format, "format", "", "`FORMAT` to write: "+formats)
	c.Flags().StringVarP(&o.to, "to", "o", "", "`PATH` of the file, replaced whole, or of a directory, made if it is not "+
		"there: one that ends in /, or of --all and --since (default standard output)")
	c.Flags().BoolVar(&o.all, "all", false, "write all sessions")
	c.Flags().StringVar(&o.since, "since", "", "write the sessions with an event "+sinceHelp)
	c.Flags().BoolVar(&o.partial, "partial", false,
		"omit what was not captured, did not arrive, or the format cannot hold, instead of failing")
	return c
}

// exporting writes sessions of one database.
type exporting struct {
	*exportOptions
	format exportFormat
	db     *database
}

// export writes the session of ref, or into a directory those with an event since then.
func (e *exporting) export(ctx context.Context, a *app, ref string, since time.Time) error {
	var keys []session.Key
	if ref != "" {
		key, err := e.db.Resolve(ctx, ref)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	} else {
		list, err := e.db.summaries(ctx, store.Query{Tenant: a.tenant})
		if err != nil {
			return err
		}
		for _, s := range list {
			if !s.Last.Before(since) {
				keys = append(keys, s.Key)
			}
		}
	}
	info, err := os.Stat(e.to)
	many := ref == "" || strings.HasSuffix(e.to, "/") || err == nil && info.IsDir()
	if many {
		if err := os.MkdirAll(e.to, 0o700); err != nil {
			return err
		}
	}
	var failed []error
	var missing []export.Missing
	for _, key := range keys {
		path := e.to
		if many {
			path = filepath.Join(path, fileName(key, e.format.ending))
		}
		pieces, err := e.file(ctx, key, path)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && ref != "":
			return err
		case err != nil: // the others are written
			failed = append(failed, err)
		default:
			missing = append(missing, pieces...)
		}
	}
	written := count(len(keys)-len(failed), "session")
	switch n := count(len(missing), "piece"); {
	case len(failed) > 0:
		const most = 8
		for _, err := range failed[:min(len(failed), most)] {
			a.say("%v", err)
		}
		return fmt.Errorf("%s of %d were written to %s", written, len(keys), e.to)
	case ref == "":
		if a.say("wrote %s to %s", written, e.to); len(missing) > 0 {
			a.say("left out or replaced: %s", n)
		}
	case len(missing) > 0:
		a.say("left out or replaced: %s, the first: %s", n, missing[0])
	}
	return nil
}

// file writes a session to a path; to standard output where that is empty or "-".
func (e *exporting) file(ctx context.Context, key session.Key, path string) (missing []export.Missing, err error) {
	s, err := e.db.Read(ctx, key)
	if err != nil {
		return nil, err
	}
	write := func(w io.Writer) (err error) {
		missing, err = e.session(ctx, w, s)
		return err
	}
	if path == "" || path == "-" {
		out := bufio.NewWriterSize(e.db.app.stdout, 1<<16)
		err = cmp.Or(write(out), out.Flush())
	} else {
		err = writeFile(ctx, path, write)
	}
	if gaps, ok := errors.AsType[*export.MissingError](err); ok {
		err = fmt.Errorf("session %s has no %s file: %s would be missing in it, the first: %s\nSend it with --capture "+
			"content, or omit what was not captured, did not arrive, or %s cannot hold, with --partial",
			key.ID, e.format.name, count(len(gaps.Missing), "piece"), gaps.Missing[0], e.format.name)
	}
	return missing, err
}

// session writes a session with the content, and the parent session, that the database has.
func (e *exporting) session(ctx context.Context, w io.Writer, s session.Tree) ([]export.Missing, error) {
	var failed error
	o := export.Options{Partial: e.partial}
	found := func(err error) bool { // a session that is not there, or is part of another one, names nobody
		if !errors.Is(err, store.ErrNotFound) {
			failed = cmp.Or(failed, err)
		}
		return err == nil
	}
	o.Session = func(id string) *session.Session {
		other, err := e.db.Tree(ctx, session.Key{Tenant: s.Tenant, ID: id})
		found(err)
		return other
	}
	o.CallMessage = func(id, call string) (message string) {
		other, err := e.db.Read(ctx, session.Key{Tenant: s.Tenant, ID: id})
		if found(err) && len(other.Runs) > 0 {
			message, err = export.CallMessage(other, call)
			failed = cmp.Or(failed, err)
		}
		return message
	}
	missing, err := e.format.write(w, s, o)
	return missing, cmp.Or(failed, err)
}

// fileName is the name of a session's file: its id where every system reads that as one name, else what a name can hold
// of it, and its hash. Many disks read capital letters as small ones. Windows reads some words as devices, also with an
// ending.
func fileName(key session.Key, ending string) string {
	if key.Tenant == "" && plainName.MatchString(key.ID) && !device.MatchString(key.ID) {
		return key.ID + "." + ending
	}
	name := strings.TrimPrefix(key.Tenant+"_"+key.ID, "_")
	name = unsafeInName.ReplaceAllString(name[:min(len(name), 80)], "_")
	sum := sha256.Sum256([]byte(key.Tenant + "\x00" + key.ID))
	return strings.TrimLeft(name+"-"+hex.EncodeToString(sum[:6]), "-") + "." + ending // no option to programs
}

var (
	plainName    = regexp.MustCompile(`^[a-z0-9_@+=][a-z0-9_.@+=-]{0,99}$`)
	unsafeInName = regexp.MustCompile(`[^A-Za-z0-9_@+=-]`)
	device       = regexp.MustCompile(`^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
)
