package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/backend/session/replay"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// requestFlags say which request, and how it is shown or asked again.
type requestFlags struct {
	addr, other       reader.Address
	diff              string // address of other
	provenance, check bool
	timeout           time.Duration
	call, command     string
	args              []string // of command

	// Of a request that is asked again.
	form, model, system, send, keyEnv string
	to                                *url.URL // of send
}

func (a *app) requestCommand() *cobra.Command {
	var f requestFlags
	c := &cobra.Command{
		Use:   "request SESSION[/RUN]/TURN[/ATTEMPT] [-- ARGUMENT...]",
		Short: "Print what the model was sent on a turn, or ask it again",
		Long: `Print the request of a turn, byte for byte as the loop emitted it.

SESSION and RUN are as in 'otelagent show'. Without RUN it is the run that has
the TURN; where several have, it must be named. Without ATTEMPT it is the last
one. SESSION alone may be the span id of a turn.

Standard output is the payload and nothing else; a terminal gets a line feed at
the end. Standard error names known differences from the bytes that the loop
emitted. When a part is missing, nothing is printed, and standard error names
the part and the reason.

--check prints whether the inputs of the turn are recorded. --as, --model and
--system write the request as the body of a provider's API (docs/replay.md);
standard error names the differences. --send sends it and compares the answers.
--tool shows a tool call of the turn; --run runs a command with its input.

Exit codes: 0 printed, also when requests differ, eligible, answered, or the
same tool result, 1 not found, not whole, not eligible, not answered, or another
tool result, 2 wrong usage. --provenance, --output json and --diff show what is
there, and exit 0.`,
		Example: `  otelagent request last/3 | jq .
  otelagent request last/@2/0 --provenance
  otelagent request last/3 --diff last/2
  otelagent request last/3 --as openai-chat > request.json
  otelagent request last/3 --send https://api.anthropic.com --system new.txt
  otelagent request last/3 --tool toolu_01B --run ./bash-tool -- --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if before := cmd.ArgsLenAtDash(); len(args) == 0 || before != 1 && len(args) > 1 {
				return fmt.Errorf("request wants one SESSION[/RUN]/TURN[/ATTEMPT]; %d given", len(args))
			}
			return nil
		},
		ValidArgsFunction: a.completeSession,
		PreRunE: func(_ *cobra.Command, args []string) error {
			f.args = args[1:]
			return f.read(args[0], a.json())
		},
		RunE: a.reads(func(ctx context.Context, db *database, _ []string) error { return a.request(ctx, db, &f) }),
	}
	flags := c.Flags()
	flags.BoolVar(&f.provenance, "provenance", false,
		"one line a message: where it came from, size, block, whether it is new")
	flags.StringVar(&f.diff, "diff", "", "print what changed from the request `OTHER` of the session to this one")
	flags.BoolVar(&f.check, "check", false, "print whether the turn can be asked again, and which inputs are missing")
	flags.StringVar(&f.form, "as", "",
		"print it as the body of `API`: anthropic, openai-chat, openai-responses or as-sent (default that of the provider)")
	flags.StringVar(&f.model, "model", "", "ask the model `NAME` instead")
	flags.StringVar(&f.system, "system", "", "replace the system prompt by the text of `FILE`; - is standard input")
	flags.StringVar(&f.send, "send", "", "send the body to `URL`, a base address or the whole, and compare the answers")
	flags.StringVar(&f.keyEnv, "key-env", "",
		"environment `VARIABLE` that holds the key (default ANTHROPIC_API_KEY or OPENAI_API_KEY, by the API)")
	flags.StringVar(&f.call, "tool", "", "show the tool call `CALL` of the turn: its id, or the name of its tool")
	flags.StringVar(&f.command, "run", "",
		"with --tool, run `COMMAND` with the input on standard input; its arguments follow --")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "bound --send and --run by this `TIME`")
	return c
}

// read names everything that is wrong with the flags, and reads the addresses.
func (f *requestFlags) read(arg string, asJSON bool) (err error) {
	var wrong wrongs
	f.addr, err = reader.ParseRequestAddress(arg)
	wrong.note(err)
	if f.diff != "" {
		f.other, err = reader.ParseRequestAddress(f.diff)
		wrong.note(err)
	}
	modes := 0
	for _, on := range []bool{f.provenance, f.diff != "", f.check, f.on(), f.call != ""} {
		if on {
			modes++
		}
	}
	wrong.when(modes > 1 || asJSON && f.provenance,
		"--provenance, --diff, --check, --as and its kin, and --tool exclude each other; "+
			"--output json goes with all but the first")
	wrong.when(f.call == "" && f.command != "", "--run needs --tool")
	wrong.when(f.command == "" && len(f.args) > 0, "arguments after -- need --run")
	if _, err := replay.ParseAPI(f.form); f.form != "" && err != nil {
		wrong.addf("--as %s: %v", f.form, err)
	}
	if f.send != "" {
		u, err := url.Parse(f.send)
		switch f.to = u; {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			wrong.addf("--send: want an address as https://HOST, with or without a path")
		case u.User != nil:
			wrong.addf("--send: an address holds no key; --key-env names the environment variable that does")
		case u.Fragment != "":
			wrong.addf("--send: want an address without #")
		}
	}
	wrong.when(f.send == "" && f.keyEnv != "", "--key-env needs --send")
	wrong.when(f.timeout <= 0, "--timeout %s: want a time above 0", f.timeout)
	return wrong.err()
}

func (a *app) request(ctx context.Context, db *database, f *requestFlags) error {
	key, err := db.Resolve(ctx, f.addr.Session)
	if err != nil {
		return err
	}
	t, err := db.Read(ctx, key)
	if err != nil {
		return err
	}
	run, turn, err := f.addr.PickTurn(t.Session)
	if err != nil {
		return err
	}
	if f.call != "" {
		return a.tool(ctx, f, t, run, turn)
	}
	var q *session.Request
	if f.check || f.on() { // the turn may have none
		q, err = reader.PickAttempt(run, turn, f.addr.Attempt)
	} else {
		_, _, q, err = reader.PickRequest(t.Session, f.addr)
	}
	if err != nil {
		return err
	}
	switch {
	case f.check || f.on():
		return a.replay(ctx, f, t, run, turn, q)
	case f.diff != "":
		return a.diffRequests(ctx, db, f, diff.Target{Session: t.Session, Blocks: t.Blocks, Run: run, Turn: turn,
			Request: q})
	}
	r := inspect.NewRequest(t, run, turn, q)
	if a.json() || f.provenance {
		return a.emit(r, r.Provenance)
	}
	if r.Payload.Bytes == nil {
		return incomplete(r)
	}
	if note := r.Note(); note != "" {
		a.say("%s", note)
	}
	return a.emit(nil, func(w io.Writer, _ inspect.Options) error {
		_, err := w.Write(r.Payload.Bytes)
		if isTerminal(a.stdout) {
			fmt.Fprintln(w)
		}
		return err
	})
}

func (a *app) diffRequests(ctx context.Context, db *database, f *requestFlags, now diff.Target) error {
	key, err := db.Resolve(ctx, f.other.Session)
	if err != nil {
		return err
	}
	if key.ID != now.Session.ID {
		return fmt.Errorf("--diff compares requests of one session: %s is of session %s, not of %s", f.diff, key.ID,
			now.Session.ID)
	}
	before := now
	if before.Run, before.Turn, before.Request, err = reader.PickRequest(now.Session, f.other); err != nil {
		return err
	}
	changes, err := diff.Compare(before, now)
	if err != nil {
		return err
	}
	return a.emit(changes, func(w io.Writer, look inspect.Options) error {
		return inspect.WriteDiff(w, changes, look, inspect.DiffUnified)
	})
}

// incomplete is the error about a request with missing parts.
func incomplete(r *inspect.Request) error {
	if r.Capture == spans.CaptureDigests {
		return fmt.Errorf("%s was captured as digests: sizes and hashes are all there is of it; --provenance shows them",
			r.Address)
	}
	const most = 20 // parts named
	lines := []string{fmt.Sprintf("%s is not whole, so nothing of it is printed; --provenance shows what is there",
		r.Address)}
	for i, m := range r.Missing {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %s; --output json names them all", count(len(r.Missing)-most, "more piece")))
			break
		}
		lines = append(lines, m.String())
	}
	for _, d := range r.Defects {
		lines = append(lines, inspect.Defect(d))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// on reports whether a body is wanted.
func (f *requestFlags) on() bool { return f.form+f.model+f.system+f.send != "" }

// replay prints whether a turn can be asked again, or prints its request as a body, or sends that.
func (a *app) replay(ctx context.Context, f *requestFlags, t session.Tree, run *session.Run, turn *session.Turn,
	q *session.Request) error {
	r, err := inspect.NewReplay(t, run, turn, q, replay.Options{})
	if err != nil {
		return err
	}
	if f.check {
		if err := a.emit(r, r.Text); err != nil || r.Eligible {
			return err
		}
		return &exitError{Code: exitFailed} // the output has the reasons
	}
	o := replay.Options{API: cmp.Or(message.API(f.form), r.Suggested), Model: f.model, Whole: f.send != ""}
	if f.system != "" {
		read := os.ReadFile
		if f.system == "-" {
			read = func(string) ([]byte, error) { return io.ReadAll(a.stdin) }
		}
		raw, err := read(f.system)
		if err != nil {
			return fmt.Errorf("--system: %w", err)
		}
		text := strings.TrimSuffix(strings.TrimSuffix(strings.ToValidUTF8(string(raw), "\uFFFD"), "\n"), "\r")
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
	return a.emit(r, func(w io.Writer, _ inspect.Options) error {
		_, err := w.Write(r.Body.Bytes)
		return err
	})
}

// maxAnswer bounds the answer of a provider.
const maxAnswer = 32 << 20

// key authorizes a request.
type key string

// keyFor returns the key for u and a text about it: the key that the variable of --key-env holds, else that of the API,
// which does not go over plain http to another machine.
func (f *requestFlags) keyFor(api message.API, u *url.URL) (k key, how string, err error) {
	name := "OPENAI_API_KEY"
	if api == message.Anthropic {
		name = "ANTHROPIC_API_KEY"
	}
	name = cmp.Or(f.keyEnv, name)
	k = key(strings.TrimSpace(os.Getenv(name)))
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case k == "" && f.keyEnv != "":
		return "", "", fmt.Errorf("--key-env %s: the variable is not set, or empty", name)
	case k == "":
		return "", "without a key (" + name + " is not set)", nil
	case strings.ContainsFunc(string(k), func(r rune) bool { return r < '!' || r > '~' }):
		return "", "", fmt.Errorf("the key in %s has characters that no header takes", name)
	case f.keyEnv == "" && u.Scheme == "http" && !local:
		return "", "without a key: over plain http " + name + " needs --key-env", nil
	}
	return k, "with the key in " + name, nil
}

// hide replaces the key in a text of the provider: as it is, as JSON, and with escaped slashes. A key of fewer than 8
// characters, as local servers take, is no secret.
func (k key) hide(b []byte) []byte {
	if len(k) < 8 {
		return b
	}
	quoted, _ := json.Marshal(string(k))
	for _, s := range []string{string(k), strings.Trim(string(quoted), `"`), strings.ReplaceAll(string(k), "/", `\/`)} {
		b = bytes.ReplaceAll(b, []byte(s), []byte("[key]"))
	}
	return b
}

