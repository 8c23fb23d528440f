package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// shipped calls f with every YAML text of this repository: files, and blocks of documents.
func shipped(t *testing.T, f func(path, text string)) {
	t.Helper()
	for _, ext := range []string{".yaml", ".yml"} {
		files(t, ext, f)
	}
	files(t, ".md", func(path, text string) {
		for _, m := range regexp.MustCompile("(?s)```ya?ml\n(.*?)```").FindAllStringSubmatch(text, -1) {
			f(path, m[1])
		}
	})
}

// Every configuration in this repository and its documents has receivers that a message of nothing but nesting does not
// end (docs/security.md): both bounds are 10 MiB at most, or otlp_limits looks first. Nor has it a queue that can stop
// for ever (docs/reliability.md, "How large a queue").
func TestShippedReceiversAreBounded(t *testing.T) {
	receivers, queues := 0, 0
	shipped(t, func(path, text string) {
		n, err := checkReceivers(text)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		receivers += n
		queues += strings.Count(text, "sending_queue:")
		if strings.Contains(text, "block_on_overflow:") {
			t.Errorf("%s: block_on_overflow", path)
		}
	})
	if receivers < 15 || queues < 8 {
		t.Errorf("%d receivers and %d queues were found: the test looks in the wrong place", receivers, queues)
	}
}

// checkReceivers returns how many OTLP receivers the documents of a YAML text hold, and what is wrong with the first
// that is not bounded.
func checkReceivers(text string) (n int, err error) {
	type protocol map[string]any
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
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
