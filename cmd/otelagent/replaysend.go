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

// keyFor returns the key for u, and a text about it: that of the variable that --key-env names, else that of the API, which
// does not go over plain http to another machine.
func (f *replayFlags) keyFor(api message.API, u *url.URL) (k key, how string, err error) {
	name := "OPENAI_API_KEY"
	if api == message.Anthropic {
		name = "ANTHROPIC_API_KEY"
	}
	name = cmp.Or(f.keyEnv, name)
	k = key(strings.TrimSpace(os.Getenv(name)))
	ip := net.ParseIP(u.Hostname())
	private := u.Scheme == "https" || u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	switch {
	case k == "" && f.keyEnv != "":
		return "", "", fmt.Errorf("--key-env %s: the variable is not set, or empty", name)
	case k == "":
		return "", "without a key (" + name + " is not set)", nil
	case strings.ContainsFunc(string(k), func(r rune) bool { return r < '!' || r > '~' }):
		return "", "", fmt.Errorf("the key in %s has characters that no header takes", name)
	case f.keyEnv == "" && !private:
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
func (a *app) resend(
	ctx context.Context, f *replayFlags, r *inspect.Replay, o replay.Options, recorded *replay.Answer, whole bool,
) error {
	base, err := sendTo(f.send)
	if err != nil {
		return err
	}
	u, api := replay.Endpoint(o.API, base), o.API
	if api == replay.AsSent {
		api = r.Suggested
	}
	k, how, err := f.keyFor(api, u)
	if err != nil {
		return err
	}
	address := u.Scheme + "://" + u.Host + u.EscapedPath() // a query may hold a secret
	a.say("sending %s as %s to %s, %s", count(r.Body.Size, "byte"), o.API, address, how)
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	status, body, err := k.post(ctx, u, api, r.Body.Bytes)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%s took longer than %s (--timeout)", u.Host, f.timeout)
	}
	if err != nil {
		return fmt.Errorf("not answered: %w", err)
	}
	answer, err := replay.ParseAnswer(body)
	if err == nil && status > 299 {
		err = errors.New("an answer with an error status")
	}
	if err != nil {
		return fmt.Errorf("not answered: %s responds %d: %w", u.Host, status, err)
	}
	out := &inspect.Resent{
		Format: session.TreeFormat, Address: r.Address, URL: address, Status: status, TookNS: int64(time.Since(started)),
		Body: r.Body.Body, Size: r.Body.Size, Model: o.Model, System: o.System != nil, Comparison: replay.Compare(recorded, whole, answer),
	}
	return a.print(f, out, out.Text)
}

// post sends a body and returns the answer without the key. It follows no redirect.
func (k key) post(ctx context.Context, u *url.URL, api message.API, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, errors.New("invalid address")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "otelagent-replay")
	name, value := "Authorization", "Bearer "+string(k)
	if api == message.Anthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01") // 2026-10-21 refuses sampling parameters, which recorded requests have
		name, value = "X-Api-Key", string(k)
	}
	if k != "" {
		req.Header.Set(name, value)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 1 << 20
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, k.failed(u, err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return 0, nil, fmt.Errorf("%s responds %d, a redirect; neither the key nor the request follows it", u.Host, resp.StatusCode)
	case err != nil:
		return 0, nil, k.failed(u, err)
	case len(answer) > maxAnswer:
		return 0, nil, fmt.Errorf("%s answered with more than 32 MiB", u.Host)
	}
	return resp.StatusCode, k.hide(answer), nil
}

// failed returns an error without the address, whose query may hold a secret, and without the key.
func (k key) failed(u *url.URL, err error) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	return errors.New(string(k.hide([]byte(u.Host + ": " + err.Error()))))
}
