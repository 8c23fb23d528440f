package clickhousestore

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// client sends statements over ClickHouse's HTTP interface. It retries nothing, except what net/http sends again on a new connection
// because the server had closed the old one while it was idle.
type client struct {
	http     *http.Client
	base     url.URL
	user     string
	password string
	timeout  time.Duration
	settings url.Values // of every statement
	inserts  url.Values // of inserts, beside them
}

const (
	idleConnections = 2 * maxPuts
	// idleTimeout is below what servers keep idle connections for (3 s in old ones, 10 in new ones).
	idleTimeout = 2500 * time.Millisecond
	// maxAnswer bounds what is read of an answer that is no result.
	maxAnswer = 64 << 10
)

func newClient(d DSN, password string, tlsConfig *tls.Config) *client {
	dialer := &net.Dialer{Timeout: min(d.Timeout, 10*time.Second)}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: min(d.Timeout, 10*time.Second),
		MaxIdleConns:        idleConnections, MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:    idleTimeout,
		DisableCompression: true,
		WriteBufferSize:    64 << 10, ReadBufferSize: 64 << 10,
	}
	c := &client{
		base: d.base(), user: d.User, password: password, timeout: d.Timeout,
		settings: url.Values{}, inserts: url.Values{},
		http: &http.Client{
			Transport: t,
			// A redirect would carry the password to wherever it points.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if d.Cluster != "" {
		// The same replica for reads and writes as long as it is there; and an insert is there when it returns.
		c.settings.Set("load_balancing", "in_order")
		c.inserts.Set("insert_distributed_sync", "1")
	}
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// do sends one statement, in the URL when body is data and in the body otherwise. The caller closes the body of a response without
// error. What the server says after that is for the caller to see.
func (c *client) do(ctx context.Context, sql string, data []byte, settings url.Values) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	quiet := newWatchdog(c.timeout, cancel)
	fail := func(err error) (io.ReadCloser, error) {
		expired := quiet.stop()
		cancel()
		if expired {
			err = fmt.Errorf("the server was silent for %v: %w", c.timeout, errSilent)
		}
		return nil, err
	}
	q := url.Values{}
	maps.Copy(q, c.settings)
	maps.Copy(q, settings)
	var body io.Reader
	if data != nil {
		q.Set("query", sql)
		body = &watched{r: bytes.NewReader(data), w: quiet}
	} else {
		data = []byte(sql)
		body = bytes.NewReader(data)
	}
	u := c.base
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), body)
	if err != nil {
		return fail(bare(err))
	}
	req.ContentLength = int64(len(data))
	req.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(&watched{r: bytes.NewReader(data), w: quiet}), nil
	}
	// Every statement of this package may be sent twice; an empty value tells net/http so and is not sent.
	req.Header["Idempotency-Key"] = nil
	req.Header.Set("Content-Type", "application/octet-stream")
	if c.user != "" {
		req.Header.Set("X-ClickHouse-User", c.user)
	}
	if c.password != "" {
		req.Header.Set("X-ClickHouse-Key", c.password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fail(bare(err))
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		_ = resp.Body.Close()
		code, err := strconv.Atoi(resp.Header.Get("X-ClickHouse-Exception-Code"))
		if err != nil {
			code = exceptionCode(text)
		}
		return fail(&ServerError{Code: code, Status: resp.StatusCode})
	}
	quiet.timer.Stop()
	return &response{Reader: &watched{r: resp.Body, w: quiet, pause: true}, body: resp.Body, watchdog: quiet, cancel: cancel}, nil
}

// errSilent is what statements fail with whose server says nothing for the timeout.
var errSilent = errors.New("timeout")

type response struct {
	io.Reader
	body     io.Closer
	watchdog *watchdog
	cancel   context.CancelFunc
}

func (r *response) Close() error {
	r.watchdog.stop()
	r.cancel()
	return r.body.Close()
}

// A watchdog cancels a statement while whose server neither takes nor gives a byte for some time.
type watchdog struct {
	timer   *time.Timer
	after   time.Duration
	expired atomic.Bool
}

func newWatchdog(after time.Duration, cancel context.CancelFunc) *watchdog {
	w := &watchdog{after: after}
	w.timer = time.AfterFunc(after, func() { w.expired.Store(true); cancel() })
	return w
}

func (w *watchdog) stop() (expired bool) {
	w.timer.Stop()
	return w.expired.Load()
}

// watched watches while it is read; with pause not between two reads, where the caller takes its time.
type watched struct {
	r     io.Reader
	w     *watchdog
	pause bool
}

func (w *watched) Read(p []byte) (int, error) {
	w.w.timer.Reset(w.w.after)
	n, err := w.r.Read(p)
	if w.pause {
		w.w.timer.Stop()
	}
	if err != nil && !errors.Is(err, io.EOF) && w.w.expired.Load() {
		err = fmt.Errorf("the server was silent for %v: %w", w.w.after, errSilent)
	}
	return n, err
}

// exec runs a statement that has no result.
func (c *client) exec(ctx context.Context, sql string) error {
	body, err := c.do(ctx, sql, nil, nil)
	if err != nil {
		return err
	}
	return drain(body)
}

// insert inserts rows in RowBinary. The token makes the server drop what it has got under the same one.
func (c *client) insert(ctx context.Context, into string, rows []byte, token string) error {
	settings := maps.Clone(c.inserts)
	settings.Set("insert_deduplication_token", token)
	body, err := c.do(ctx, "INSERT INTO "+into+" FORMAT RowBinary", rows, settings)
	if err != nil {
		return err
	}
	return drain(body)
}

// drain reads the answer of a statement without a result, in which an exception may still come.
func drain(body io.ReadCloser) error {
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	_ = body.Close()
	if err != nil {
		return bare(err)
	}
	if code := exceptionCode(text); code != 0 {
		return &ServerError{Code: code, Status: http.StatusOK}
	}
	return nil
}

// query runs SELECT columns rest. The caller closes what it returns.
func (c *client) query(ctx context.Context, columns, rest string) (*reader, io.Closer, error) {
	stamp := rand.Uint64() | 1<<63
	var sql strings.Builder
	fmt.Fprintf(&sql, "SELECT %s, toUInt64(%d) AS stamp %s FORMAT RowBinary", columns, stamp, rest)
	body, err := c.do(ctx, sql.String(), nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return newReader(body, stamp), body, nil
}
