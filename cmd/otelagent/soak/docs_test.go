//go:build linux

package soak

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	repository = "../../.."
	document   = repository + "/docs/reliability.md"
)

// docs/reliability.md links the very files that the tests run, and names tests that are there, all of them.
func TestReliabilityDocument(t *testing.T) {
	text := string(readFile(t, document))
	for _, file := range []string{queueWait, queuePersistent} {
		if link := "../cmd/otelagent/soak/" + file; !strings.Contains(text, "]("+link+")") {
			t.Errorf("%s does not link %s", document, link)
		}
	}
	here := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(t`).FindAllStringSubmatch(string(readFile(t, f)), -1) {
			here[m[1]] = true
		}
	}
	delete(here, "TestReliabilityDocument")
	delete(here, "TestCheckSees")
	delete(here, "TestShownQueues")
	for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(text, -1) {
		if !here[m[1]] {
			t.Errorf("%s names %s, which is not here", document, m[1])
		}
	}
	for name := range here {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not name %s", document, name)
		}
	}
}

// The queues that the exporter's README shows are part of those that are tested: what it says of a key, the tested
// file says too.
func TestShownQueues(t *testing.T) {
	readme := string(readFile(t, repository+"/collector-exporter/agentsessionexporter/README.md"))
	tested := map[bool]map[string]any{false: queueOf(t, readFile(t, queueWait)),
		true: queueOf(t, readFile(t, queuePersistent))}
	n := 0
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(readme, -1) {
		q := queueOf(t, []byte(m[1]))
		if q == nil {
			continue
		}
		n++
		_, persistent := q["storage"]
		for key, value := range flat("", q) {
			if got := flat("", tested[persistent])[key]; got != value {
				t.Errorf("the README says sending_queue::%s: %v, the file that is tested %v", key, value, got)
			}
		}
	}
	if n == 0 {
		t.Error("the README shows no queue")
	}
}

// queueOf returns the sending_queue of the agent_session exporter in a configuration; nil when it has none.
func queueOf(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var c struct {
		Exporters map[string]map[string]any `yaml:"exporters"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil // a part that is no configuration by itself
	}
	q, _ := c.Exporters["agent_session"]["sending_queue"].(map[string]any)
	return q
}

// flat returns the values of a section by their paths.
func flat(path string, m map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if sub, ok := v.(map[string]any); ok {
			for k, v := range flat(path+k+"::", sub) {
				out[k] = v
			}
			continue
		}
		out[path+k] = v
	}
	return out
}
