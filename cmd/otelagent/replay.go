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
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/replay"
)

// replayFlags are the flags of request that ask a turn again.
type replayFlags struct {
	form, model, system, send, keyEnv string
	newSystem                         bool
	to                                *url.URL // of send
}

func (f *replayFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.form, "as", "",
		"print it as the body of `API`: anthropic, openai-chat, openai-responses or as-sent (default that of the provider)")
	flags.StringVar(&f.model, "model", "", "ask the model `NAME` instead")
	flags.StringVar(&f.system, "system", "", "replace the system prompt by the text of `FILE`; - is standard input")
	flags.StringVar(&f.send, "send", "", "send the body to `URL`, a base address or the whole, and compare the answers")
	flags.StringVar(&f.keyEnv, "key-env", "",
		"environment `VARIABLE` that holds the key (default ANTHROPIC_API_KEY or OPENAI_API_KEY, by the API)")
}

// on reports whether a body is wanted.
func (f *replayFlags) on() bool { return f.form != "" || f.model != "" || f.newSystem || f.send != "" }

func (f *replayFlags) check(wrong *wrongs) {
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
}

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
	if f.newSystem {
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
func (f *replayFlags) keyFor(api message.API, u *url.URL) (k key, how string, err error) {
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
	answer, err := replay.ParseAnswer(k.hide(body))
	if err == nil && status > 299 {
		err = errors.New("an answer with an error status")
	}
	if err != nil {
		return fmt.Errorf("not answered: %s responds %d: %w", u.Host, status, err)
	}
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
