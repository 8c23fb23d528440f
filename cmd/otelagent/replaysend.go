package main

import (
	"bufio"
	"bytes"
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
		return nil, errors.New("--send: a key has no place in an address; name the environment variable that holds it by --key-env")
	case u.Fragment != "":
		return nil, errors.New("--send: an address without #")
	}
	return u, nil
}

// withoutQuery returns an address without its query, which may hold what nobody is to see.
func withoutQuery(u *url.URL) string {
	s := u.Scheme + "://" + u.Host + u.EscapedPath()
	if u.RawQuery != "" {
		s += "?..."
	}
	return s
}

// key is what a request is authorized with.
type key struct {
	name  string // of the environment variable
	value string
}

// keyFor returns the key to be sent to u: of the variable that was named, else that of the form, which goes to nobody who could be overheard.
func (f *replayFlags) keyFor(form replay.Form, u *url.URL) (key, string, error) {
	k := key{name: f.keyEnv}
	if k.name == "" {
		k.name = "OPENAI_API_KEY"
		if form == replay.Anthropic {
			k.name = "ANTHROPIC_API_KEY"
		}
	}
	k.value = strings.TrimSpace(os.Getenv(k.name))
	switch {
	case k.value == "" && f.keyEnv != "":
		return key{}, "", fmt.Errorf("--key-env %s: it is not set, or empty", f.keyEnv)
	case k.value == "":
		return key{}, "without a key (" + k.name + " is not set)", nil
	case strings.ContainsFunc(k.value, func(r rune) bool { return r < '!' || r > '~' }):
		return key{}, "", fmt.Errorf("the key in %s has characters that no header takes", k.name)
	case f.keyEnv == "" && u.Scheme == "http" && !loopback(u.Hostname()):
		return key{}, "without a key: " + k.name + " goes in the clear only where --key-env names it", nil
	}
	return k, "with the key in " + k.name, nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// leastKey is the length of a key from which on it can be a secret. Servers on a desk take any word.
const leastKey = 8

// hide takes the key out of what a provider said, which may repeat it. It is looked for as it is and as JSON spells it.
func (k key) hide(b []byte) []byte {
	if len(k.value) < leastKey {
		return b
	}
	mark := []byte("[key]")
	b = bytes.ReplaceAll(b, []byte(k.value), mark)
	if quoted, err := json.Marshal(k.value); err == nil {
		b = bytes.ReplaceAll(b, quoted[1:len(quoted)-1], mark)
	}
	return bytes.ReplaceAll(b, []byte(strings.ReplaceAll(k.value, "/", `\/`)), mark)
}

// resend asks again and compares the answer with the recorded one.
func (a *app) resend(ctx context.Context, f *replayFlags, r *inspect.Replay, o replay.Options, recorded *replay.Answer, whole bool) error {
	base, err := sendTo(f.send)
	if err != nil {
		return err
	}
	form := r.Body.Form
	u := replay.Endpoint(form, base)
	if form == replay.AsSent { // whose key it wants
		form = replay.Suggest(r.Spelling, r.Provider)
	}
	k, how, err := f.keyFor(form, u)
	if err != nil {
		return err
	}
	a.say("sending %s as %s to %s, %s", count(r.Body.Size, "byte"), r.Body.Form, withoutQuery(u), how)
	started := time.Now()
	status, body, err := k.post(ctx, u, form, r.Body.Bytes, f.timeout)
	if err != nil {
		return fmt.Errorf("not answered: %w", err)
	}
	answer, err := replay.ParseAnswer(body)
	var refused *replay.ProviderError
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("not answered: %s says %d: %w", u.Host, status, refused)
	case status < 200 || status > 299:
		return fmt.Errorf("not answered: %s says %d, and nothing that could be read", u.Host, status)
	case err != nil:
		return fmt.Errorf("not answered: %s says %d, with a body that is no answer of Anthropic's or OpenAI's forms", u.Host, status)
	}
	out := &inspect.Resent{
		Format: session.TreeFormat, Address: r.Address, URL: withoutQuery(u), Status: status, TookNS: int64(time.Since(started)), Body: r.Body.Body, Size: r.Body.Size,
		Model: o.Model, System: o.System != nil, Comparison: replay.Compare(recorded, whole, answer),
	}
	w := bufio.NewWriter(a.stdout)
	if f.asJSON {
		return firstError(writeJSON(w, out), w.Flush())
	}
	return firstError(out.Text(w, look(a.stdout)), w.Flush())
}

// post sends a body and returns what came back, without the key. It follows nobody elsewhere.
func (k key) post(ctx context.Context, u *url.URL, form replay.Form, body []byte, timeout time.Duration) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, errors.New("the address is none that can be asked")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "otelagent-replay")
	if form == replay.Anthropic {
		req.Header.Set("Anthropic-Version", "2023-06-01") // 2026-10-21 refuses sampling parameters, which recorded requests have
		if k.value != "" {
			req.Header.Set("X-Api-Key", k.value)
		}
	} else if k.value != "" {
		req.Header.Set("Authorization", "Bearer "+k.value)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 1 << 20
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, k.failed(ctx, u, timeout, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return 0, nil, fmt.Errorf("%s says %d and points elsewhere; neither the key nor the request goes there", u.Host, resp.StatusCode)
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, k.failed(ctx, u, timeout, err)
	case len(answer) > maxAnswer:
		return 0, nil, fmt.Errorf("%s answered with more than 32 MiB", u.Host)
	}
	return resp.StatusCode, k.hide(answer), nil
}

// failed returns an error without the address, whose query may hold a secret, and without the key.
func (k key) failed(ctx context.Context, u *url.URL, timeout time.Duration, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s took longer than %s (--timeout)", u.Host, timeout)
	}
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	return errors.New(string(k.hide([]byte(u.Host + ": " + err.Error()))))
}
