package clickhousestore

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/url"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server returns the DSN of the server that tests are given, or skips.
func server(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv("OTELAGENT_TEST_CLICKHOUSE")
	if dsn == "" {
		t.Skip("no ClickHouse server: set OTELAGENT_TEST_CLICKHOUSE to a DSN (`make interop-clickhouse` starts servers and does)")
	}
	return dsn
}

// fresh returns a DSN of a database of its own on that server, which goes with the test.
func fresh(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = fmt.Sprintf("/otelagent_test_%016x", rand.Uint64())
	t.Cleanup(func() { drop(t, u.String()) })
	return u.String()
}

func drop(t testing.TB, dsn string) {
	t.Helper()
	d, err := ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(d, "", nil)
	defer c.close()
	l := layout{database: d.Database, cluster: d.Cluster}
	if err := c.exec(context.WithoutCancel(t.Context()), "DROP DATABASE IF EXISTS `"+d.Database+"`"+l.onCluster()); err != nil {
		t.Logf("drop the database: %v", err)
	}
}

func TestStore(t *testing.T) {
	server(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := Open(t.Context(), fresh(t))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

var update = flag.Bool("update", false, "write the golden files anew")

var quiet = log.New(io.Discard, "", 0)

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s:\n%s", path, diff)
	}
}
