package main

import (
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
