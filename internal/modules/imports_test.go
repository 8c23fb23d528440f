package modules

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/otelagent/otelagent"
	otel   = "go.opentelemetry.io/otel"
	pdata  = "go.opentelemetry.io/collector/pdata/..."
)

// api is the OpenTelemetry API: no SDK, no exporters. An empty program pays nearly nothing for it.
var api = []string{
	otel, otel + "/attribute", otel + "/baggage", otel + "/codes", otel + "/propagation",
	otel + "/metric", otel + "/metric/noop", otel + "/trace", otel + "/trace/noop",
}

// sdk is what programs without providers of their own need.
var sdk = []string{
	otel + "/...", "go.opentelemetry.io/proto/otlp/...", "google.golang.org/grpc/...", "google.golang.org/protobuf/...",
}

// basics know nothing of this project and need the standard library and each other only; every package may use them.
var basics = []string{"internal/rawjson", "internal/object", "internal/genaijson", "backend/otlpbounds", "backend/message"}

// between is what writes the spans, for otelagent, dialects/event and otelsetup.
var between = []string{"internal/writer"}

// readers are the dialects that read what other programs write.
var readers = []string{"dialects/phi/...", "dialects/clark/...", "dialects/acp/...", "dialects/guide/..."}

// A room is a set of packages with the same rules. Paths are relative to the repository; "x/..." is x and everything below.
type room struct {
	packages []string
	own      []string // packages of this repository that they may import, besides what is internal to themselves
	other    []string // packages of other modules
}

// rooms is ordered like DESIGN: imports only point upwards. A package takes the first room that names it, and one that no
// room names fails the test: decide where it belongs and write it here. Test files are free, but see TestApart.
var rooms = []room{
	{packages: basics},
	{packages: between, own: []string{"spans"}, other: api},
	{packages: []string{"collector-exporter/distribution/healthcheck"}},                // a program in the image
	{packages: []string{"internal/..."}, own: []string{"..."}, other: []string{"..."}}, // generators and checks; see TestApart
	{packages: []string{"spans"}, other: []string{otel + "/attribute"}},

	{packages: []string{"otelagent/otelsetup/..."}, own: []string{"spans", "otelagent", "internal/writer"}, other: sdk},
	{packages: []string{"otelagent/redact"}, own: []string{"spans", "otelagent"}},
	{packages: []string{"otelagent/..."}, own: []string{"spans", "internal/writer"}, other: append([]string{"github.com/klauspost/compress/zstd"}, api...)},

	{packages: []string{"dialects/event"}, own: []string{"spans", "otelagent", "internal/writer"}},
	{packages: []string{"dialects/input"}, own: []string{"spans", "otelagent", "dialects/event"}},
	{packages: []string{"dialects/ndjson"}, own: []string{"spans", "otelagent", "dialects/event", "dialects/input"}},
	{packages: readers,
		own: []string{"spans", "otelagent", "dialects/event", "dialects/input", "dialects/ndjson"}},
	{packages: []string{"dialects"}, own: []string{"otelagent", "dialects/..."}},

	{packages: []string{"backend/session/otlprow/..."}, own: []string{"spans", "backend/session"},
		other: []string{pdata, otel + "/attribute", "github.com/klauspost/compress/zstd"}},
	{packages: []string{"backend/session/..."}, own: []string{"spans", "backend/session"},
		other: []string{otel + "/attribute", "github.com/aymanbagabas/go-udiff/..."}},

	{packages: []string{"backend/store"}, own: []string{"spans", "backend/session"}, other: []string{otel + "/attribute"}},
	{packages: []string{"backend/store/sqlitestore/..."}, own: []string{"spans", "backend/session", "backend/session/export", "backend/store"},
		other: []string{otel + "/attribute", "modernc.org/sqlite/...", "github.com/klauspost/compress/..."}},
	{packages: []string{"backend/store/dsn"}, own: []string{"backend/store", "backend/store/sqlitestore", "backend/store/clickhousestore"}},
	{packages: []string{"backend/store/copy"}, own: []string{"spans", "backend/session", "backend/store", "backend/store/project"}},
	{packages: []string{"backend/store/clickhousestore/..."}, own: []string{"spans", "backend/session", "backend/store"},
		other: []string{otel + "/attribute", "github.com/klauspost/compress/..."}},
	{packages: []string{"backend/store/retention"}, own: []string{"backend/session", "backend/store", "backend/store/project"}},
	{packages: []string{"backend/store/search"}, own: []string{"spans", "backend/session", "backend/store", "internal/rawjson"}},
	{packages: []string{"backend/store/storetest"}, own: []string{"spans", "backend/session", "backend/store", "backend/store/memstore"}},
	{packages: []string{"backend/store/reader"}, own: []string{"backend/session", "spans", "backend/store"}}, // what commands and the viewer share
	{packages: []string{"backend/store/..."}, own: []string{"spans", "backend/session", "backend/session/export", "backend/store"},
		other: []string{otel + "/attribute"}},
	{packages: []string{"backend/inspect/..."},
		own: []string{"spans", "backend/session", "backend/session/diff", "backend/session/replay", "backend/store", "backend/store/stats",
			"backend/store/search"},
		other: []string{otel + "/attribute", "github.com/charmbracelet/x/ansi",
			"github.com/dustin/go-humanize"}},
	{packages: []string{"backend/web"},
		own: []string{"spans", "backend/session/...", "backend/store", "backend/store/reader", "backend/store/search", "backend/store/stats",
			"backend/inspect"},
		other: []string{"github.com/hashicorp/golang-lru/v2/simplelru", "github.com/klauspost/compress/gzhttp", "golang.org/x/sync/...",
			"golang.org/x/time/rate"}},

	{packages: []string{"dashboards/tempo/..."}, own: []string{"dashboards/tempo"}, other: []string{"go.yaml.in/yaml/v3"}},
	{packages: []string{"agenttest/phifixtures"}, other: []string{"github.com/klauspost/compress/zstd"}},
	{packages: []string{"agenttest/..."}, own: []string{"spans", "otelagent/...", "dialects/...", "backend/...", "internal/writer"},
		other: sdk},
}

