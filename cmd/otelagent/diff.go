package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session/diff"
)

// exitDifferent is the exit code of every diff for differences.
const exitDifferent = 1

// diffOptions are the flags of diff.
type diffOptions struct {
	dbB, ignore               string
	stat, sideBySide, unified bool
}

func (a *app) diffCommand() *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Show what differs between two sessions, runs or turns",
		Long: `Show what differs between two sessions, two runs or two turns, turn by turn:
prompts and replies, tool calls with their inputs and results, system prompt and
tools offered, parameters, outcome, tokens and cost. Times and ids are never a
difference.

A and B are SESSION[/RUN[/TURN]] as in 'otelagent show', both of one kind, or a
FILE that 'otelagent send' reads, behind which /RUN[/TURN] may stand, or
/SESSION[/RUN[/TURN]]. B may be in another database: --db-b.

Runs are aligned by their order and their prompts, turns by their index. Content
that was not captured is listed as not compared, and is never equal.

Exit codes: 0 the same, 1 different, or not all could be compared, 2 trouble:
wrong usage, not found, or any other failure.`,
		Example: `  otelagent diff before.ndjson after.ndjson
  otelagent diff 0b5c 7d20 --stat
  otelagent diff 0b5c/@1/3 7d20/@1/3 --side-by-side
  otelagent diff last/@1 last/@3 --ignore usage,cost
  otelagent diff before.ndjson/@1/0 after.ndjson/@1/0 --output json | jq .runs[0].turns`,
		Args:              wants(2, 2, "diff wants two of SESSION[/RUN[/TURN]] or FILE; %d given"),
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := a.diff(cmd.Context(), &o, args[0], args[1])
			if err == nil || errors.As(err, new(*exitError)) {
				return err
			}
			return &exitError{Code: exitTrouble, Err: err} // which differences do not have
		},
	}
	var words []string
	for _, p := range diff.Parts {
		words = append(words, string(p))
	}
	c.Flags().StringVar(&o.dbB, "db-b", "", "database `DSN` of B (default that of A)")
	c.Flags().BoolVarP(&o.unified, "unified", "u", false,
		"one above the other, with - and + (default below 120 columns, and into a file)")
	c.Flags().BoolVarP(&o.sideBySide, "side-by-side", "y", false,
		"A at the left, B at the right (default on a terminal from 120 columns)")
	c.Flags().BoolVar(&o.stat, "stat", false, "one line a turn")
	c.Flags().StringVar(&o.ignore, "ignore", "", "do not compare these `PARTS`: "+strings.Join(words, ", "))
	return c
}

func (a *app) diff(ctx context.Context, o *diffOptions, nameA, nameB string) error {
	ignore, err := diff.ParseParts(o.ignore)
	forms := 0
	for _, on := range []bool{o.unified, o.sideBySide, o.stat, a.json()} {
		if on {
			forms++
		}
	}
	var wrong wrongs
	wrong.when(err != nil, "--ignore: %v", err)
	wrong.when(forms > 1, "--unified, --side-by-side, --stat and --output json exclude each other")
	wrong.when(nameA == "-" && nameB == "-", "standard input is one of the two, not both")
	if err := wrong.err(); err != nil {
		return err
	}
	names, ref := a.fileAndAddress(nameA)
	db, err := a.open(ctx, names...)
	if err != nil {
		return a.hint([]string{ref}, err)
	}
	defer db.close()
	x, err := db.diffTarget(ctx, ref, names)
	if err != nil {
		return err
	}
	other := *a
	if o.dbB != "" {
		other.dbs = []string{o.dbB}
	}
	namesB, ref := other.fileAndAddress(nameB)
	if !slices.Equal(namesB, names) {
		if db, err = other.open(ctx, namesB...); err != nil {
			return other.hint([]string{ref}, err)
		}
		defer db.close()
	}
	y, err := db.diffTarget(ctx, ref, namesB)
	if err != nil {
		return err
	}
	if x.Kind() != y.Kind() {
		return usagef("%s is a %s and %s a %s: only two of one kind can be compared", nameA, x.Kind(), nameB, y.Kind())
	}
	d, err := diff.Compare(x, y, ignore...)
	if err != nil {
		return err
	}
	err = a.emit(d, func(w io.Writer, look inspect.Options) error {
		form := inspect.DiffUnified
		switch {
		case o.stat:
			form = inspect.DiffStat
		case o.sideBySide, !o.unified && look.Width >= inspect.SideBySideWidth && isTerminal(a.stdout):
			form = inspect.DiffSideBySide
		}
		return inspect.WriteDiff(w, d, look, form)
	})
	if err == nil && !d.Equal {
		err = &exitError{Code: exitDifferent}
	}
	return err
}

// diffTarget returns the session, run or turn of an address in a database of these names.
func (db *database) diffTarget(ctx context.Context, ref string, names []string) (t diff.Target, err error) {
	if len(names) > 0 && len(db.app.dbs) == 0 && ref != "" { // of a FILE also a RUN of the one session that there is
		if _, _, err := db.Locate(ctx, ref); err != nil {
			if only, err := db.only(ctx); err == nil {
				ref = only + "/" + ref
			}
		}
	}
	key, addr, err := db.locate(ctx, ref)
	if err != nil {
		return t, err
	}
	tree, err := db.Load(ctx, key)
	if err != nil {
		return t, err
	}
	if len(names) > 0 {
		t.Source = db.at.name
	}
	t.Session, t.Blocks = tree.Session, tree.Blocks
	t.Run, t.Turn, err = addr.Pick(tree.Session)
	return t, err
}
