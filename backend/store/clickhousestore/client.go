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
	"os"
	"strconv"
	"strings"
	"time"
)

// client sends statements over ClickHouse's HTTP interface. It retries nothing, except what net/http sends again on a
// new connection because the server had closed the old one while it was idle.
type client struct {
	http     *http.Client
	base     url.URL
	user     string
	password string
	timeout  time.Duration
	settings url.Values // of every statement
	inserts  url.Values // of inserts, in addition
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
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return quietConn{conn, d.Timeout}, nil
		},
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

// do sends one statement, in the URL when there is data and in the body otherwise. The caller closes the body of a
// response without error. What the server says after that is for the caller to see.
func (c *client) do(ctx context.Context, sql string, data []byte, settings url.Values) (io.ReadCloser, error) {
	q := url.Values{}
	maps.Copy(q, c.settings)
	maps.Copy(q, settings)
	if data != nil {
		q.Set("query", sql)
	} else {
		data = []byte(sql)
	}
	u := c.base
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(data))
	if err != nil {
		return nil, c.bare(err)
	}
	// Every statement of this package may be sent twice; net/http reads that from an empty value, which it does not
	// send.
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
		return nil, c.bare(err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		_ = resp.Body.Close()
		code, err := strconv.Atoi(resp.Header.Get("X-ClickHouse-Exception-Code"))
		if err != nil {
			code = exceptionCode(text)
		}
		return nil, &ServerError{Code: code, Status: resp.StatusCode}
	}
	return &answer{resp.Body, c}, nil
}

// answer is the body of a response.
type answer struct {
	io.ReadCloser
	c *client
}

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.c.bare(err)
	}
	return n, err
}

// errSilent is what statements fail with whose server says nothing for the timeout.
var errSilent = errors.New("timeout")

// bare takes the URL out of errors of net/http: it has the statement in it.
func (c *client) bare(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the server was silent for %v: %w", c.timeout, errSilent)
	}
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}

// quietConn fails when the server neither takes nor gives a byte for the timeout.
type quietConn struct {
	net.Conn
	timeout time.Duration
}

func (c quietConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.timeout))
	return c.Conn.Read(p)
}

// Write also gives the reader more time: net/http begins to read before it writes.
func (c quietConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.timeout))
	return c.Conn.Write(p)
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
		return err
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
