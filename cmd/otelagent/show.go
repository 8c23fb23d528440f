package main

import (
	"bufio"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/inspect"
	"github.com/otelagent/otelagent/session"
)

func (a *app) showCommand() *cobra.Command {
	var f dbFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "show SESSION[/RUN[/TURN]]",
		Short: "Show a session as a tree",
		Long: `Show a session as a tree: its runs, turns, tool calls, compactions, permissions
and sub-agents, with times and tokens, and what was said if it was captured.

SESSION is an id, the beginning of one, 'last', or a trace or span id.
RUN is an id or @n, the n-th run; TURN is its index. What is said is cut to the
width of the screen, but shown whole for a TURN.`,
		Example: `  otelagent show last
  otelagent show 0b5c/@1/3
  otelagent show last --json | jq .usage`,
		Args: oneSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			db, err := f.open(ctx, a)
			if err != nil {
				return err
			}
			defer db.close()
			key, addr, err := db.locate(ctx, args[0])
			if err != nil {
				return err
			}
			t, err := db.load(ctx, key)
			if err != nil {
				return err
			}
			run, turn, err := addr.pick(t.Session)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.stdout, narrowed(t.Session, run, turn))
			}
			o := look(a.stdout)
			o.Run, o.Turn = run, turn
			if o.Related, err = db.related(ctx, t); err != nil {
				return err
			}
			w := bufio.NewWriter(a.stdout)
			return firstError(inspect.Text(w, t, o), w.Flush())
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/formats.md)")
	return c
}

// narrowed returns s with nothing but the run and turn asked for.
func narrowed(s *session.Session, run *session.Run, turn *session.Turn) *session.Session {
	if run == nil {
		return s
	}
	r := *run
	if turn != nil {
		r.Turns = []*session.Turn{turn}
		r.ToolCalls, r.Compactions, r.Permissions = nil, nil, nil
	}
	out := *s
	out.Runs = []*session.Run{&r}
	return &out
}
