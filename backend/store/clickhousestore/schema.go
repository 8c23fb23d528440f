package clickhousestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

// Version is the schema that this package writes.
const Version = 9

// oldest is the first major version of servers that the statements of this package are for.
const oldest = 24

// A column has a type with its CODEC.
type column struct{ name, typ string }

// A table is defined once, for one server and for a cluster. docs/adr/0012-clickhouse.md says why the keys are as they
// are.
type table struct {
	name    string
	columns []column
	// version is the column by which ReplacingMergeTree chooses of rows with one key; empty: the last inserted.
	version   string
	partition string
	order     string
	indexes   []string
	// granularity is how many rows are between two entries of the index.
	granularity int
	// shard decides on which shard of a cluster a row is.
	shard string
	// keep is how long a row stays after its column at, in nanoseconds; 0: as long as the session, or DSN.TTL.
	keep time.Duration
	// keepIf is what of a table alone goes after keep; empty: all.
	keepIf string
	// ttl says that DSN.TTL goes for it.
	ttl bool
}

const (
	zstd       = " CODEC(ZSTD(1))"
	deltaZSTD  = " CODEC(Delta, ZSTD(1))"
	words      = "LowCardinality(String)" + zstd
	text       = "String" + zstd
	integer    = "Int64" + zstd
	unsigned   = "UInt64" + zstd
	bySession  = "cityHash64(tenant, session)"
	deletedFor = 7 * 24 * time.Hour
)

// Partitions by the month of the start, which the key holds, so that equal rows are always in one. There are 61 of
// them, since an insert into more than 100 fails: months come again after five years, and times that no clock of an
// agent shows share one.
const rowPartition = "if(start_ns < 1577836800000000000 OR start_ns >= 2840140800000000000, 0, " +
	"1 + intDiv(start_ns - 1577836800000000000, 2629746000000000) % 60)"

// putColumns say which Put a row is of: writer and n, see putter. at is the clock of who put it, in unix nanoseconds.
var putColumns = []column{{"writer", unsigned}, {"n", unsigned}, {"at", unsigned}}

// rowColumns are those of rows; canonical holds everything (backend/session/README.md).
var rowColumns = slices.Concat([]column{
	{"tenant", words},
	{"session", text},
	{"start_ns", "Int64" + deltaZSTD},
	{"span", "FixedString(8)"},
	{"trace", "FixedString(16)" + zstd},
	{"content", "UInt64"},            // the first 8 bytes of the SHA-256 of canonical; of live rows 0
	{"known", "UInt8" + zstd},        // 0 live, 1 closed, 2 observed
	{"end_ns", "Int64" + deltaZSTD},  //
	{"bytes", "UInt32" + zstd},       // of canonical
	{"canonical", text}}, putColumns) //

// schemaTable is made first: a database that has tables and not this one is not an otelagent database.
var schemaTable = table{
	name: "otelagent_schema", version: "at", order: "version", shard: "cityHash64(version)", granularity: 8192,
	columns: []column{{"version", "UInt32"}, {"at", "UInt64"}},
}

var (
	rowTable = table{
		name: "rows", columns: rowColumns, version: "end_ns", partition: rowPartition,
		order: "tenant, session, start_ns, span, trace, content", granularity: 8192, shard: bySession, ttl: true,
		indexes: []string{
			"INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4",
			"INDEX by_span span TYPE bloom_filter(0.01) GRANULARITY 4",
		},
	}
	// Bodies, by session: reading those of one session reads nothing else.
	blockTable = table{name: "blocks", order: "tenant, session, id, size", granularity: 256, shard: bySession, ttl: true,
		columns: slices.Concat([]column{
			{"tenant", words}, {"session", text}, {"id", "FixedString(32)"},
			{"size", integer}, // original size of a body that was cut or withheld at the source, else 0
			{"bytes", "UInt32" + zstd}, {"body", "String CODEC(ZSTD(3))"},
		}, putColumns)}
	// Which sessions there are: one row of each writer that Put to one, with the last Put's n. A session's mark is made
	// of them.
	touchTable = table{name: "touches", version: "n", order: "tenant, session, writer", granularity: 8192,
		shard: bySession, ttl: true,
		columns: slices.Concat([]column{{"tenant", words}, {"session", text}, {"key", "FixedString(16)"}}, putColumns)}
	// The last projection of each session.
	summaryTable = table{name: "summaries", version: "mark", order: "tenant, session", granularity: 1024, shard: bySession,
		ttl: true,
		columns: slices.Concat([]column{{"tenant", words}, {"session", text}, {"key", "FixedString(16)"}, {"mark", "UInt64"},
			{"at", "UInt64"}},
			summaryColumns())}
	// Which Puts were deleted: of each writer those up to n. session is empty when the deletion is done.
	deletionTable = table{name: "deletions", version: "version", order: "tenant, key", granularity: 1024,
		shard: "cityHash64(tenant, key)", keep: deletedFor,
		keepIf: "done = 1", columns: []column{
			{"tenant", words}, {"key", "FixedString(16)"}, {"version", "UInt64"}, {"mark", "UInt64"}, {"session", "String"},
			{"writers", "Array(UInt64)"}, {"ns", "Array(UInt64)"}, {"done", "UInt8"}, {"at", "UInt64"},
		}}

	// sessionTables hold rows of Puts, derivedTables what projections made of them.
	sessionTables = []*table{&rowTable, &blockTable, &touchTable}
	derivedTables = append([]*table{&summaryTable}, figureTables()...)
	tables        = slices.Concat(sessionTables, []*table{&deletionTable}, derivedTables)
)

