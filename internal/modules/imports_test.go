package modules

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
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
var basics = []string{
	"internal/rawjson",
	"internal/object",
	"internal/genaijson",
	"backend/otlpbounds",
	"backend/message",
}

// between is what writes the spans, for otelagent, dialects/event and otelsetup.
var between = []string{"internal/writer"}

// readers are the dialects that read what other programs write.
var readers = []string{"dialects/phi/...", "dialects/clark/...", "dialects/acp/...", "dialects/guide/...",
	"dialects/claudecode/...", "dialects/codex/...", "dialects/gemini/...", "dialects/opencode/...", "dialects/pi/..."}

// A room is a set of packages with the same rules. Paths are relative to the repository; "x/..." is x and everything
// below.
type room struct {
	packages []string
	own      []string // packages of this repository that they may import, besides what is internal to themselves
	other    []string // packages of other modules
}

// rooms is ordered like DESIGN: imports only point upwards. A package takes the first room that names it, and one that
// no room names fails the test: decide where it belongs and write it here. Test files are free, but see TestApart.
var rooms = []room{
	{packages: basics},
	{packages: between, own: []string{"spans"}, other: api},
	{packages: []string{"collector-exporter/distribution/healthcheck"}}, // a program in the image
	{
		packages: []string{"internal/..."},
		own:      []string{"..."},
		other:    []string{"..."},
	}, // generators and checks; see TestApart
	{packages: []string{"spans"}, other: []string{otel + "/attribute"}},

	{packages: []string{"otelagent/otelsetup/..."}, own: []string{"spans", "otelagent", "internal/writer"}, other: sdk},
	{packages: []string{"otelagent/redact"}, own: []string{"spans", "otelagent"}},
	{
		packages: []string{"otelagent/..."},
		own:      []string{"spans", "internal/writer"},
		other:    append([]string{"github.com/klauspost/compress/zstd"}, api...),
	},

	{packages: []string{"instrumentation/net/http/otelllmhttp"},
		own: []string{"spans", "otelagent", "internal/writer"}, other: api},
	{
		packages: []string{"instrumentation/..."}, // a module each, for the framework that its path names
		own: []string{"spans", "otelagent", "internal/writer", "dialects/acp", "dialects/event", "dialects/input",
			"instrumentation/net/http/otelllmhttp"},
		other: []string{"..."},
	},

	{packages: []string{"dialects/event"}, own: []string{"spans", "otelagent", "internal/writer"}},
	{packages: []string{"dialects/input"}, own: []string{"spans", "otelagent", "dialects/event"}},
	{packages: []string{"dialects/ndjson"}, own: []string{"spans", "otelagent", "dialects/event", "dialects/input"}},
	{packages: []string{"dialects/transcript"},
		own:   []string{"spans", "otelagent", "dialects/event", "dialects/input", "dialects/ndjson"},
		other: []string{"github.com/klauspost/compress/zstd"}},
	{packages: readers,
		own: []string{"spans", "otelagent", "dialects/event", "dialects/input", "dialects/ndjson", "dialects/transcript"}},
	{packages: []string{"dialects"}, own: []string{"otelagent", "dialects/..."}},

	{packages: []string{"backend/session/otlprow/..."}, own: []string{"spans", "backend/session", "backend/foreign"},
		other: []string{pdata, otel + "/attribute", "github.com/klauspost/compress/zstd"}},
	{packages: []string{"backend/session/..."}, own: []string{"spans", "backend/session"},
		other: []string{otel + "/attribute", "github.com/aymanbagabas/go-udiff/..."}},

	{packages: []string{"backend/foreign"}, own: []string{"spans", "backend/session"},
		other: []string{otel + "/attribute", "go.yaml.in/yaml/v3", "github.com/go-viper/mapstructure/v2",
			"github.com/hashicorp/golang-lru/v2"}},

	{packages: []string{"backend/store"}, own: []string{"spans", "backend/session"}, other: []string{otel + "/attribute"}},
	{
		packages: []string{"backend/store/sqlitestore/..."},
		own:      []string{"spans", "backend/session", "backend/session/export", "backend/store"},
		other:    []string{otel + "/attribute", "modernc.org/sqlite/...", "github.com/klauspost/compress/..."},
	},
	{
		packages: []string{"backend/store/dsn"},
		own:      []string{"backend/store", "backend/store/sqlitestore", "backend/store/clickhousestore"},
	},
	{
		packages: []string{"backend/store/copy"},
		own:      []string{"spans", "backend/session", "backend/store", "backend/store/project"},
	},
	{packages: []string{"backend/store/clickhousestore/..."}, own: []string{"spans", "backend/session", "backend/store"},
		other: []string{otel + "/attribute", "github.com/klauspost/compress/..."}},
	{
		packages: []string{"backend/store/retention"},
		own:      []string{"backend/session", "backend/store", "backend/store/project"},
	},
	{
		packages: []string{"backend/store/mapped"}, // sessions with what belongs to them of other sessions
		own:      []string{"spans", "backend/session", "backend/foreign", "backend/store"},
	},
	{
		packages: []string{"backend/store/search"},
		own:      []string{"spans", "backend/session", "backend/store", "backend/store/mapped", "internal/rawjson"},
	},
	{
		packages: []string{"backend/store/storetest"},
		own:      []string{"spans", "backend/session", "backend/store", "backend/store/memstore"},
		other:    []string{"github.com/google/go-cmp/..."},
	},
	{
		packages: []string{"backend/store/reader"},
		own:      []string{"backend/session", "spans", "backend/store", "backend/store/mapped"},
	}, // what commands and the viewer share
	{
		packages: []string{"backend/store/..."},
		own: []string{"spans", "backend/session", "backend/session/export", "backend/foreign", "backend/store",
			"backend/store/mapped"},
		other: []string{otel + "/attribute"},
	},
	{packages: []string{"backend/inspect/..."},
		own: []string{
			"spans",
			"backend/foreign",
			"backend/session",
			"backend/session/diff",
			"backend/session/replay",
			"backend/store",
			"backend/store/stats",
			"backend/store/search",
		},
		other: []string{otel + "/attribute", "github.com/charmbracelet/x/ansi",
			"github.com/dustin/go-humanize"}},
	{packages: []string{"backend/web"},
		own: []string{
			"spans",
			"backend/session/...",
			"backend/store",
			"backend/store/mapped",
			"backend/store/reader",
			"backend/store/search",
			"backend/store/stats",
			"backend/inspect",
		},
		other: []string{
			"github.com/hashicorp/golang-lru/v2/simplelru",
			"github.com/klauspost/compress/gzhttp",
			"golang.org/x/sync/...",
			"golang.org/x/time/rate",
		}},

	{packages: []string{"agenttest/phifixtures"}, other: []string{"github.com/klauspost/compress/zstd"}},
	{
		packages: []string{"agenttest/..."},
		own:      []string{"spans", "otelagent/...", "dialects/...", "backend/...", "internal/writer"},
		other:    sdk,
	},
}