// libraries are the modules whose packages have rooms.
var libraries = []string{"otelagent/otelsetup", "dialects", "backend", "agenttest", "dashboards"}

func match(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(path+"/", prefix)
	}
	return pattern == path
}

func matchAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, path) })
}

// walk calls f with the package folder (slash path below the module), the file and the import path of every import of
// the Go files of the modules that libraries and their tests are made of. The other modules are programs, which may import
// everything; they and testdata are not read.
func walk(t *testing.T, tests bool, f func(pkg, file, path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if rel == "." {
				return nil
			}
			if name := d.Name(); name == "testdata" || name == "interop" || name[0] == '.' || name[0] == '_' {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && !slices.Contains(libraries, rel) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") != tests {
			return nil
		}
		src, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if strings.HasSuffix(src.Name.Name, "_test") {
			return nil // a package of its own that looks at this one from outside, and may look at more
		}
		pkg := filepath.ToSlash(filepath.Dir(rel))
		f(pkg, rel, "")
		for _, spec := range src.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f(pkg, rel, imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func TestRooms(t *testing.T) {
	homeless := map[string]bool{}
	walk(t, false, func(pkg, file, path string) {
		i := slices.IndexFunc(rooms, func(r room) bool { return matchAny(r.packages, pkg) })
		if i < 0 {
			if !homeless[pkg] {
				homeless[pkg] = true
				t.Errorf("package %s has no room: decide what it may import and add it to rooms in internal/modules", pkg)
			}
			return
		}
		if path == "" || standard(path) {
			return
		}
		if own, ok := strings.CutPrefix(path, module+"/"); ok {
			if !strings.HasPrefix(own, pkg+"/internal/") && !matchAny(basics, own) && !matchAny(rooms[i].own, own) {
				t.Errorf("%s: %s must not import %s", file, pkg, own)
			}
			return
		}
		if !matchAny(rooms[i].other, path) {
			t.Errorf("%s: %s must not import %s", file, pkg, path)
		}
	})
}

// TestApart holds for all files of a package, its own tests included: the adapter and the backend meet only through the
// vocabulary, only otlprow reads pdata, and no package depends on generators and checks. Tests of dialects may look at trees.
func TestApart(t *testing.T) {
	check := func(pkg, file, path string) {
		own, ok := strings.CutPrefix(path, module+"/")
		if ok && match("otelagent/...", pkg) && (match("backend/...", own) || match("dialects/...", own)) {
			t.Errorf("%s: the adapter imports neither dialects nor the backend, but %s imports %s", file, pkg, own)
		}
	}
	walk(t, true, check)
	walk(t, false, func(pkg, file, path string) {
		check(pkg, file, path)
		own, ok := strings.CutPrefix(path, module+"/")
		if ok && match("backend/...", pkg) && match("otelagent/...", own) {
			t.Errorf("%s: the backend never imports the adapter, but %s imports %s", file, pkg, own)
		}
		if match(pdata, path) && !match("backend/session/otlprow/...", pkg) && !match("internal/...", pkg) {
			t.Errorf("%s: only backend/session/otlprow imports pdata", file)
		}
		if ok && match("internal/...", own) && !matchAny(basics, own) && !matchAny(between, own) && !match("internal/...", pkg) {
			t.Errorf("%s: %s is for generators and checks", file, own)
		}
	})
}
