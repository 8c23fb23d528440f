// Command chdb serves a part of ClickHouse's HTTP interface in front of libchdb, the engine as a library: statements
// and their data in, results and errors out, as a server of that version would answer. It is a test double for the
// network side only; parser, types, storage and merges are the engine's own.
//
//	chdb -library libchdb.so -listen 127.0.0.1:18123 FOLDER
//
// One statement runs at a time. Its result is whole in memory before the program sends it. The data of an INSERT has
// arrived wholly before it begins. Statements come by POST. There are no users, no sessions, no compression, no
// cluster. It may be killed at any moment: what it answered with 200 is in FOLDER.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxBody bounds the data of one statement.
const maxBody = 1 << 30

func main() {
	library := flag.String("library", "libchdb.so", "`file` of libchdb")
	listen := flag.String("listen", "127.0.0.1:0", "`address` to listen on")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: chdb [-library FILE] [-listen ADDRESS] FOLDER")
		os.Exit(2)
	}
	if err := run(*library, *listen, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func run(library, listen, folder string) error {
	// The engine computes on threads that Go's scheduler must not interrupt with signals. This can be set from outside
	// only.
	if debug := os.Getenv("GODEBUG"); !strings.Contains(debug, "asyncpreemptoff=1") {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return syscall.Exec(self, os.Args, append(os.Environ(), "GODEBUG="+strings.TrimPrefix(debug+",asyncpreemptoff=1",
			",")))
	}
	l, err := net.Listen("tcp", listen) // first, so that two never open one folder through one address
	if err != nil {
		return err
	}
	e, err := open(library, folder)
	if err != nil {
		return err
	}
	h := &handler{engine: e}
	e.do(func() {
		// What the library has on because it is a command line's engine: a statement without SELECT is none on a server.
		if _, err = e.exec("SET implicit_select=0", "Null"); err != nil {
			return
		}
		var r result
		if r, err = e.exec("SELECT version()", "TSV"); err == nil {
			h.version = strings.TrimSpace(string(r.body))
		}
	})
	if err != nil {
		return err
	}
	fmt.Printf("ClickHouse %s on http://%s\n", h.version, l.Addr())
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = server.Shutdown(ctx) // what still runs after that is lost like in a crash
	os.Exit(0)               // the engine with its background threads is left as it is; a folder survives worse
	return nil
}

type handler struct {
	engine  *engine
	version string
}

// notSettings are the parameters of ClickHouse's HTTP interface that are no settings of a statement.
var notSettings = []string{"query", "database", "default_format"}

// An exception is what the engine says is wrong, or what a server would say before it asks the engine.
type exception struct {
	code int
	text string
}

func (e *exception) Error() string { return e.text }

func (h *handler) fail(code int, name, format string, args ...any) error {
	return &exception{code, fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", code, fmt.Sprintf(format, args...), name)}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, err := h.statement(r)
	var out result
	if err == nil {
		h.engine.do(func() {
			if err = r.Context().Err(); err == nil { // who waits for nothing any more gets nothing done
				out, err = h.run(s)
			}
		})
	}
	if err == nil {
		_, _ = w.Write(out.body)
		return
	}
	e := &exception{code: 1002, text: err.Error()} // UNKNOWN_EXCEPTION
	if !errors.As(err, &e) {
		if m := codeOf.FindStringSubmatch(e.text); m != nil {
			_, _ = fmt.Sscan(m[1], &e.code)
		}
	}
	w.Header().Set("X-ClickHouse-Exception-Code", fmt.Sprint(e.code))
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = fmt.Fprintf(w, "%s (version %s)\n", strings.TrimSpace(e.text), h.version)
}

var codeOf = regexp.MustCompile(`Code: (\d+)\.`)

// A statement is one request to the engine.
type statement struct {
	database    string
	settings    []string // name=value as SET takes them
	names       []string // names alone
	sql, format string
	data        []byte // of an INSERT that has a FORMAT
	insert      bool
}

var (
	// insertHead is an INSERT whose data follows: outside of the statement, or behind the first line end after the format.
	insertHead = regexp.MustCompile(`(?is)^\s*(INSERT\s+INTO\s.*?)\s+FORMAT\s+(\w+)[ \t;]*(?:\r?\n|$)`)
	valuesHead = regexp.MustCompile(`(?is)^\s*(INSERT\s+INTO\s.*?)\s+VALUES\s*;?\s*$`)
	isInsert   = regexp.MustCompile(`(?i)^\s*INSERT\s`)
	formatTail = regexp.MustCompile(`(?is)\sFORMAT\s+(\w+)(?:\s+SETTINGS\s.*)?\s*;?\s*$`)
)

func (h *handler) statement(r *http.Request) (statement, error) {
	params := r.URL.Query()
	s := statement{
		database: cmp.Or(params.Get("database"), "default"),
		format:   cmp.Or(params.Get("default_format"), "TabSeparated"),
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(notSettings, name) {
			s.names = append(s.names, name)
			s.settings = append(s.settings, name+"="+quote(params.Get(name)))
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return s, h.fail(33, "CANNOT_READ_ALL_DATA", "the body did not arrive: %v", err)
	}
	s.sql = params.Get("query")
	if isInsert.MatchString(s.sql) {
		s.data = body
	} else {
		if s.sql != "" {
			s.sql += "\n"
		}
		s.sql += string(body)
	}
	if strings.TrimSpace(s.sql) == "" {
		return s, h.fail(62, "SYNTAX_ERROR", "Syntax error: Empty query")
	}
	if m := insertHead.FindStringSubmatchIndex(s.sql); m != nil {
		// What follows on the lines below the format belongs to the data, before what came apart from the statement.
		s.insert, s.format = true, s.sql[m[4]:m[5]]
		if rest := s.sql[m[1]:]; rest != "" {
			s.data = append([]byte(rest), s.data...)
		}
		s.sql = s.sql[m[2]:m[3]]
	} else if m := valuesHead.FindStringSubmatch(s.sql); m != nil {
		s.insert, s.format, s.sql = true, "Values", m[1]
	} else if m := formatTail.FindStringSubmatch(s.sql); m != nil {
		s.format = m[1]
	}
	return s, nil
}

// run runs a statement with its database and settings; on the engine's thread only.
func (h *handler) run(s statement) (result, error) {
	e := h.engine
	if _, err := e.exec("USE "+identifier(s.database), "Null"); err != nil {
		return result{}, err
	}
	if len(s.settings) > 0 {
		// Also after a failure: SET takes them one by one.
		defer func() { _, _ = e.exec("SET "+strings.Join(s.names, "=DEFAULT, ")+"=DEFAULT", "Null") }()
		if _, err := e.exec("SET "+strings.Join(s.settings, ", "), "Null"); err != nil {
			return result{}, err
		}
	}
	if s.insert {
		return e.insertBody(s.sql, s.format, s.data)
	}
	return e.exec(s.sql, s.format)
}

func quote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func identifier(s string) string {
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(s) + "`"
}