// resend sends a body and compares the answer with the recorded one.
func (a *app) resend(ctx context.Context, f *requestFlags, r *inspect.Replay, old *replay.Answer, whole bool) error {
	u, api := replay.Endpoint(r.Body.API, f.to), r.Body.API
	if api == replay.AsSent {
		api = r.Suggested
	}
	k, how, err := f.keyFor(api, u)
	if err != nil {
		return err
	}
	address := u.Scheme + "://" + u.Host + u.EscapedPath() // a query may hold a secret
	a.say("sending %s as %s to %s, %s", count(r.Body.Size, "byte"), r.Body.API, address, how)
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	status, body, err := k.post(ctx, u, api, r.Body.Bytes)
	var outer *url.Error
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("not answered: %s took longer than %s (--timeout)", u.Host, f.timeout)
	case errors.As(err, &outer): // it has the address in it
		err = outer.Err
	}
	if err != nil {
		return fmt.Errorf("not answered: %s: %s", u.Host, k.hide([]byte(err.Error())))
	}
	res, err := otelagent.ParseReply(k.hide(body))
	switch {
	case err == nil && res.Err != nil:
		err = res.Err
	case err == nil && (res.Output == nil || status > 299):
		err = errors.New("an answer without a message, or with an error status")
	}
	if err != nil {
		return fmt.Errorf("not answered: %s responds %d: %w", u.Host, status, err)
	}
	answer := replay.NewAnswer(replay.Answer{ID: res.ResponseID, Model: res.Model, StopReason: res.StopReason},
		res.Output.Raw, res.Usage)
	out := &inspect.Resent{
		Format: session.TreeFormat, Address: r.Address, URL: address, Status: status, TookNS: int64(time.Since(started)),
		Body: r.Body.Body, Comparison: replay.Compare(old, whole, answer),
	}
	return a.emit(out, out.Text)
}

