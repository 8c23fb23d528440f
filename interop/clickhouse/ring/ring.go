// Package ring starts and stops a current ClickHouse engine on a plain Linux machine, on a loopback port and in a
// folder of its own: libchdb 26.7 behind the program in ../chdb.
package ring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// name is that of the process and its folder.
const name = "chdb"

// database is the one that DSNs name. It does not exist before a store makes it.
const database = "otelagent"

// Ring is an engine that runs. Its methods are for one goroutine, those of its Server too.
type Ring struct {
	Folder string
	Server *Server

	remove bool
}

// Server is the process of a ring.
type Server struct {
	Port    int // of HTTP
	process process
}

// Start starts an engine and returns once it answers. home is the folder interop/clickhouse with what run.sh put
// there. An engine that does not come up keeps its folder, which the error names.
func Start(ctx context.Context, home string) (*Ring, error) {
	dir, err := os.MkdirTemp("", "clickhouse-"+name+"-")
	if err != nil {
		return nil, err
	}
	home, err = filepath.Abs(home)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Port: port, process: process{
		name: name, dir: dir, log: filepath.Join(dir, "log"),
		args: []string{
			filepath.Join(home, "bin", "chdb"), "-listen", address(port),
			"-library", filepath.Join(home, "node_modules", "@chdb", "lib-linux-x64-gnu", "libchdb.so"), filepath.Join(dir,
				"data"),
		},
	}}
	r := &Ring{Folder: dir, Server: s, remove: true}
	if err := s.Start(ctx); err != nil {
		r.remove = false
		r.Close()
		return nil, fmt.Errorf("%w; logs are in %s", err, r.Folder)
	}
	return r, nil
}

// DSN names the store.
func (r *Ring) DSN() string { return "clickhouse://" + address(r.Server.Port) + "/" + database }

// Keep keeps the folder when the ring is closed.
func (r *Ring) Keep() { r.remove = false }

// Close stops everything and removes the folder, unless it is to be kept.
func (r *Ring) Close() {
	r.Server.Kill() // nobody reads what a clean stop would write
	if r.remove {
		_ = os.RemoveAll(r.Folder)
	}
}

// Kill ends the process as a crash would.
func (s *Server) Kill() { s.process.end(syscall.SIGKILL) }

// Start starts it again and returns once it answers.
func (s *Server) Start(ctx context.Context) error {
	if err := s.process.start(); err != nil {
		return err
	}
	return s.wait(ctx)
}

func (s *Server) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := s.Query(ctx, "SELECT 1", nil)
		if err == nil {
			return nil
		}
		if !s.process.running() {
			return fmt.Errorf("%s ended: %w", name, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", name, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// client is for questions of tests, none of which may take longer.
var client = &http.Client{Timeout: 30 * time.Second}

// Query runs a statement on the server, settings and database as ClickHouse's HTTP parameters, and returns its output
// as it came.
func (s *Server) Query(ctx context.Context, sql string, params url.Values) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address(s.Port)+"/?"+params.Encode(),
		strings.NewReader(sql))
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: HTTP %d: %s", name, resp.StatusCode, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePort returns a port that nobody listens on. It is below those that the system gives out by itself, so that it
// stays free while the engine is down.
func freePort() (int, error) {
	for range 1000 {
		port := 20_000 + rand.IntN(12_000)
		if l, err := net.Listen("tcp", address(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port")
}
