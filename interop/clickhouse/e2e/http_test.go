package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/interop/clickhouse/ring"
)

// TestHTTP asks chdb and a real server the same things: what chdb makes of a request is what a server makes of it, as far as a client
// of ours can tell. Old and new engines differ in words, so that of errors only the code counts.
func TestHTTP(t *testing.T) {
	type request struct {
		method, path string
		params       url.Values
		header       http.Header
		body         string
	}
	post := func(query, body string, params ...string) request {
		v := url.Values{}
		if query != "" {
			v.Set("query", query)
		}
		for i := 0; i < len(params); i += 2 {
			v.Set(params[i], params[i+1])
		}
		return request{method: http.MethodPost, path: "/", params: v, body: body}
	}
	binary := "\x01\x00\x00\x00\x00\x00\x00\x00\x03a\x00'\x02\x00\x00\x00\x00\x00\x00\x00\x00"
	zipped := post("INSERT INTO http.t FORMAT RowBinary", gzipped(t, "\x07\x00\x00\x00\x00\x00\x00\x00\x01z"))
	zipped.header = http.Header{"Content-Encoding": {"gzip"}}
	get := request{method: http.MethodGet, path: "/", params: url.Values{"query": {"SELECT count() FROM http.t FINAL"}}}
	write := request{method: http.MethodGet, path: "/", params: url.Values{"query": {"DROP TABLE http.t"}}}
	bob := post("SELECT 1", "")
	bob.header = http.Header{"X-ClickHouse-User": {"bob"}, "X-ClickHouse-Key": {"secret"}}
	requests := []request{
		{method: http.MethodGet, path: "/ping"},
		{method: http.MethodGet, path: "/"},
		post("", "CREATE DATABASE http"),
		post("", "CREATE TABLE t (x UInt64, s String) ENGINE = ReplacingMergeTree ORDER BY x", "database", "http"),
		post("INSERT INTO http.t FORMAT RowBinary", binary),
		post("INSERT INTO t (s, x) FORMAT RowBinary", "\x01b\x05\x00\x00\x00\x00\x00\x00\x00", "database", "http"),
		post("", "INSERT INTO http.t FORMAT RowBinary\n"+binary),
		post("", "INSERT INTO http.t VALUES (3, 'three'), (4, 'it''s')"),
		post("INSERT INTO http.t VALUES", "(5, 'five')"),
		post("", "INSERT INTO http.t SELECT number + 10, 'n' FROM system.numbers LIMIT 3"),
		zipped,
		post("INSERT INTO http.t FORMAT RowBinary", ""),
		post("", "SELECT x, s FROM http.t FINAL ORDER BY x FORMAT RowBinary"),
		post("SELECT x FROM http.t FINAL", "ORDER BY x DESC"),
		post("", "SELECT toUInt32(x) AS n, s FROM t FINAL ORDER BY x LIMIT 2", "database", "http", "default_format", "JSONEachRow"),
		post("", "SELECT toUInt64(value) FROM system.settings WHERE name = 'max_block_size'", "max_block_size", "777"),
		post("", "SELECT toUInt64(value) = 777 FROM system.settings WHERE name = 'max_block_size'"), // the setting was of one statement
		post("", "SELECT 1 WHERE 0"),
		get,
		// Errors.
		write,
		post("", "SELECT * FROM http.nothing"),
		post("", "SELECT 1", "database", "nothing"),
		post("", "SELECT 1", "nothing", "1"),
		post("", "SELEC 1"),
		post("", "SELECT nothing FROM http.t"),
		post("INSERT INTO http.t FORMAT RowBinary", binary[:10]),
		post("INSERT INTO http.t FORMAT Nothing", binary),
		post("INSERT INTO http.nothing FORMAT RowBinary", binary),
		post("", ""),
		bob,
		post("", "SELECT x, s FROM http.t FINAL ORDER BY x"), // and nothing of that is there
		post("", "DROP DATABASE http"),
	}
	var answers [2][]string
	for side, name := range []string{ring.Single, ring.Chdb} {
		r := start(t, name)
		for _, q := range requests {
			answer := fmt.Sprintf("%s %s %v %.40q: ", q.method, q.path, q.params, q.body)
			u := fmt.Sprintf("http://127.0.0.1:%d%s", r.Servers[0].Port, q.path)
			if len(q.params) > 0 {
				u += "?" + q.params.Encode()
			}
			req, err := http.NewRequestWithContext(t.Context(), q.method, u, strings.NewReader(q.body))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range q.header {
				req.Header[k] = v
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(answer, err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(answer, err)
			}
			if resp.StatusCode == http.StatusOK {
				answer += fmt.Sprintf("200 %q", body)
			} else {
				code := 0
				_, _ = fmt.Sscanf(string(body), "Code: %d", &code)
				if code == 192 && resp.StatusCode == http.StatusUnauthorized {
					// Newer servers do not tell who is not known from who has another password.
					code, resp.StatusCode = 516, http.StatusForbidden
				}
				answer += fmt.Sprintf("%d code %d", resp.StatusCode, code)
			}
			answers[side] = append(answers[side], answer)
		}
	}
	if diff := cmp.Diff(answers[0], answers[1]); diff != "" {
		t.Errorf("(-server +chdb):\n%s", diff)
	}
}

func gzipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