// post sends a body and returns the answer. It follows no redirect.
func (k key) post(ctx context.Context, u *url.URL, api message.API, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	name, value := "Authorization", "Bearer "+string(k)
	if api == message.Anthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01") // 2026-10-21 refuses sampling parameters
		name, value = "X-Api-Key", string(k)
	}
	if k != "" {
		req.Header.Set(name, value)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = errors.New("the answer has more than 32 MiB")
	}
	return resp.StatusCode, answer, err
}

// tool shows a tool call, or runs it again by the command of the user.
func (a *app) tool(ctx context.Context, f *requestFlags, t session.Tree, run *session.Run, turn *session.Turn) error {
	out, err := toolCall(t, turn, f.call)
	if err != nil {
		return err
	}
	out.Format, out.Address = session.TreeFormat, session.TurnAddress(t.ID, slices.Index(t.Runs, run)+1, turn.Index)
	if f.command != "" {
		if out.Input == "" {
			return fmt.Errorf("the input of tool call %s is missing", out.ID)
		}
		if out.Run, err = a.runTool(ctx, f, []byte(out.Input)); err != nil {
			return err
		}
		out.Compare()
	}
	if err := a.emit(out, out.Text); err != nil {
		return err
	}
	if out.Input == "" || out.Run != nil && !out.Same {
		return &exitError{Code: exitFailed} // the output has the reason
	}
	return nil
}

