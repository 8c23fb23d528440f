package clickhousestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/store"
)

// Version is the schema that this package writes. One that is released is never edited: a further version adds to it. Version 2 added the
// tables of figures, version 3 what lists of sessions filter by.
const Version = 3

// modernFrom is the first major version of servers that get what old ones do not know: CODEC, LowCardinality, skip indexes and TTL.
const modernFrom = 23

// A column has a type that every server knows, and what newer ones get instead.
type column struct {
	name, typ string
	modern    string // type and CODEC; empty: typ
}

// A table is defined once, for all servers. docs/adr/0012-clickhouse.md says why the keys are as they are.
type table struct {
	name    string
	columns []column
	// version is the column by which ReplacingMergeTree chooses of rows with one key; empty: the last inserted.
	version string
	// plain is a MergeTree, which replaces nothing.
	plain     bool
	partition string
	order     string
	indexes   []string // of newer servers
	// granularity is how many rows stand between two entries of the index.
	granularity int
	// shard decides on which shard of a cluster a row is.
	shard string
	// keep is how long a row stays behind its column at, in nanoseconds; 0: as long as the session, or DSN.TTL.
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
	bySession  = "cityHash64(tenant, session)"
	liveFor    = 30 * 24 * time.Hour
	deletedFor = 7 * 24 * time.Hour
)

// Partitions by the month of the start, which the key holds, so that equal rows are always in one. There are 61 of them, since an
// insert into more than 100 fails: months come again after five years, and times that no clock of an agent shows share one.
const rowPartition = "if(start_ns < 1577836800000000000 OR start_ns >= 2840140800000000000, 0, 1 + intDiv(start_ns - 1577836800000000000, 2629746000000000) % 60)"

// putColumns say which Put a row is of: writer and n, see putter. at is the clock of who put it, in unix nanoseconds.
var putColumns = []column{
	{"writer", "UInt64", "UInt64" + zstd}, {"n", "UInt64", "UInt64" + zstd}, {"at", "UInt64", "UInt64" + zstd},
}

// rowColumns are those of rows and live_rows. What stands before canonical is there for SQL; canonical holds everything
// (docs/formats.md section 3).
var rowColumns = slices.Concat([]column{
	{"tenant", "String", words},
	{"session", "String", "String" + zstd},
	{"start_ns", "Int64", "Int64" + deltaZSTD},
	{"span", "FixedString(8)", ""},
	{"trace", "FixedString(16)", "FixedString(16)" + zstd},
	{"content", "UInt64", ""},                 // the first 8 bytes of the SHA-256 of canonical
	{"parent", "FixedString(8)", ""},          // zero: none
	{"kind", "UInt8", "UInt8" + zstd},         // 1 run, 2 turn, 3 compaction, 4 permission evaluation, 5 tool call, 6 payload
	{"known", "UInt8", "UInt8" + zstd},        // 0 live, 1 closed, 2 observed
	{"end_ns", "Int64", "Int64" + deltaZSTD},  //
	{"failed", "UInt8", "UInt8" + zstd},       //
	{"status", "String", words},               // run status, stop reason of a turn, outcome of a tool call, action of a permission evaluation
	{"run", "String", "String" + zstd},        //
	{"run_start_ns", "Int64", "Int64" + zstd}, //
	{"turn", "Int64", "Int64" + zstd},         // -1: the run itself
	{"model", "String", words},                //
	{"tool", "String", words},                 //
	{"input", "Int64", "Int64" + zstd},        // usage of a turn, in tokens
	{"output", "Int64", "Int64" + zstd},       //
	{"reasoning", "Int64", "Int64" + zstd},    //
	{"cache_read", "Int64", "Int64" + zstd},   //
	{"cache_write", "Int64", "Int64" + zstd},  //
	{"bytes", "UInt32", "UInt32" + zstd},      // of canonical
	{"canonical", "String", "String" + zstd}}, //
	putColumns)

const rowOrder = "tenant, session, start_ns, span, trace, content"

var rowIndexes = []string{
	"INDEX by_trace trace TYPE bloom_filter(0.01) GRANULARITY 4",
	"INDEX by_span span TYPE bloom_filter(0.01) GRANULARITY 4",
}

// schemaTable is made first: a database that has tables and not this one is not ours.
var schemaTable = table{
	name: "otelagent_schema", version: "at", order: "version", shard: "cityHash64(version)", granularity: 8192,
	columns: []column{{"version", "UInt32", ""}, {"profile", "String", ""}, {"at", "UInt64", ""}},
}

