package agenttest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// notContent are the keys of phi-core's events below which ids, numbers, names and words stand. Everything else counts as
// content, so a new field is searched for until somebody decides otherwise.
var notContent = []string{
	"type", "role", "kind", "status", "loop_id", "session_id", "agent_id", "parent_loop_id", "child_loop_id",
	"loop_ids", "selected_loop_id", "tool_call_id", "toolCallId", "id", "tool_name", "toolName", "name",
	"loopId", "timestamp", "created_at", "stopReason", "triggered_by", "continuation_kind", "category",
	"model", "model_id", "provider", "api", "config_id", "thinking_level", "mimeType",
}

// contentOf returns every string of an event that is content. Strings that also stand in a place that is not content are
// left out by the caller.
func contentOf(v any, secret, public map[string]bool, open bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			contentOf(x, secret, public, open || slices.Contains(notContent, k))
			// Free JSON is content down to its keys' values, whatever they are called.
			if k == "arguments" || k == "args" || k == "details" || k == "metadata" || k == "data" || k == "parameters" {
				contentOf(x, secret, map[string]bool{}, false)
			}
		}
	case []any:
		for _, x := range v {
			contentOf(x, secret, public, open)
		}
	case string:
		if open {
			public[v] = true
		} else {
			secret[v] = true
		}
	}
}

// With capture none, which is the default, and with digests, no content of any recording is in any byte that is sent:
// not from a file, not live, not with the names of content.
func TestNothingLeavesWithoutCapture(t *testing.T) {
	// Shorter strings stand in names and ids by chance.
	const shortest = 6
	searched, found := 0, 0
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			secret, public := map[string]bool{}, map[string]bool{}
			for _, line := range f.Lines() {
				var ev any
				if err := json.Unmarshal(line, &ev); err != nil {
					t.Fatal(err)
				}
				contentOf(ev, secret, public, false)
			}
			sent := bytes.Join(append(
				play(t, f.Events, nil, writer.WithDerivedIDs).OTLP(),
				play(t, f.Events, []input.Option{input.WithLive()}).OTLP()...), nil)
			hashed := bytes.Join(append(
				play(t, f.Events, nil, writer.WithDerivedIDs, digests).OTLP(),
				play(t, f.Events, nil, digests).OTLP()...), nil)
			captured := bytes.Join(play(t, f.Events, nil, content).OTLP(), nil)
			for s := range secret {
				if len(s) < shortest || public[s] || partOfAKey(s) {
					continue
				}
				searched++
				if bytes.Contains(captured, []byte(s)) {
					found++
				}
				if bytes.Contains(sent, []byte(s)) {
					t.Errorf("is sent: %q", s)
				}
				// Digests come with provenance, which names records of memory.
				if bytes.Contains(hashed, []byte(s)) && !bytes.Contains(f.Events, fmt.Appendf(nil, `"record_id":%q`, s)) && !bytes.Contains(f.Events, fmt.Appendf(nil, `"tier":%q`, s)) {
					t.Errorf("is sent with digests: %q", s)
				}
			}
		})
	}
	if searched < 500 {
		t.Errorf("only %d values were searched for: the test no longer sees the content", searched)
	}
	// The same search finds what is captured, but for texts that JSON spells with escapes, and deltas.
	if found < searched*3/4 {
		t.Errorf("with capture only %d of %d values are found: the search is blind", found, searched)
	}
}

// partOfAKey reports whether s stands in the name of one of our own keys, such as "tokens".
func partOfAKey(s string) bool {
	return slices.ContainsFunc(spans.Attributes(), func(a spans.Attribute) bool { return strings.Contains(string(a.Key), s) })
}
