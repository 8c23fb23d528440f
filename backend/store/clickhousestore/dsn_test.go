package clickhousestore

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseDSN(t *testing.T) {
	for _, c := range []struct {
		dsn  string
		want DSN
	}{
		{"clickhouse://host/db", DSN{Host: "host:8123", Database: "db", Timeout: DefaultTimeout}},
		{"clickhouses://host/db", DSN{TLS: true, Host: "host:8443", Database: "db", Timeout: DefaultTimeout}},
		{"clickhouse://me@[::1]:9/db_1?cluster=c1&quorum=2&timeout=5s&ttl=90d", DSN{
			User: "me", Host: "[::1]:9", Database: "db_1", Cluster: "c1", Quorum: 2, Timeout: 5 * time.Second,
			TTL: 90 * 24 * time.Hour,
		}},
		{"clickhouse://host/db?ttl=720h", DSN{Host: "host:8123", Database: "db", Timeout: DefaultTimeout,
			TTL: 720 * time.Hour}},
	} {
		got, err := ParseDSN(c.dsn)
		if err != nil {
			t.Errorf("%s: %v", c.dsn, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.dsn, diff)
		}
	}
	for dsn, says := range map[string][]string{
		"clickhouse:///db":                           {"no host"},
		"clickhouse:host/db":                         {"no host"},
		"clickhouse://host":                          {"no database"},
		"clickhouse://host/a-b":                      {`database "a-b"`, "64 letters"},
		"clickhouse://host/system":                   {`database "system"`},
		"clickhouse://host/a/b":                      {`database "a/b"`},
		"clickhouse://host:0/db":                     {`port "0"`, "1 to 65535"},
		"clickhouse://host/db#x":                     {"fragment"},
		"http://host/db":                             {`scheme "http"`},
		"clickhouse://me:geheim@host/db":             {"a password stands in the DSN", "$OTELAGENT_DB_PASSWORD"},
		"clickhouse://host/db?password=geheim":       {"password stands behind ?"},
		"clickhouse://host/db?nope=1":                {`unknown key "nope"`, "cluster, quorum, timeout or ttl"},
		"clickhouse://host/db?quorum=2":              {"quorum without a cluster"},
		"clickhouse://host/db?cluster=c&quorum=1":    {`quorum "1"`, "2 to 16"},
		"clickhouse://host/db?cluster=`;":            {"does not parse"},
		"clickhouse://host/db?cluster=%60":           {"cluster \"`\""},
		"clickhouse://host/db?timeout=1ms":           {`timeout "1ms"`, "100ms to 1h0m0s"},
		"clickhouse://host/db?timeout=5s&timeout=6s": {"timeout is given 2 times"},
		"clickhouse://host/db?ttl=1h":                {`ttl "1h"`, "1d"},
		"clickhouse://host/db?ttl=99999999d":         {"ttl"},
		"clickhouse://:0/a-b?x=1&timeout=0":          {"no host", "database", `unknown key "x"`, "timeout"},
		"clickhouse://me:geheim%@host/db":            {"no URL"},
		"clickhouse://ho st:geheim/db":               {"no URL"},
		"clickhouse://me%0a@host/db":                 {"control characters"},
		"clickhouse://host:geheim/db":                {"no URL"},
	} {
		_, err := ParseDSN(dsn)
		if err == nil {
			t.Errorf("%s: no error", dsn)
			continue
		}
		for _, s := range append(says, "clickhouse://[USER@]HOST[:8123]/DATABASE") {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%s: error %q, want %q in it", dsn, err, s)
			}
		}
		if strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: error %q contains the password", dsn, err)
		}
	}
}