var (
	rowTable  = table{name: "rows", columns: rowColumns, partition: rowPartition, order: rowOrder, indexes: rowIndexes, granularity: 8192, shard: bySession, ttl: true}
	liveTable = table{name: "live_rows", columns: rowColumns, partition: "intDiv(at, 86400000000000)", order: rowOrder, indexes: rowIndexes, granularity: 8192, shard: bySession, keep: liveFor}
	// Bodies, by session: reading those of one session reads nothing else.
	blockTable = table{name: "blocks", order: "tenant, session, id, size", granularity: 256, shard: bySession, ttl: true, columns: slices.Concat([]column{
		{"tenant", "String", words}, {"session", "String", "String" + zstd}, {"id", "FixedString(32)", ""},
		{"size", "Int64", "Int64" + zstd}, // original size of a body that was cut or withheld at the source, else 0
		{"bytes", "UInt32", "UInt32" + zstd}, {"body", "String", "String CODEC(ZSTD(3))"},
	}, putColumns)}
	// Blocks of a session whose body stands in shared.
	refTable = table{name: "refs", order: "tenant, session, id", granularity: 1024, shard: bySession, ttl: true, columns: slices.Concat([]column{
		{"tenant", "String", words}, {"session", "String", "String" + zstd}, {"id", "FixedString(32)", ""}, {"bytes", "UInt32", "UInt32" + zstd},
	}, putColumns)}
	// Bodies that many sessions have alike, once per tenant.
	sharedTable = table{name: "shared", version: "at", order: "tenant, id", granularity: 256, shard: "cityHash64(tenant, id)", columns: []column{
		{"tenant", "String", words}, {"id", "FixedString(32)", ""}, {"at", "UInt64", ""}, {"body", "String", "String CODEC(ZSTD(3))"},
	}}
	// Which sessions there are: one row of each writer that Put to one, with the last Put's n. A session's mark is made of them.
	touchTable = table{name: "touches", version: "n", order: "tenant, session, writer", granularity: 8192, shard: bySession, ttl: true, columns: slices.Concat([]column{
		{"tenant", "String", words}, {"session", "String", "String" + zstd}, {"key", "FixedString(16)", ""},
	}, putColumns)}
	// The last projection of each session.
	summaryTable = table{name: "summaries", version: "mark", order: "tenant, session", granularity: 1024, shard: bySession, ttl: true, columns: []column{
		{"tenant", "String", words}, {"session", "String", "String" + zstd}, {"key", "FixedString(16)", ""}, {"mark", "UInt64", ""}, {"at", "UInt64", ""},
		{"parent", "String", "String" + zstd}, {"status", "String", words}, {"agent", "String", words}, {"agent_id", "String", "String" + zstd},
		{"model", "String", words}, {"dialect", "String", words},
		{"start_ns", "Int64", "Int64" + zstd}, {"last_ns", "Int64", "Int64" + zstd}, // the least integer: unknown
		{"runs", "Int64", "Int64" + zstd}, {"turns", "Int64", "Int64" + zstd}, {"tool_calls", "Int64", "Int64" + zstd}, {"errors", "Int64", "Int64" + zstd},
		{"denied", "Int64", "Int64" + zstd}, {"defects", "Int64", "Int64" + zstd}, {"input", "Int64", "Int64" + zstd}, {"output", "Int64", "Int64" + zstd},
		{"reasoning", "Int64", "Int64" + zstd}, {"cache_read", "Int64", "Int64" + zstd}, {"cache_write", "Int64", "Int64" + zstd},
		// Since version 3. A title is content.
		{"forked_from", "String", "String" + zstd}, {"title", "String", "String" + zstd}, {"archived", "UInt8", "UInt8" + zstd}, {"cost", "Float64", "Float64" + zstd},
		{"currency", "String", words}, {"heartbeat_ns", "Int64", "Int64" + zstd}, {"settled", "String", words},
	}}
	// Which Puts were deleted: of each writer those up to n. session is empty when the deletion is done.
	deletionTable = table{name: "deletions", version: "version", order: "tenant, key", granularity: 1024, shard: "cityHash64(tenant, key)", keep: deletedFor, keepIf: "done = 1", columns: []column{
		{"tenant", "String", words}, {"key", "FixedString(16)", ""}, {"version", "UInt64", ""}, {"mark", "UInt64", ""}, {"session", "String", ""},
		{"writers", "Array(UInt64)", ""}, {"ns", "Array(UInt64)", ""}, {"done", "UInt8", ""}, {"at", "UInt64", ""},
	}}
	tables = append([]*table{&rowTable, &liveTable, &blockTable, &refTable, &sharedTable, &touchTable, &summaryTable, &deletionTable}, figureTables...)
)

