package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/inspect"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/store"
)

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (a *app) lsCommand() *cobra.Command {
	var f dbFlags
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:   "ls",
		Short: "List sessions, the newest first",
		Example: `  otelagent ls
  otelagent ls --db ./sessions.db --json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit %d: want a number from 0", limit)
			}
			db, err := f.open(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer db.close()
			if err := db.refresh(cmd.Context()); err != nil {
				return err
			}
			list := []session.Summary{}
			for s, err := range db.store.Sessions(cmd.Context(), store.Query{Tenant: f.tenant, Limit: limit}) {
				if err != nil {
					return err
				}
				list = append(list, s)
			}
			if asJSON {
				return writeJSON(a.stdout, struct {
					Format   int               `json:"format"`
					Sessions []session.Summary `json:"sessions"`
				}{session.TreeFormat, list})
			}
			if len(list) == 0 {
				return a.sayNone(cmd.Context(), db)
			}
			return inspect.List(a.stdout, list, look(a.stdout))
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/formats.md)")
	c.Flags().IntVarP(&limit, "limit", "n", 0, "list at most `n` sessions (0: all)")
	return c
}

// sayNone says that there is nothing to list, and of whom there is something.
func (a *app) sayNone(ctx context.Context, db *database) error {
	const most = 8
	var others []string
	for t, err := range db.store.Tenants(ctx) {
		if err != nil {
			return err
		}
		if len(others) == most {
			others = append(others, "...")
			break
		}
		others = append(others, fmt.Sprintf("%q", t))
	}
	whose := ""
	if db.tenant != "" {
		whose = fmt.Sprintf(" of %q", db.tenant)
	}
	if len(others) == 0 {
		a.say("no sessions in %s yet", db.at.name)
		return nil
	}
	a.say("no sessions%s in %s; there are some of --tenant %s", whose, db.at.name, strings.Join(others, ", "))
	return nil
}

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
