package clickhousestore

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

// client sends statements over ClickHouse's HTTP interface. It retries nothing, except what net/http sends again on a
// new connection because the server closed an idle one.
//
// The server holds a result back until the statement has ended (http_wait_end_of_query), so a statement that fails has
// an error status, and rows with status 200 are whole.
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
	// idleTimeout is below the 10 s for which servers keep idle connections.
	idleTimeout = 2500 * time.Millisecond
	// maxAnswer bounds how much is read of the response to a statement without a result.
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
		settings: url.Values{"http_wait_end_of_query": {"1"}},
		inserts: url.Values{
			"async_insert":       {"0"}, // a profile may have it on, and an insert would return before it is durable
			"optimize_on_insert": {"0"}, // merges collapse equal rows
		},
		http: &http.Client{
			Transport: t,
			// A redirect would carry the password to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if d.Cluster != "" {
		// The same replica for reads and writes as long as it is there; and an insert is there when it returns.
		c.settings.Set("load_balancing", "in_order")
		c.inserts.Set("insert_distributed_sync", "1")
	}
	if d.Quorum > 0 {
		c.inserts.Set("insert_quorum", strconv.Itoa(d.Quorum))
		c.inserts.Set("insert_quorum_parallel", "0") // so that reads see all of it
		c.settings.Set("select_sequential_consistency", "1")
	}
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// do sends one statement, in the URL when there is data and in the body otherwise. The caller closes the body of a
// response without error.
func (c *client) do(ctx context.Context, sql string, data []byte, settings url.Values) (io.ReadCloser, error) {
	q := maps.Clone(c.settings)
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
		_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
		_ = resp.Body.Close()
		code, _ := strconv.Atoi(resp.Header.Get("X-ClickHouse-Exception-Code"))
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

// errSilent is the error of statements whose server sends nothing for the timeout.
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

// quietConn fails when the server neither takes nor sends a byte for the timeout.
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

// text runs a statement with a short result, or none, and returns it.
func (c *client) text(ctx context.Context, sql string, data []byte, settings url.Values) (string, error) {
	body, err := c.do(ctx, sql, data, settings)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	return string(text), err
}

// exec runs a statement that has no result.
func (c *client) exec(ctx context.Context, sql string) error {
	_, err := c.text(ctx, sql, nil, nil)
	return err
}

// insert inserts rows in RowBinary. The server drops what it already has under the same token.
func (c *client) insert(ctx context.Context, into string, rows []byte, token string) error {
	settings := maps.Clone(c.inserts)
	settings.Set("insert_deduplication_token", token)
	_, err := c.text(ctx, "INSERT INTO "+into+" FORMAT RowBinary", rows, settings)
	return err
}

// query runs SELECT columns rest. The caller closes what it returns.
func (c *client) query(ctx context.Context, columns, rest string) (*reader, io.Closer, error) {
	body, err := c.do(ctx, "SELECT "+columns+" "+rest+" FORMAT RowBinary", nil, nil)
	if err != nil {
		return nil, nil, err
	}
	return &reader{r: bufio.NewReaderSize(body, 64<<10)}, body, nil
}
