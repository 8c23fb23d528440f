package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store/search"
)

// grepOptions are the flags of grep.
type grepOptions struct {
	db      dbFlags
	session string
	asJSON  bool
	search  search.Options
}

// grepLimit is how many hits are printed without --limit.
const grepLimit = 100

func (a *app) grepCommand() *cobra.Command {
	var o grepOptions
	c := &cobra.Command{
		Use:   "grep TEXT",
		Short: "Search what was said",
		Long: `Search what was captured of all sessions, newest first, or of one: messages,
replies, arguments and results of tools, system prompts, tool catalogues,
summaries. Each hit names the address of the turn that first had it, for
'otelagent show', and what it is there. A text that many turns share is named
once. What was rewound is searched as well, and marked.

TEXT is looked for as it was said, not as JSON spells it. Content is there where
it was captured: 'otelagent send --capture content'.

Exit codes: 0 found, 1 not found or not read, 2 wrong usage.`,
		Example: `  otelagent grep "rate limit"
  otelagent grep --session last --ignore-case todo
  otelagent grep --regexp 'rm -rf? /' --json | jq -r '.hits[].address'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return o.db.orFile(args, fmt.Errorf("%s wants one TEXT, %d given; put quotes around what has spaces", cmd.Name(),
					len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.search.Text = args[0]
			return a.grep(cmd.Context(), &o)
		},
	}
	o.db.add(c)
	c.Flags().StringVar(&o.session, "session", "", "of this `session` alone: an id, the beginning of one, 'last'")
	c.Flags().BoolVarP(&o.search.Regexp, "regexp", "E", false, "TEXT is a regular expression (RE2, as of Go)")
	c.Flags().BoolVarP(&o.search.IgnoreCase, "ignore-case", "i", false, "upper and lower case are the same")
	c.Flags().IntVarP(&o.search.Limit, "limit", "n", grepLimit, "print at most `n` hits (0: all)")
	c.Flags().BoolVar(&o.asJSON, "json", false, "print JSON (docs/formats.md)")
	return c
}

func (a *app) grep(ctx context.Context, o *grepOptions) error {
	if o.search.Limit < 0 {
		return usagef("--limit %d: want a number from 0", o.search.Limit)
	}
	db, err := o.db.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	o.search.Tenant = o.db.tenant
	if o.session != "" {
		key, err := db.find(ctx, o.session)
		if err != nil {
			return err
		}
		o.search.Session = key.ID
	} else if err := db.refresh(ctx); err != nil { // summaries know which is newest
		return err
	}
	res, err := search.Run(ctx, db.store, o.search)
	if errors.Is(err, search.ErrText) {
		flag := ""
		if o.search.Regexp {
			flag = "--regexp: "
		}
		return usagef("%s%s", flag, strings.TrimSuffix(err.Error(), ": "+search.ErrText.Error()))
	}
	if err != nil {
		return err
	}
	if o.asJSON {
		if err := writeJSON(a.stdout, res); err != nil {
			return err
		}
	} else {
		w := bufio.NewWriter(a.stdout)
		if err := firstError(inspect.Grep(w, res.Hits, look(a.stdout)), w.Flush()); err != nil {
			return err
		}
	}
	switch {
	case res.More && o.search.Limit > 0:
		a.say("there is more; --limit 0 prints all")
	case res.More:
		a.say("there is more: of a session at most %d are told", search.MaxOfSession)
	case len(res.Hits) == 0:
		a.say("nothing like that in what was captured of %s",
			map[bool]string{true: "1 session", false: fmt.Sprintf("%d sessions", res.Sessions)}[res.Sessions == 1])
		return &exitError{Code: exitFailed}
	}
	return nil
}
