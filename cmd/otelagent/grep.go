package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store/search"
)

// grepLimit is how many hits are printed without --limit.
const grepLimit = 100

func (a *app) grepCommand() *cobra.Command {
	var o search.Options
	var limit uint
	c := &cobra.Command{
		Use:   "grep TEXT [SESSION]",
		Short: "Search messages, tool calls and prompts",
		Long: `Search the captured content of all sessions, newest first, or of one: messages,
replies, arguments and results of tools, system prompts, tool catalogues,
summaries. Each hit names the address of the first turn that has it, for
'otelagent show', and the kind of its text. A text that many turns share is
named once. Content that was rewound is searched as well, and marked.

TEXT is matched with decoded text, not with JSON. Content is searched where it
was captured: 'otelagent send --capture content'.

Exit codes: 0 found, 1 not found or not read, 2 wrong usage.`,
		Example: `  otelagent grep "rate limit"
  otelagent grep --ignore-case todo last
  otelagent grep --regexp 'rm -rf? /' --output json | jq -r '.hits[].address'`,
		Args: wants(1, 2, "grep wants one TEXT and at most one SESSION, %d arguments given; "+
			"put quotes around what has spaces"),
		RunE: a.reads(func(ctx context.Context, db *database, args []string) error {
			o.Text, o.Tenant, o.Limit = args[0], a.tenant, int(limit)
			if len(args) > 1 {
				key, err := db.Resolve(ctx, args[1])
				if err != nil {
					return err
				}
				o.Session = key.ID
			}
			res, err := search.Run(ctx, db.Store, o)
			if errors.Is(err, search.ErrText) {
				flag := ""
				if o.Regexp {
					flag = "--regexp: "
				}
				return usagef("%s%s", flag, strings.TrimSuffix(err.Error(), ": "+search.ErrText.Error()))
			}
			if err == nil {
				err = a.emit(res, func(w io.Writer, look inspect.Options) error { return inspect.Grep(w, res.Hits, look) })
			}
			switch {
			case err != nil:
				return err
			case res.More && o.Limit > 0:
				a.say("there is more; --limit 0 prints all")
			case res.More:
				a.say("there is more: of a session at most %d are printed", search.MaxOfSession)
			case len(res.Hits) == 0:
				a.say("nothing like that in what was captured of %s", count(res.Sessions, "session"))
				return &exitError{Code: exitFailed}
			}
			return nil
		}),
	}
	c.Flags().BoolVarP(&o.Regexp, "regexp", "E", false, "TEXT is a regular expression (RE2, as of Go)")
	c.Flags().BoolVarP(&o.IgnoreCase, "ignore-case", "i", false, "upper and lower case are the same")
	c.Flags().UintVarP(&limit, "limit", "n", grepLimit, "print at most `N` hits (0: all)")
	return c
}
