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

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/replay"
)

// maxAnswer bounds the answer of a provider.
const maxAnswer = 32 << 20

// sendTo reads the address that --send names.
func sendTo(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errors.New("--send: want an address as https://HOST, with or without a path")
	case u.User != nil:
		return nil, errors.New("--send: an address holds no key; --key-env names the environment variable that does")
	case u.Fragment != "":
		return nil, errors.New("--send: want an address without #")
	}
	return u, nil
}

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
func (a *app) resend(ctx context.Context, f *replayFlags, r *inspect.Replay, old *replay.Answer, whole bool) error {
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
	return a.print(f, out, out.Text)
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