// summaryColumns are those of store.SummaryColumns.
func summaryColumns() (out []column) {
	for i, f := range store.SummaryFields(&session.Summary{}) {
		out = append(out, column{store.SummaryColumns[i], fieldType(f, false)})
	}
	return out
}

// layout is how tables are made and named on a server.
type layout struct {
	database, cluster string
	ttl               time.Duration
}

// of returns the name under which a table is read and inserted into.
func (l layout) of(t *table) string { return "`" + l.database + "`.`" + t.name + "`" }

// local returns what holds the data on each server, which is what ALTER takes, and where it has to run.
func (l layout) local(t *table) string {
	if l.cluster == "" {
		return l.of(t)
	}
	return "`" + l.database + "`.`" + t.name + "_local`" + l.onCluster()
}

func (l layout) onCluster() string {
	if l.cluster == "" {
		return ""
	}
	return " ON CLUSTER `" + l.cluster + "`"
}

// create returns the statements that make a table.
func (l layout) create(t *table) []string {
	var b strings.Builder
	var cols []string
	for _, c := range t.columns {
		cols = append(cols, "`"+c.name+"` "+c.typ)
	}
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s (%s) ENGINE = %s", l.local(t),
		strings.Join(append(cols, t.indexes...), ", "), l.engine(t))
	if t.partition != "" {
		b.WriteString(" PARTITION BY " + t.partition)
	}
	b.WriteString(" ORDER BY (" + t.order + ")")
	keep := t.keep
	if t.ttl {
		keep = l.ttl
	}
	if keep > 0 {
		fmt.Fprintf(&b, " TTL toDateTime(intDiv(at, 1000000000)) + INTERVAL %d SECOND", int64(keep/time.Second))
		if t.keepIf != "" {
			b.WriteString(" DELETE WHERE " + t.keepIf)
		}
	}
	fmt.Fprintf(&b, " SETTINGS index_granularity = %d", t.granularity)
	out := []string{b.String()}
	if l.cluster != "" {
		out = append(out,
			fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s AS `%s`.`%s_local` ENGINE = Distributed(`%s`, `%s`, `%s_local`, %s)",
				l.of(t), l.onCluster(), l.database, t.name, l.cluster, l.database, t.name, t.shard))
	}
	return out
}

func (l layout) engine(t *table) string {
	name, args := "ReplacingMergeTree", []string{}
	if l.cluster != "" {
		name = "Replicated" + name
		args = append(args, fmt.Sprintf("'/clickhouse/otelagent/%s/%s/{shard}'", l.database, t.name), "'{replica}'")
	}
	if t.version != "" {
		args = append(args, t.version)
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

// names are the columns of a table, as a list of SQL.
func (t *table) names() string {
	var out []string
	for _, c := range t.columns {
		out = append(out, "`"+c.name+"`")
	}
	return strings.Join(out, ", ")
}

func (l layout) into(t *table) string { return l.of(t) + " (" + t.names() + ")" }

var errNotOurs = errors.New("the database has tables and is none of otelagent")

// connect checks the version of the server.
func (s *Store) connect(ctx context.Context) error {
	text, err := s.client.text(ctx, "SELECT version() FORMAT TabSeparated", nil, nil)
	if err != nil {
		return s.failed(ctx, "connect", err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "%d.%d", &major, &minor); err != nil {
		return &ServerError{Status: http.StatusOK}
	}
	if major < oldest {
		return fmt.Errorf("server version %d.%d, want %d or newer: %w", major, minor, oldest, store.ErrUnusable)
	}
	return nil
}

// check returns nil when the tables are those of otelagent and of this version, and fs.ErrNotExist when there are none.
func (s *Store) check(ctx context.Context) error {
	have := map[string]bool{}
	for n, err := range each(ctx, s, "list tables", "name", "FROM system.tables WHERE database = "+literal(s.dsn.Database),
		(*reader).str) {
		if err != nil {
			return err
		}
		have[n] = true
	}
	switch {
	case len(have) == 0:
		return fmt.Errorf("no tables: %w", fs.ErrNotExist)
	case !have[schemaTable.name]:
		return fmt.Errorf("%w: %w", store.ErrUnusable, errNotOurs)
	}
	version := 0
	for v, err := range each(ctx, s, "read the schema's version", "toUInt64(max(version))", "FROM "+
		s.layout.of(&schemaTable), (*reader).u64) {
		if err != nil {
			return err
		}
		version = int(v)
	}
	switch version {
	case Version:
		return nil
	case 0:
		return fmt.Errorf("the tables are not complete: %w", fs.ErrNotExist)
	}
	return fmt.Errorf("%w: %w", store.ErrUnusable, &store.VersionError{Have: version, Want: Version})
}

// create makes what is not there. Several programs may do so at once, and one may go on where another died: the version
// is written last.
func (s *Store) create(ctx context.Context) error {
	if err := s.check(ctx); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	statements := []string{"CREATE DATABASE IF NOT EXISTS `" + s.layout.database + "`" + s.layout.onCluster()}
	for _, t := range append([]*table{&schemaTable}, tables...) {
		statements = append(statements, s.layout.create(t)...)
	}
	for _, t := range store.FigureTables {
		statements = append(statements, s.layout.view(t))
	}
	for _, sql := range statements {
		if err := s.client.exec(ctx, sql); err != nil {
			return err
		}
	}
	row := appendU64([]byte{Version, 0, 0, 0}, s.clock())
	return s.client.insert(ctx, s.layout.into(&schemaTable), row, fmt.Sprintf("schema-%d", Version))
}
