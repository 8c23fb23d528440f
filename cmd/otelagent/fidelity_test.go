package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
)

// TestLedgersOverTheWire sends every recording of the real phi-core crate over OTLP into a collector with our exporter,
// and compares what `otelagent export` then writes with what phi-core's own recorder saved. Every other recording goes
// over HTTP, and every third is sent to two collectors that share one database.
func TestLedgersOverTheWire(t *testing.T) {
	const root = "../.."
	known := phifixtures.KnownDifferences(t, root)
	for i, f := range phifixtures.All(t, root) {
		if testing.Short() && i%12 != 0 {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "sessions.db")
			protocol, collectors := "grpc", 1
			if i%2 == 1 {
				protocol = "http"
			}
			if i%3 == 0 {
				collectors = 2
			}
			events := filepath.Join(root, "dialects", "phi", "testdata", "phi-core-"+f.Release, f.Name+".events.ndjson")
			var running []*collector
			for range collectors {
				c, err := startCollector(t.Context(), collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db,
					Log: io.Discard})
				must(t, err)
				running = append(running, c)
			}
			for _, c := range running {
				args := []string{"send", "--capture", "content", "--endpoint", "http://" + c.addr(protocol), events}
				if protocol == "http" {
					args = append(args, "--protocol", "http/protobuf")
				}
				var stderr bytes.Buffer
				if code := run(t.Context(), args, nil, io.Discard, &stderr); code != exitOK {
					t.Fatalf("send ends with %d:\n%s", code, &stderr)
				}
			}
			for _, c := range running {
				must(t, c.stop())
			}
			ours, err := exported(t, db)
			must(t, err)
			diffs, err := phifixtures.Compare(f, ours)
			must(t, err)
			for _, d := range phifixtures.Unknown(f, diffs, known) {
				t.Error(d)
			}
		})
	}
}

// exported returns the ledger of every session in the database.
func exported(t *testing.T, db string) (map[string][]byte, error) {
	t.Helper()
	var list, stderr bytes.Buffer
	if code := run(t.Context(), []string{"ls", "--output", "json", "--db", db}, nil, &list, &stderr); code != exitOK {
		return nil, errors.New(stderr.String())
	}
	var ls struct {
		Sessions []struct{ ID string }
	}
	if err := json.Unmarshal(list.Bytes(), &ls); err != nil {
		return nil, err
	}
	out := make(map[string][]byte)
	for _, s := range ls.Sessions {
		var ledger bytes.Buffer
		if code := run(t.Context(), []string{"export", s.ID, "--format", "phi-core", "--db", db}, nil, &ledger,
			&stderr); code != exitOK {
			return nil, errors.New(stderr.String())
		}
		out[s.ID] = ledger.Bytes()
	}
	return out, nil
}