// layout is how tables are made and named on a server.
type layout struct {
	database, cluster string
	modern            bool
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
	name, on, _ := strings.Cut(l.local(t), " ")
	if on != "" {
		on = " " + on
	}
	fmt.Fprintf(&b, "CREATE TABLE IF NOT EXISTS %s%s (", name, on)
	var cols []string
	for _, c := range t.columns {
		typ := c.typ
		if l.modern && c.modern != "" {
			typ = c.modern
		}
		cols = append(cols, "`"+c.name+"` "+typ)
	}
	if l.modern {
		cols = append(cols, t.indexes...)
	}
	b.WriteString(strings.Join(cols, ", ") + ") ENGINE = " + l.engine(t))
	if t.partition != "" {
		b.WriteString(" PARTITION BY " + t.partition)
	}
	b.WriteString(" ORDER BY (" + t.order + ")")
	keep := t.keep
	if t.ttl {
		keep = l.ttl
	}
	if l.modern && keep > 0 {
		fmt.Fprintf(&b, " TTL toDateTime(intDiv(at, 1000000000)) + INTERVAL %d SECOND", int64(keep/time.Second))
		if t.keepIf != "" {
			b.WriteString(" DELETE WHERE " + t.keepIf)
		}
	}
	fmt.Fprintf(&b, " SETTINGS index_granularity = %d", t.granularity)
	out := []string{b.String()}
	if l.cluster != "" {
		out = append(out, fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s AS `%s`.`%s_local` ENGINE = Distributed(`%s`, `%s`, `%s_local`, %s)",
			l.of(t), l.onCluster(), l.database, t.name, l.cluster, l.database, t.name, t.shard))
	}
	return out
}