// toolCall returns the call of a turn with that id, or the only one of that tool.
func toolCall(t session.Tree, turn *session.Turn, name string) (*inspect.ToolReplay, error) {
	var names []string
	var found []*session.ToolCall
	for _, c := range turn.ToolCalls {
		if names = append(names, c.ID+" ("+c.Name+")"); c.ID == name {
			found = []*session.ToolCall{c}
			break
		}
		if c.Name == name {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		all := cmp.Or(strings.Join(names, ", "), "none")
		return nil, fmt.Errorf("%d tool calls match %s; the turn has: %s", len(found), name, all)
	}
	c := found[0]
	out := &inspect.ToolReplay{ID: c.ID, Name: c.Name, Outcome: string(c.Outcome)}
	out.Input = session.RawJSON(whole(t.Blocks, c.Args))
	if body := whole(t.Blocks, c.Result); body != "" {
		p := message.ReadResult([]byte(body))
		failed := p.IsError || c.Outcome != "" && c.Outcome != spans.OutcomeOK
		out.Recorded = &inspect.ToolResult{Text: message.JoinText(p.Parts, true), Error: failed}
	}
	return out, nil
}

// whole returns the first body of a list that is all there, else "".
func whole(blocks *session.BlockSet, refs *session.Refs) string {
	if c := blocks.Read(refs); c.Whole() && len(c.Bodies) > 0 {
		return c.Bodies[0]
	}
	return ""
}

// runTool runs the command of the user, with the input of a call on its standard input.
func (a *app) runTool(ctx context.Context, f *requestFlags, input []byte) (*inspect.ToolResult, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.command, f.args...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), a.stderr
	cmd.WaitDelay = 2 * time.Second // for children that keep its output open
	output, err := cmd.Output()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("%s took longer than %s (--timeout) and was ended", f.command, f.timeout)
	case cmd.ProcessState == nil:
		return nil, fmt.Errorf("%s could not be run: %w", f.command, err)
	}
	text := strings.ToValidUTF8(string(output), "\uFFFD")
	return &inspect.ToolResult{Text: text, Error: !cmd.ProcessState.Success()}, nil
}