// libraries are the modules whose packages have rooms, besides those of instrumentation.
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

// walk calls f with the package folder (slash path below the root), the file and each import path ("" once a file) of
// the Go files in the modules of libraries. Programs may import everything, and tests of package x_test, too.
func walk(t *testing.T, tests bool, f func(pkg, file, path string)) {
	t.Helper()
	programs := slices.DeleteFunc(goMods(t), func(dir string) bool {
		return dir == "." || slices.Contains(libraries, dir) || ofInstrumentation(dir)
	})
	for _, file := range tracked(t, "*.go") {
		pkg := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") != tests || match("interop/...", pkg) || strings.Contains(file, "testdata/") ||
			slices.ContainsFunc(programs, func(dir string) bool { return match(dir+"/...", pkg) }) {
			continue
		}
		src := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly))(t)
		if strings.HasSuffix(src.Name.Name, "_test") {
			continue
		}
		f(pkg, file, "")
		for _, spec := range src.Imports {
			f(pkg, file, strings.Trim(spec.Path.Value, `"`))
		}
	}
}

func TestRooms(t *testing.T) {
	homeless := map[string]bool{}
	walk(t, false, func(pkg, file, path string) {
		i := slices.IndexFunc(rooms, func(r room) bool { return matchAny(r.packages, pkg) })
		own, isOwn := strings.CutPrefix(path, module+"/")
		first, _, _ := strings.Cut(path, "/")
		switch {
		case i < 0 && !homeless[pkg]:
			homeless[pkg] = true
			t.Errorf("package %s has no room: decide what it may import and add it to rooms in internal/modules", pkg)
		case i < 0 || !strings.Contains(first, "."): // the standard library
		case isOwn && (strings.HasPrefix(own, pkg+"/internal/") || matchAny(basics, own) || matchAny(rooms[i].own, own)):
		case isOwn || !matchAny(rooms[i].other, path):
			t.Errorf("%s: %s must not import %s", file, pkg, path)
		}
	})
}

// TestApart checks all files of a package, its own tests included: the adapter and the backend meet only in the
// vocabulary, only otlprow imports pdata, and no package imports generators and checks.
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
		if ok && match("internal/...", own) && !matchAny(basics, own) && !matchAny(between, own) &&
			!match("internal/...", pkg) {
			t.Errorf("%s: %s is for generators and checks", file, own)
		}
	})
}