func (l layout) engine(t *table) string {
	name, args := "ReplacingMergeTree", []string{}
	if t.plain {
		name = "MergeTree"
	}
	if l.cluster != "" {
		name = "Replicated" + name
		args = append(args, fmt.Sprintf("'/clickhouse/otelagent/%s/%s/{shard}'", l.database, t.name), "'{replica}'")
	}
	if t.version != "" {
		args = append(args, t.version)
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

// columnNames are those of a table, as an INSERT lists them.
func (t *table) columnNames() string {
	var out []string
	for _, c := range t.columns {
		out = append(out, "`"+c.name+"`")
	}
	return strings.Join(out, ", ")
}

func (l layout) into(t *table) string { return l.of(t) + " (" + t.columnNames() + ")" }

// VersionError says that a database has a schema that this code cannot use.
type VersionError struct{ Have, Want int }

// Error says what to do.
func (e *VersionError) Error() string {
	if e.Have < e.Want {
		return fmt.Sprintf("database has schema version %d, want %d: open it once for writing", e.Have, e.Want)
	}
	return fmt.Sprintf("database has schema version %d, this program knows up to %d: use a newer program", e.Have, e.Want)
}

var errNotOurs = errors.New("the database has tables and is none of otelagent")

var serverVersion = regexp.MustCompile(`^(\d{1,4})\.\d+`)

// connect asks the server what it is and sets the layout and the settings of statements.
func (s *Store) connect(ctx context.Context) error {
	version := ""
	for v, err := range each(ctx, s, "connect", "version()", "", func(r *reader) string { return r.str() }) {
		if errors.Is(err, errNoRow) {
			err = &ServerError{Status: http.StatusOK}
		}
		if err != nil {
			return err
		}
		version = v
	}
	m := serverVersion.FindStringSubmatch(version)
	if m == nil {
		return &ServerError{Status: http.StatusOK}
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return &ServerError{Status: http.StatusOK}
	}
	s.layout = layout{database: s.dsn.Database, cluster: s.dsn.Cluster, modern: major >= modernFrom, ttl: s.dsn.TTL}
	if s.layout.ttl > 0 && !s.layout.modern {
		return fmt.Errorf("server version %d knows no TTL, want %d or newer, or a DSN without ttl: %w", major, modernFrom, store.ErrUnusable)
	}
	if s.layout.modern {
		// A profile may have it on, and then nothing would be durable when an insert returns.
		s.client.inserts.Set("async_insert", "0")
		// Merges collapse; an insert need not look for equal rows in itself.
		s.client.inserts.Set("optimize_on_insert", "0")
	}
	if n := s.dsn.Quorum; n > 0 {
		s.client.inserts.Set("insert_quorum", strconv.Itoa(n))
		if s.layout.modern {
			s.client.inserts.Set("insert_quorum_parallel", "0") // what it takes for reads to see all of it
		}
		s.client.settings.Set("select_sequential_consistency", "1")
	}
	return nil
}

// have returns the tables of the database.
func (s *Store) have(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	for n, err := range each(ctx, s, "list tables", "name", "FROM system.tables WHERE database = "+literal(s.dsn.Database), func(r *reader) string { return r.str() }) {
		if err != nil {
			return nil, err
		}
		out[n] = true
	}
	return out, nil
}

// check tells whether the tables are ours and of the version that we know; fs.ErrNotExist when there are none, and a *VersionError that is not
// store.ErrUnusable when they are of an older one.
func (s *Store) check(ctx context.Context) error {
	have, err := s.have(ctx)
	switch {
	case err != nil:
		return err
	case len(have) == 0:
		return fmt.Errorf("no tables: %w", fs.ErrNotExist)
	case !have[schemaTable.name]:
		return fmt.Errorf("%w: %w", store.ErrUnusable, errNotOurs)
	}
	version := 0
	for v, err := range each(ctx, s, "read the schema's version", "toUInt64(max(version)), toUInt8(count() > 0)", "FROM "+s.layout.of(&schemaTable),
		func(r *reader) [2]uint64 { return [2]uint64{r.u64(), uint64(r.u8())} }) {
		if err != nil {
			return err
		}
		version = int(v[0])
	}
	switch {
	case version > Version:
		return fmt.Errorf("%w: %w", store.ErrUnusable, &VersionError{Have: version, Want: Version})
	case version == 0:
		return fmt.Errorf("the tables are not complete: %w", fs.ErrNotExist)
	case version < Version:
		return &VersionError{Have: version, Want: Version}
	}
	return nil
}

// codeColumnThere is what servers say to ADD COLUMN of a column that is there. Those of 2018 know no IF NOT EXISTS.
const codeColumnThere = 44

// missing returns the statements that add the columns that a table of an older version lacks.
func (s *Store) missing(ctx context.Context, t *table) ([]string, error) {
	var out []string
	names := []string{t.name}
	if s.layout.cluster != "" {
		names = []string{t.name + "_local", t.name} // data first: a Distributed table asks for what it says that it has
	}
	for _, name := range names {
		have := map[string]bool{}
		for n, err := range each(ctx, s, "list columns", "name", "FROM system.columns WHERE database = "+literal(s.dsn.Database)+" AND table = "+literal(name), func(r *reader) string { return r.str() }) {
			if err != nil {
				return nil, err
			}
			have[n] = true
		}
		for _, c := range t.columns {
			if have[c.name] || len(have) == 0 { // a table that is not there is made whole
				continue
			}
			typ := c.typ
			if s.layout.modern && c.modern != "" {
				typ = c.modern
			}
			out = append(out, "ALTER TABLE `"+s.layout.database+"`.`"+name+"`"+s.layout.onCluster()+" ADD COLUMN `"+c.name+"` "+typ)
		}
	}
	return out, nil
}

// create makes what is not there, and brings tables of an older version up to date. Several programs may do so at once, and one may go on where
// another died: the version is written last.
func (s *Store) create(ctx context.Context) error {
	err := s.check(ctx)
	var older *VersionError
	upgrade := errors.As(err, &older) && older.Have < older.Want
	if !upgrade && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	began := s.clock()
	statements := []string{"CREATE DATABASE IF NOT EXISTS `" + s.layout.database + "`" + s.layout.onCluster()}
	for _, t := range append([]*table{&schemaTable}, tables...) {
		statements = append(statements, s.layout.create(t)...)
	}
	if upgrade {
		added, err := s.missing(ctx, &summaryTable)
		if err != nil {
			return err
		}
		statements = append(statements, added...)
	}
	for _, view := range figureViews {
		statements = append(statements, view(s))
	}
	for _, sql := range statements {
		err := s.client.exec(ctx, sql)
		var refused *ServerError
		if errors.As(err, &refused) && refused.Code == codeColumnThere && strings.HasPrefix(sql, "ALTER") {
			continue // another program was faster
		}
		if err != nil {
			return err
		}
	}
	if upgrade { // a session without a summary is projected again, figures and all; others may be ahead of us
		if err := s.mutate(ctx, map[*table]string{&summaryTable: fmt.Sprintf("at < toUInt64(%d)", began)}); err != nil {
			return err
		}
	}
	profile := "portable"
	if s.layout.modern {
		profile = "modern"
	}
	row := appendU64(appendString([]byte{Version, 0, 0, 0}, profile), s.clock())
	return s.client.insert(ctx, s.layout.into(&schemaTable), row, fmt.Sprintf("schema-%d", Version))
}
