package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session/replay"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// replayFlags say which turn is asked again, and how.
type replayFlags struct {
	db                       dbFlags
	inRun, turn, attempt     string
	output, form             string
	model, system            string
	send, keyEnv             string
	tool, command            string
	args                     []string // of command
	timeout                  time.Duration
	asJSON, placed, systemIn bool // placed: inRun, turn or attempt was given; systemIn: system was
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay SESSION[/RUN]/TURN[/ATTEMPT] [-- ARGUMENT...]",
		Short: "Ask a turn again: whether its inputs are there, its request, its answer now",
		Long: `Say whether the inputs of a turn are there, give them back as a provider's
request body, ask again, or run one of its tool calls again.

The turn is named as in 'otelagent request'. Without other flags it says whether
the turn can be asked again, and what is missing. --form and --output write the
request body: what the form has no place for is named on standard error. Nothing
is sent unless --send names where to.

Exit codes: 0 eligible (or written, answered, the same tool result), 1 not
eligible (or not whole, not answered, another tool result), not found or not
read, 2 wrong usage.`,
		Example: `  otelagent replay last/3
  otelagent replay last/3 --form openai-chat -o request.json
  otelagent replay last/3 --send https://api.anthropic.com --system new.txt
  otelagent replay last/3 --tool toolu_01B --run ./bash-tool -- --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if at < 0 {
				at = len(args)
			}
			if at != 1 {
				return fmt.Errorf("replay wants one SESSION[/RUN]/TURN[/ATTEMPT]; %d given", at)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			changed := cmd.Flags().Changed
			f.placed = changed("in-run") || changed("turn") || changed("attempt")
			f.systemIn = changed("system")
			f.args = args[1:]
			addr, err := f.check(args[0], changed)
			if err != nil {
				return err
			}
			return a.replay(cmd.Context(), &f, addr)
		},
	}
	c.Flags().StringVarP(&f.output, "output", "o", "", "write the request body to `FILE`; - is standard output")
	c.Flags().StringVar(&f.form, "form", "", "`FORM` of the request body: anthropic, openai-chat, openai-responses or as-sent (default what the provider of the turn takes)")
	c.Flags().StringVar(&f.model, "model", "", "ask the model `NAME` instead")
	c.Flags().StringVar(&f.system, "system", "", "put the text of `FILE` in the place of the system prompt; - is standard input")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON (docs/replay.md)")
	c.Flags().StringVar(&f.inRun, "in-run", "", "the `RUN`: an id, or @n, the n-th")
	c.Flags().StringVar(&f.turn, "turn", "", "`index` of the turn")
	c.Flags().StringVar(&f.attempt, "attempt", "", "`number` of the attempt, from 0 (default the last)")
	c.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "give up after `TIME`: --send, --run")
	sending := pflag.NewFlagSet("", pflag.ContinueOnError)
	sending.StringVar(&f.send, "send", "", "ask again at `URL`, a base address or the whole one, and compare the answer with the recorded one")
	sending.StringVar(&f.keyEnv, "key-env", "", "environment `variable` that holds the key (default ANTHROPIC_API_KEY or OPENAI_API_KEY, by the form)")
	addGroup(c, "Asking again", sending)
	tools := pflag.NewFlagSet("", pflag.ContinueOnError)
	tools.StringVar(&f.tool, "tool", "", "show the tool call `CALL` of the turn: its id, @n for the n-th, or the name of its tool")
	tools.StringVar(&f.command, "run", "", "run `COMMAND` with that input on standard input, without a shell; its arguments stand behind --")
	addGroup(c, "Tool calls", tools)
	f.db.add(c)
	return c
}

// check names everything that is wrong with the flags, and reads the address.
func (f *replayFlags) check(arg string, changed func(string) bool) (addr reader.RequestAddress, err error) {
	var wrong []string
	note := func(err error) {
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	addr = requestAddress(arg, f.placed, "--in-run", reader.RequestAddress{Run: f.inRun, Turn: f.turn, Attempt: f.attempt}, note)
	if f.form != "" {
		if _, err := replay.ParseForm(f.form); err != nil {
			note(fmt.Errorf("--form %s: %w", f.form, err))
		}
	}
	if f.send != "" {
		_, err := sendTo(f.send)
		note(err)
	}
	if f.tool != "" {
		for _, name := range []string{"send", "form", "model", "system", "key-env"} {
			if changed(name) {
				note(fmt.Errorf("--tool is about a tool call: --%s does not go with it", name))
			}
		}
		if f.command != "" && f.output != "" {
			note(errors.New("--output writes the input of a tool call; --run prints what comes of it"))
		}
	}
	if f.command != "" && f.tool == "" {
		note(errors.New("--run wants --tool beside it: which call?"))
	}
	if len(f.args) > 0 && f.command == "" {
		note(errors.New("what stands behind -- are arguments of the command of --run, and there is none"))
	}
	if f.keyEnv != "" && f.send == "" {
		note(errors.New("--key-env wants --send beside it"))
	}
	if f.timeout <= 0 {
		note(fmt.Errorf("--timeout %s: want more than nothing", f.timeout))
	}
	if f.send != "" && f.output != "" {
		note(errors.New("--send and --output: one after the other, please"))
	}
	if len(wrong) > 0 {
		return addr, usagef("%s", strings.Join(wrong, "\n"))
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
	o := replay.Options{Form: replay.Form(f.form), Model: f.model, Whole: f.send != ""}
	if f.systemIn {
		text, err := a.readText(f.system)
		if err != nil {
			return err
		}
		o.System = &text
	}
	wanted := o.Form != "" || o.Model != "" || o.System != nil || f.output != "" || f.send != ""
	r, err := inspect.NewReplay(t, run, turn, q, replay.Options{})
	if err == nil && wanted {
		if o.Form == "" {
			o.Form = r.Suggested
		}
		r, err = inspect.NewReplay(t, run, turn, q, o)
	}
	switch {
	case !wanted:
		return a.eligible(f, r)
	case r.Request == nil:
		return fmt.Errorf("%s has no request that could be asked again: %s", r.Address, r.Input(replay.InputMessages).Detail)
	case r.Request.Payload.Bytes == nil:
		return incomplete(r.Request)
	case err != nil:
		return fmt.Errorf("%s: %w", r.Address, err)
	}
	if note := r.Request.Note(); note != "" && (r.Body.Form == replay.AsSent || r.Verdict == replay.Redacted) {
		a.say("%s", note)
	}
	for _, n := range r.Body.Notes {
		a.say("%s", n)
	}
	if f.send != "" {
		recorded, whole := replay.Recorded(turn, t.Blocks)
		return a.resend(ctx, f, r, o, recorded, whole)
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
	w := bufio.NewWriter(a.stdout)
	if err := write(w); err != nil {
		return err
	}
	if !f.asJSON && isTerminal(a.stdout) {
		_ = w.WriteByte('\n')
	}
	return w.Flush()
}

// eligible says whether a turn can be asked again.
func (a *app) eligible(f *replayFlags, r *inspect.Replay) error {
	w := bufio.NewWriter(a.stdout)
	var err error
	if f.asJSON {
		err = writeJSON(w, r)
	} else {
		err = r.Text(w, look(a.stdout))
	}
	if err = firstError(err, w.Flush()); err == nil && !r.Eligible {
		return &exitError{Code: exitFailed} // what was printed says why
	}
	return err
}

// maxText bounds a system prompt that is read from a file.
const maxText = 16 << 20

// readText returns what a file says, but for the line feed at its end.
func (a *app) readText(name string) (string, error) {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("--system: %w", err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("--system %s: %w", name, err)
	case len(raw) > maxText:
		return "", fmt.Errorf("--system %s: more than 16 MiB", name)
	}
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToValidUTF8(string(raw), "\uFFFD"), "\n"), "\r"), nil
}
