package clickhousestore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/storetest"
	"github.com/otelagent/otelagent/internal/must"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, dsn := range free.dsns {
			if err := drop(context.Background(), dsn); err != nil {
				fmt.Fprintln(os.Stderr, "drop a database:", err)
			}
		}
		os.Exit(code)
	}))
}

// free holds databases of tests that ended, emptied: to make one takes a cluster five seconds.
var free struct {
	sync.Mutex
	dsns []string
}

// server returns the DSN of the server that tests are given, or skips.
func server(t testing.TB) string {
	t.Helper()
	dsn := os.Getenv("OTELAGENT_TEST_CLICKHOUSE")
	if dsn == "" {
		t.Skip("no ClickHouse server: OTELAGENT_TEST_CLICKHOUSE is not set; make interop-clickhouse starts one, in CI too")
	}
	return dsn
}

// missing returns a DSN of a database that is not there. It goes with the test.
func missing(t testing.TB) string {
	t.Helper()
	dsn := unused(t)
	t.Cleanup(func() {
		if err := drop(context.WithoutCancel(t.Context()), dsn); err != nil {
			t.Logf("drop the database: %v", err)
		}
	})
	return dsn
}

func unused(t testing.TB) string {
	t.Helper()
	u := must.Get(url.Parse(server(t)))(t)
	u.Path = fmt.Sprintf("/otelagent_test_%016x", rand.Uint64())
	return u.String()
}

// fresh returns a DSN of an empty database that nobody else uses until the test has ended.
func fresh(t testing.TB) string {
	t.Helper()
	dsn := ""
	free.Lock()
	if n := len(free.dsns); n > 0 {
		dsn, free.dsns = free.dsns[n-1], free.dsns[:n-1]
	}
	free.Unlock()
	if dsn == "" {
		dsn = unused(t)
	}
	t.Cleanup(func() {
		if err := empty(context.WithoutCancel(t.Context()), dsn); err != nil {
			t.Errorf("empty the database: %v", err)
			return
		}
		free.Lock()
		free.dsns = append(free.dsns, dsn)
		free.Unlock()
	})
	return dsn
}

// empty takes everything out of a database, by the way that its replicas have in common, and waits until it is gone.
func empty(ctx context.Context, dsn string) error {
	s, err := OpenReadOnly(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	some := map[*table]string{}
	for _, t := range tables {
		some[t] = "1"
	}
	full, err := s.count(ctx, some)
	if err != nil {
		return err
	}
	errs := make(chan error)
	for _, t := range full {
		go func() { errs <- s.client.exec(ctx, "TRUNCATE TABLE "+s.layout.local(t)) }()
	}
	for range full {
		err = errors.Join(err, <-errs)
	}
	for err == nil && len(full) > 0 { // a replica may lag
		full, err = s.count(ctx, some)
	}
	return err
}

func drop(ctx context.Context, dsn string) error {
	d, err := ParseDSN(dsn)
	if err != nil {
		return err
	}
	c := newClient(d, "", nil)
	defer c.close()
	l := layout{database: d.Database, cluster: d.Cluster}
	return c.exec(ctx, "DROP DATABASE IF EXISTS `"+d.Database+"`"+l.onCluster())
}

func TestStore(t *testing.T) {
	server(t)
	var opts []storetest.Option
	if testing.Short() {
		opts = append(opts, storetest.Fewer())
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		t.Parallel() // each in a database of its own
		s := must.Get(Open(t.Context(), fresh(t)))(t)
		return s
	}, opts...)
}

var update = flag.Bool("update", false, "write the golden files anew")

var quiet = log.New(io.Discard, "", 0)

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s:\n%s", path, diff)
	}
}

// TestStatements shows the statements, in testdata/*.sql.
func TestStatements(t *testing.T) {
	for name, l := range map[string]layout{"server": {database: "db", ttl: 90 * 24 * time.Hour},
		"cluster": {database: "db", cluster: "c"}} {
		var b strings.Builder
		for _, table := range append([]*table{&schemaTable}, tables...) {
			for _, sql := range l.create(table) {
				b.WriteString(strings.NewReplacer(", `", ",\n  `", "(`", "(\n  `", " ENGINE", "\nENGINE", " ORDER BY", "\nORDER BY",
					" PARTITION BY", "\nPARTITION BY", " TTL", "\nTTL",
					" SETTINGS", "\nSETTINGS", ", INDEX", ",\n  INDEX").Replace(sql) + ";\n\n")
			}
		}
		for _, f := range store.FigureTables {
			b.WriteString(strings.NewReplacer(" AS SELECT", "\nAS SELECT", " FROM", "\nFROM", " WHERE", "\nWHERE", " AND",
				"\n  AND").Replace(l.view(f)) + ";\n\n")
		}
		golden(t, "testdata/"+name+".sql", b.String())
	}
}
