package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// shipped calls f with every YAML text of this repository: files, and blocks of documents.
func shipped(t *testing.T, f func(path string, text []byte)) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "_build", "node_modules",
				"target"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(path)
		if !slices.Contains([]string{".yaml", ".yml", ".md"}, ext) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if ext != ".md" {
			f(path, text)
			return nil
		}
		for _, m := range regexp.MustCompile("(?s)```ya?ml\n(.*?)```").FindAllSubmatch(text, -1) {
			f(path, m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every configuration in this repository and its documents has receivers that a message of nothing but nesting does not
// end (docs/security.md): both bounds are 10 MiB at most, or otlp_limits looks first.
func TestShippedReceiversAreBounded(t *testing.T) {
	receivers := 0
	shipped(t, func(path string, text []byte) {
		n, err := checkReceivers(text)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		receivers += n
	})
	if receivers < 15 {
		t.Errorf("%d receivers were found: the test looks in the wrong place", receivers)
	}
}

// Nor has a queue that can stop for ever (docs/reliability.md, "How large a queue").
func TestShippedQueuesDoNotBlock(t *testing.T) {
	const decoded = "../../collector-exporter/agentsessionexporter/testdata/config.yaml" // has every key
	queues := 0
	shipped(t, func(path string, text []byte) {
		if path == decoded {
			return
		}
		queues += bytes.Count(text, []byte("sending_queue:"))
		if bytes.Contains(text, []byte("block_on_overflow:")) {
			t.Errorf("%s: block_on_overflow", path)
		}
	})
	if queues < 8 {
		t.Errorf("%d queues were found: the test looks in the wrong place", queues)
	}
}

// What checkReceivers says of single receivers.
func TestCheckReceivers(t *testing.T) {
	for protocols, fails := range map[string]bool{
		`{grpc: {max_recv_msg_size_mib: 10}, http: {max_request_body_size: 10485760}}`: false,
		`{grpc: {endpoint: "127.0.0.1:4317"}}`:                                         false, // 4 MiB
		`{grpc: }`:                                                                     false,
		`{grpc: {max_recv_msg_size_mib: 11}}`:                                          true,
		`{http: }`:                                                                     true, // 20 MiB
		`{http: {endpoint: "127.0.0.1:4318"}}`:                                         true,
		`{http: {max_request_body_size: 10485761}}`:                                    true,
		`{http: {max_request_body_size: 0}}`:                                           true, // the default
		`{http: {max_request_body_size: "${env:X}"}}`:                                  true, // who knows
		`{http: {max_request_body_size: 1, middlewares: [{id: other}]}}`:               false,
		`{http: {max_request_body_size: 67108864, middlewares: [{id: otlp_limits}]}}`:  false,
		`{http: {max_request_body_size: 67108864, middlewares: [id: other]}}`:          true,
	} {
		n, err := checkReceivers([]byte("receivers: {otlp/x: {protocols: " + protocols + "}, kafka: {}}"))
		if n != 1 || (err != nil) != fails {
			t.Errorf("%s: %d receivers, %v", protocols, n, err)
		}
	}
}

// checkReceivers returns how many OTLP receivers the documents of a YAML text hold, and what is wrong with the first
// that is not bounded.
func checkReceivers(text []byte) (n int, err error) {
	type protocol map[string]any
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		var c struct {
			Receivers map[string]yaml.Node
		}
		if doc.Decode(&c) != nil {
			continue // not a configuration: lists of rules, and other programs' files
		}
		for id, node := range c.Receivers {
			if kind, _, _ := strings.Cut(id, "/"); kind != "otlp" {
				continue
			}
			var r struct{ Protocols map[string]protocol }
			if err := node.Decode(&r); err != nil {
				return n, fmt.Errorf("%s: %w", id, err)
			}
			n++
			for name, p := range r.Protocols {
				key, bound, most := "max_recv_msg_size_mib", 4, 10
				if name == "http" {
					key, bound, most = "max_request_body_size", 20<<20, 10<<20
				}
				if v, set := p[key]; set && v != 0 {
					var ok bool
					if bound, ok = v.(int); !ok {
						return n, fmt.Errorf("%s, %s: %s is %v, want a number", id, name, key, v)
					}
				}
				if bound > most && !strings.Contains(fmt.Sprint(p["middlewares"]), "otlp_limits") {
					return n, fmt.Errorf("%s, %s: %s is %d, want at most %d or the middleware otlp_limits", id, name, key, bound, most)
				}
			}
		}
	}
}
