// Package ring starts and stops the ClickHouse engines that can be had on a plain Linux machine, each on loopback ports
// and in a folder of its own: a current one as a library, Debian's old server, and a replicated cluster of the latter.
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

// Names of the rings.
const (
	Single  = "single"  // one server 18.16.1
	Chdb    = "chdb"    // libchdb 26.7 behind the program in ../chdb
	Cluster = "cluster" // four servers 18.16.1, two shards of two replicas, and a ZooKeeper
)

// Names is all of them, fast ones first.
var Names = []string{Single, Chdb, Cluster}

// database is the one that DSNs name. It does not exist before a store makes it.
const database = "otelagent"

// clusterName is what the servers of a cluster call it.
const clusterName = "otelagent"

// Config says where programs are. The zero value takes those of a Debian machine, and those of chdb from Home.
type Config struct {
	// Home is the folder interop/clickhouse with what run.sh put there.
	Home string
	// Folder is where the ring keeps its files; it must be empty. "" makes one in the temporary folder, which goes with
	// the ring unless it is to be kept.
	Folder string
}

// Ring is engines that run. Its methods are for one goroutine, those of its Servers too.
type Ring struct {
	Name   string
	Folder string
	// Servers holds those of the first shard, then those of the second.
	Servers []*Server
	// Keeper is the ZooKeeper of a cluster, else nil.
	Keeper *Server

	remove bool
}

// Server is one process of a ring.
type Server struct {
	// Name is its folder below that of the ring. Shard and Replica count from 1; 0 where there is none.
	Name           string
	Shard, Replica int
	// Port is that of HTTP; of a keeper its only one.
	Port int

	process process
	ready   func(context.Context) error
}

// Start starts the ring of that name and returns once it answers. What does not come up leaves its folder, which the error
// names.
func Start(ctx context.Context, name string, c Config) (*Ring, error) {
	r := &Ring{Name: name, Folder: c.Folder}
	if r.Folder == "" {
		dir, err := os.MkdirTemp("", "clickhouse-"+name+"-")
		if err != nil {
			return nil, err
		}
		r.Folder, r.remove = dir, true
	}
	plan := map[string]func(*Ring, Config) error{Single: planSingle, Chdb: planChdb, Cluster: planCluster}[name]
	if plan == nil {
		return nil, fmt.Errorf("there is no ring %q: want %s", name, strings.Join(Names, ", "))
	}
	err := plan(r, c)
	if err == nil && r.Keeper != nil {
		// Before the others: a server that finds none at its start crashes at the first ON CLUSTER statement.
		err = r.Keeper.Start(ctx)
	}
	for _, s := range r.Servers {
		if err == nil {
			err = s.process.start()
		}
	}
	for _, s := range r.Servers {
		if err == nil {
			err = s.wait(ctx)
		}
	}
	if err != nil {
		r.remove = false
		r.Close()
		return nil, fmt.Errorf("%w; logs are in %s", err, r.Folder)
	}
	return r, nil
}

// DSN names the store on server i; every server leads to the same sessions.
func (r *Ring) DSN(i int) string {
	u := url.URL{Scheme: "clickhouse", Host: address(r.Servers[i].Port), Path: "/" + database}
	if r.Name == Cluster {
		u.RawQuery = "cluster=" + clusterName
	}
	return u.String()
}

// Keep leaves the folder behind when the ring is closed.
func (r *Ring) Keep() { r.remove = false }

// Close stops everything and removes the folder, if it was made by Start and is not to be kept.
func (r *Ring) Close() {
	for _, s := range r.Servers {
		s.process.end(syscall.SIGKILL) // nobody reads what a clean stop would write
	}
	if r.Keeper != nil {
		r.Keeper.process.end(syscall.SIGKILL)
	}
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
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		if !s.process.running() {
			return fmt.Errorf("%s ended: %w", s.Name, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", s.Name, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// client is for questions of tests, none of which may take longer.
var client = &http.Client{Timeout: 30 * time.Second}

// Query runs a statement on the server, settings and database as ClickHouse's HTTP parameters, and returns its output as it came.
func (s *Server) Query(ctx context.Context, sql string, params url.Values) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address(s.Port)+"/?"+params.Encode(), strings.NewReader(sql))
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
		return "", fmt.Errorf("%s: HTTP %d: %s", s.Name, resp.StatusCode, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ports returns n different ports that nobody listens on. They are below those that the system gives out by itself, so that
// they stay free while a server is down.
func ports(n int) ([]int, error) {
	var out []int
	taken := map[int]bool{}
	for range 1000 {
		port := 20_000 + rand.IntN(12_000)
		if taken[port] {
			continue
		}
		taken[port] = true
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		if out = append(out, port); len(out) == n {
			return out, nil
		}
	}
	return nil, errors.New("no free ports")
}

// folder makes a folder below that of the ring.
func (r *Ring) folder(path ...string) (string, error) {
	dir := filepath.Join(append([]string{r.Folder}, path...)...)
	return dir, os.MkdirAll(dir, 0o700)
}
