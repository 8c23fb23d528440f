package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session/diff"
)

// Exit codes of diff are those of every other diff: 1 reports differences, and a failure exits like wrong usage.
const (
	exitDifferent = 1
	exitTrouble   = 2
)

// diffOptions are the flags of diff.
type diffOptions struct {
	db                                dbFlags
	dbB                               string
	ignore                            string
	asJSON, stat, sideBySide, unified bool
}

func (a *app) diffCommand() *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Show what differs between two sessions, runs or turns",
		Long: `Show what differs between two sessions, two runs or two turns, turn by turn:
what was asked and what the model replied, tool calls with their inputs and
results, system prompt and tools offered, parameters, outcome, tokens and cost.
Times and ids are never a difference.

A and B are SESSION[/RUN[/TURN]] as in 'otelagent show', both of one kind, or a
FILE that 'otelagent send' reads, behind which /RUN[/TURN] may stand, or
/SESSION[/RUN[/TURN]]. B may be in another database: --db-b.

Runs are aligned by their order and by what was asked of them, turns by their
index. What was not captured is said to be not compared, and is never equal.

Exit codes: 0 the same, 1 different, or not all could be compared, 2 trouble:
wrong usage, not found, or any other failure.`,
		Example: `  otelagent diff before.ndjson after.ndjson
  otelagent diff 0b5c 7d20 --stat
  otelagent diff 0b5c/@1/3 7d20/@1/3 --side-by-side
  otelagent diff last/@1 last/@3 --ignore usage,cost
  otelagent diff before.ndjson/@1/0 after.ndjson/@1/0 --json | jq .runs[0].turns`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("diff wants two of SESSION[/RUN[/TURN]] or FILE; %d given", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.trouble(a.diff(cmd.Context(), &o, args[0], args[1]))
		},
	}
	o.db.add(c)
	c.Flags().StringVar(&o.dbB, "db-b", "", "database `DSN` of B (default that of A)")
	c.Flags().BoolVarP(&o.unified, "unified", "u", false,
		"one above the other, with - and + (default below 120 columns, and into a file)")
	c.Flags().BoolVarP(&o.sideBySide, "side-by-side", "y", false,
		"A at the left, B at the right (default on a terminal from 120 columns)")
	c.Flags().BoolVar(&o.stat, "stat", false, "one line a turn")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON (docs/diff.md)")
	c.Flags().StringVar(&o.ignore, "ignore", "", "leave out these `parts`: "+partWords())
	return c
}

// partWords are the words of --ignore.
func partWords() string {
	var words []string
	for _, p := range diff.Parts {
		words = append(words, string(p))
	}
	return strings.Join(words, ", ")
}

// trouble reports a failure, and gives it the exit code that differences do not have. It does not name the help,
// because the usage was not wrong.
func (a *app) trouble(err error) error {
	var e *exitError
	if err == nil || errors.As(err, &e) {
		return err
	}
	a.say("%s", plainText.Replace(strings.TrimSpace(err.Error())))
	return &exitError{Code: exitTrouble}
}

func (a *app) diff(ctx context.Context, o *diffOptions, nameA, nameB string) error {
	ignore, err := diff.ParseParts(o.ignore)
	switch {
	case err != nil:
		return usagef("--ignore: %w", err)
	case more(o.unified, o.sideBySide, o.stat, o.asJSON):
		return usagef("--unified, --side-by-side, --stat and --json exclude each other")
	case nameA == "-" && nameB == "-":
		return usagef("standard input is one of the two, not both")
	}
	x, err := a.diffTarget(ctx, &o.db, nameA)
	if err != nil {
		return err
	}
	other := o.db
	if o.dbB != "" {
		other.db, other.files = o.dbB, nil
	}
	y, err := a.diffTarget(ctx, &other, nameB)
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
	w := bufio.NewWriter(a.stdout)
	if o.asJSON {
		err = writeJSON(w, d)
	} else {
		look := look(a.stdout)
		form := inspect.DiffUnified
		switch {
		case o.stat:
			form = inspect.DiffStat
		case o.sideBySide, !o.unified && look.Width >= inspect.SideBySideWidth && isTerminal(a.stdout):
			form = inspect.DiffSideBySide
		}
		err = inspect.WriteDiff(w, d, look, form)
	}
	if err := firstError(err, w.Flush()); err != nil {
		return err
	}
	if !d.Equal {
		return &exitError{Code: exitDifferent}
	}
	return nil
}

// more says that more than one is set.
func more(flags ...bool) bool {
	n := 0
	for _, f := range flags {
		if f {
			n++
		}
	}
	return n > 1
}

// diffTarget reads what an argument names.
func (a *app) diffTarget(ctx context.Context, f *dbFlags, arg string) (diff.Target, error) {
	var t diff.Target
	file, rest := "", ""
	if f.db == "" && len(f.files) == 0 {
		file, rest = fileAndAddress(arg)
	}
	var db *database
	var err error
	if rest != "" {
		db, err = openRecording(ctx, a, []string{file}, f.source(), f.tenant)
	} else {
		db, rest, err = f.openArgument(ctx, a, arg)
	}
	if err != nil {
		return t, f.noFile([]string{arg}, err)
	}
	defer db.close()
	if rest == "" || file != "" {
		only, err := db.only(ctx)
		switch {
		case err != nil:
			return t, err
		case rest == "" && only == nil:
			return t, usagef("%s holds several sessions: name one of them behind it, such as %s/ID; 'otelagent show %s' lists "+
				"them", arg, arg, arg)
		case rest == "":
			rest = only.ID
		case only != nil:
			if _, _, err := db.locate(ctx, rest); err != nil { // no session: a RUN of the one that there is
				rest = only.ID + "/" + rest
			}
		}
		t.Source = db.at.name
	}
	if f.db != "" || len(f.files) > 0 {
		t.Source = db.at.name
	}
	key, addr, err := db.locate(ctx, rest)
	if err != nil {
		return t, f.noFile([]string{arg}, err)
	}
	tree, err := db.load(ctx, key)
	if err != nil {
		return t, err
	}
	t.Session, t.Blocks = tree.Session, tree.Blocks
	t.Run, t.Turn, err = addr.pick(tree.Session)
	return t, err
}

// fileAndAddress parts FILE/ADDRESS, where the file is there; rest is empty where none is.
func fileAndAddress(arg string) (file, rest string) {
	for i := len(arg) - 1; i > 0; i-- {
		if arg[i] == '/' && i < len(arg)-1 && isFile(arg[:i]) {
			return arg[:i], arg[i+1:]
		}
	}
	return "", ""
}
