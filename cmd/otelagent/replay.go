package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session/replay"
	"github.com/otelagent/otelagent/backend/store/reader"
)

type replayFlags struct {
	db                          dbFlags
	output, form, model, system string
	send, keyEnv                string
	to                          *url.URL // of send
	tool, command               string
	args                        []string // of command
	timeout                     time.Duration
	asJSON, newSystem           bool
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay SESSION[/RUN]/TURN[/ATTEMPT] [-- ARGUMENT...]",
		Short: "Check whether a turn can be asked again; write its request, send it, compare the answers",
		Long: `Check whether the inputs of a turn are recorded, write its request as the body
of a provider's API, send it and compare the answers, or run one of its tool
calls again.

The turn is named as in 'otelagent request'. --form and --output write the
request body; standard error names what differs from the recorded request.
Nothing is sent without --send.

Exit codes: 0 eligible (or written, answered, the same tool result), 1 not
eligible (or not whole, not answered, another tool result), not found or not
read, 2 wrong usage.`,
		Example: `  otelagent replay last/3
  otelagent replay last/3 --form openai-chat -o request.json
  otelagent replay last/3 --send https://api.anthropic.com --system new.txt
  otelagent replay last/3 --tool toolu_01B --run ./bash-tool -- --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.newSystem, f.args = cmd.Flags().Changed("system"), args[1:]
			addr, err := f.check(args[0])
			if err != nil {
				return err
			}
			return a.replay(cmd.Context(), &f, addr)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "write the request body to `FILE`; - is standard output")
	flags.StringVar(&f.form, "form", "",
		"`API` of the body: anthropic, openai-chat, openai-responses or as-sent (default the one of the turn's provider)")
	flags.StringVar(&f.model, "model", "", "ask the model `NAME` instead")
	flags.StringVar(&f.system, "system", "", "replace the system prompt by the text of `FILE`; - is standard input")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON (docs/replay.md)")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "bound --send and --run by this `TIME`")
	flags.StringVar(&f.send, "send", "", "send the request to `URL`, a base address or the whole, and compare the answers")
	flags.StringVar(&f.keyEnv, "key-env", "",
		"environment `variable` that holds the key (default ANTHROPIC_API_KEY or OPENAI_API_KEY, by the form)")
	flags.StringVar(&f.tool, "tool", "", "show the tool call `CALL` of the turn: its id, or the name of its tool")
	flags.StringVar(&f.command, "run", "", "run `COMMAND` with the input on standard input; its arguments follow --")
	f.db.add(c)
	return c
}

// check names all errors in the flags, and reads the address.
func (f *replayFlags) check(arg string) (addr reader.RequestAddress, err error) {
	addr, err = reader.ParseRequestAddress(arg)
	wrong := []error{err}
	if _, err := replay.ParseAPI(f.form); f.form != "" && err != nil {
		wrong = append(wrong, fmt.Errorf("--form %s: %w", f.form, err))
	}
	if f.send != "" {
		f.to, err = sendTo(f.send)
		wrong = append(wrong, err)
	}
	other := f.send != "" || f.form != "" || f.model != "" || f.newSystem || f.keyEnv != "" || f.output != ""
	rule := func(broken bool, text string) {
		if broken {
			wrong = append(wrong, errors.New(text))
		}
	}
	rule(f.tool != "" && other, "--tool goes with --run, --timeout and --json only")
	rule(f.tool == "" && f.command != "", "--run needs --tool")
	rule(f.command == "" && len(f.args) > 0, "arguments after -- need --run")
	rule(f.send == "" && f.keyEnv != "", "--key-env needs --send")
	rule(f.send != "" && f.output != "", "--send and --output exclude each other")
	rule(f.timeout <= 0, "--timeout is not positive")
	if err := errors.Join(wrong...); err != nil {
		return addr, usagef("%w", err)
	}
	return addr, nil
}

func (a *app) replay(ctx context.Context, f *replayFlags, addr reader.RequestAddress) error {
	db, err := f.db.open(ctx, a)
	if err != nil {
		return err
	}
	defer db.close()
	key, err := db.find(ctx, addr.Session)
	if err != nil {
		return err
	}
	t, err := db.read(ctx, key)
	if err != nil {
		return err
	}
	run, turn, err := addr.Pick(t.Session)
	if err != nil {
		return err
	}
	if f.tool != "" {
		return a.replayTool(ctx, f, t, run, turn)
	}
	q, err := reader.PickAttempt(run, turn, addr.Attempt)
	if err != nil {
		return err
	}
	r, err := inspect.NewReplay(t, run, turn, q, replay.Options{})
	if err != nil {
		return err
	}
	if f.form == "" && f.model == "" && !f.newSystem && f.output == "" && f.send == "" {
		if err := a.print(f, r, r.Text); err != nil || r.Eligible {
			return err
		}
		return &exitError{Code: exitFailed} // the output says why
	}
	o := replay.Options{API: cmp.Or(message.API(f.form), r.Suggested), Model: f.model, Whole: f.send != ""}
	if f.newSystem {
		text, err := a.readText(f.system)
		if err != nil {
			return err
		}
		o.System = &text
	}
	switch r, err = inspect.NewReplay(t, run, turn, q, o); {
	case r.Request == nil:
		return fmt.Errorf("%s has no request: %s", r.Address, strings.Join(r.Reasons, "; "))
	case r.Request.Payload.Bytes == nil:
		return incomplete(r.Request)
	case err != nil:
		return fmt.Errorf("%s: %w", r.Address, err)
	}
	if note := r.Request.Note(); note != "" && (o.API == replay.AsSent || r.Request.Redacted) {
		a.say("%s", note)
	}
	for _, n := range r.Body.Notes {
		a.say("%s", n)
	}
	if f.send != "" {
		recorded, whole := replay.Recorded(turn, t.Blocks)
		return a.resend(ctx, f, r, recorded, whole)
	}
	write := func(w io.Writer) error {
		if f.asJSON {
			return writeJSON(w, r)
		}
		_, err := w.Write(r.Body.Bytes)
		return err
	}
	if f.output != "" && f.output != "-" {
		return writeFile(f.output, write)
	}
	return write(a.stdout)
}

// print writes a document as JSON or as text.
func (a *app) print(f *replayFlags, document any, text func(io.Writer, inspect.Options) error) error {
	w := bufio.NewWriter(a.stdout)
	if f.asJSON {
		return firstError(writeJSON(w, document), w.Flush())
	}
	return firstError(text(w, look(a.stdout)), w.Flush())
}

// readText returns the text of a file, - for standard input, without the line feed at its end.
func (a *app) readText(name string) (string, error) {
	read := os.ReadFile
	if name == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(a.stdin) }
	}
	raw, err := read(name)
	if err != nil {
		return "", fmt.Errorf("--system: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToValidUTF8(string(raw), "\uFFFD"), "\n"), "\r"), nil
}
