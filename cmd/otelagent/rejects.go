package main

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

func (a *app) rejectsCommand() *cobra.Command {
	var f dbFlags
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:   "rejects",
		Short: "List what was refused, and why",
		Long: fmt.Sprintf(`List the spans and log records that were not stored, the newest first, and why.

OTLP cannot tell a sender which of its spans were refused. The newest %d are
kept, without content. --tenant shows those of one owner, without it all are
shown: a span that says nothing of its session has none. What the reasons mean:
docs/formats.md.`, store.MaxRejects),
		Example: `  otelagent rejects -n 20
  otelagent rejects --json | jq -r '.rejects[].reason' | sort | uniq -c`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit %d: want a number from 0", limit)
			}
			return a.rejects(cmd.Context(), &f, cmd.Flags().Changed("tenant"), limit, asJSON)
		},
	}
	f.addDatabase(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON (docs/formats.md)")
	c.Flags().IntVarP(&limit, "limit", "n", 0, "list at most `n` (0: all)")
	return c
}

func (a *app) rejects(ctx context.Context, f *dbFlags, ofTenant bool, limit int, asJSON bool) error {
	db, err := f.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	st, ok := db.store.(store.Rejecter)
	if !ok {
		return fmt.Errorf("%s keeps no list of what was refused", db.at.name)
	}
	all := limit
	if ofTenant {
		all = 0
	}
	var list []store.Reject
	for r, err := range st.Rejects(ctx, all) {
		if err != nil {
			return err
		}
		if ofTenant && r.Session.Tenant != f.tenant {
			continue
		}
		if list = append(list, r); len(list) == limit {
			break
		}
	}
	if asJSON {
		return writeJSON(a.stdout, newRejectsJSON(list))
	}
	if len(list) == 0 {
		a.say("nothing was refused, as far as %s tells", db.at.name)
		return nil
	}
	return inspect.Rejects(a.stdout, list, look(a.stdout))
}

// rejectsJSON is what `rejects --json` prints.
type rejectsJSON struct {
	Format  int          `json:"format"`
	Rejects []rejectJSON `json:"rejects"`
}

type rejectJSON struct {
	store.Reject
	Trace string `json:"trace,omitempty"`
	Span  string `json:"span,omitempty"`
}

func newRejectsJSON(list []store.Reject) rejectsJSON {
	out := rejectsJSON{session.TreeFormat, []rejectJSON{}}
	for _, r := range list {
		j := rejectJSON{Reject: r}
		if r.Trace != (session.TraceID{}) {
			j.Trace = hex.EncodeToString(r.Trace[:])
		}
		if r.Span != (session.SpanID{}) {
			j.Span = hex.EncodeToString(r.Span[:])
		}
		out.Rejects = append(out.Rejects, j)
	}
	return out
}
