package agenttest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/writer"
)

// What the agent guide demands of exports that no golden file shows by itself: docs/guide-conformance.md.

// guideLine is a line of an export in the guide's form, with what is looked at here.
type guideLine struct {
	Type string
	Data struct {
		ID, Role, Type, Digest, Body string
		ParentID                     string `json:"parent_id"`
		MetadataJSON                 string `json:"metadata_json"`
		Prompt                       int64  `json:"prompt_tokens"`
		Completion                   int64  `json:"completion_tokens"`
		Reasoning                    int64  `json:"reasoning_tokens"`
		CacheRead                    int64  `json:"cache_read"`
		CacheWrite                   int64  `json:"cache_write"`
		Total                        int64  `json:"total_tokens"`
	}
	Meta guideMeta
}

type guideMeta struct {
	Usage *struct {
		Input, Output, Reasoning int64
		CacheRead                int64 `json:"cache_read"`
		CacheWrite               int64 `json:"cache_write"`
	}
	Compaction    bool
	SchemaVersion int    `json:"schema_version"`
	PromptDigest  string `json:"system_prompt_digest"`
	Otelagent     struct {
		Events []guideEvent
	}
}

// guideEvent is an event next to a row, with the keys of turn_started and request_prepared.
type guideEvent struct {
	Type, Run, Model, Provider, Variant, System, Tools string
	Index                                              int64
	Temperature                                        *float64
}

// requests returns the requests of the turns that begin with a row, each with the keys of its turn.
func (m *guideMeta) requests() (l []guideEvent) {
	var turn guideEvent
	for _, e := range m.Otelagent.Events {
		switch e.Type {
		case "otelagent.turn_started":
			turn = e
		case "otelagent.request_prepared":
			e.Index, e.Provider, e.Variant = turn.Index, turn.Provider, turn.Variant
			l = append(l, e)
		}
	}
	return l
}

func guideLines(t *testing.T, jsonl []byte) []guideLine {
	t.Helper()
	var l []guideLine
	for line := range strings.Lines(string(jsonl)) {
		var x guideLine
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		if x.Data.MetadataJSON != "" {
			if err := json.Unmarshal([]byte(x.Data.MetadataJSON), &x.Meta); err != nil {
				t.Fatal(err)
			}
		}
		l = append(l, x)
	}
	return l
}

// eachExport calls f with every recorded session of phi-core and its export.
func eachExport(t *testing.T, f func(t *testing.T, s *session.Session, l []guideLine)) {
	n := 0
	for _, fixture := range phifixtures.All(t, repository) {
		t.Run(fixture.String(), func(t *testing.T) {
			b := replay(t, fixture.Events, content)
			for _, s := range session.AssembleAll(b.Rows) {
				one := session.Batch{Blocks: b.Blocks}
				for _, r := range b.Rows {
					if r.Session.ID == s.ID {
						one.Rows = append(one.Rows, r)
					}
				}
				n++
				f(t, s, guideLines(t, exported(t, one, true)))
			}
		})
	}
	if n < 50 {
		t.Errorf("only %d sessions", n)
	}
}

// TestExportedCounts holds the guide's spelling of counts: input without what was cached, output without reasoning, so that the five add up to
// what was used, and the sum of the session is that of its five; and the version that user messages carry.
func TestExportedCounts(t *testing.T) {
	eachExport(t, func(t *testing.T, s *session.Session, l []guideLine) {
		var in, out int64
		for _, x := range l {
			switch u := x.Meta.Usage; {
			case x.Type == "session":
				if d := x.Data; d.Total != d.Prompt+d.Completion+d.Reasoning+d.CacheRead+d.CacheWrite {
					t.Errorf("session %s: the five do not add up to %d", s.ID, d.Total)
				}
			case x.Data.Role == "user" && x.Meta.SchemaVersion != 1:
				t.Errorf("message %s: schema_version %d", x.Data.ID, x.Meta.SchemaVersion)
			case u != nil && !x.Meta.Compaction:
				in += u.Input + u.CacheRead + u.CacheWrite
				out += u.Output + u.Reasoning
			}
		}
		if in != s.Usage.Input || out != s.Usage.Output {
			t.Errorf("session %s: messages have %d and %d tokens, the tree %d and %d", s.ID, in, out, s.Usage.Input, s.Usage.Output)
		}
	})
}

// TestExportIsReplayEligible looks for what a turn needs to be run again: its model, its prompt and its tools, each of which stands in the same file.
func TestExportIsReplayEligible(t *testing.T) {
	seen := map[string]int{}
	eachExport(t, func(t *testing.T, s *session.Session, l []guideLine) {
		bodies := map[string]string{}
		for _, x := range l {
			if x.Type == "system_prompt" || x.Type == "tool_catalog" {
				if sum := sha256.Sum256([]byte(x.Data.Body)); hex.EncodeToString(sum[:]) != x.Data.Digest {
					t.Errorf("%s %s is not the digest of its body", x.Type, x.Data.Digest)
				}
				if _, again := bodies[x.Type+x.Data.Digest]; again {
					t.Errorf("%s %s is there twice", x.Type, x.Data.Digest)
				}
				bodies[x.Type+x.Data.Digest] = x.Data.Body
			}
		}
		turns := map[string]*session.Turn{}
		for _, r := range s.Runs {
			for _, turn := range r.Turns {
				turns[runAndTurn(r.ID, turn.Index)] = turn
			}
		}
		for _, x := range l {
			for _, turn := range x.Meta.requests() {
				was := turns[runAndTurn(turn.Run, turn.Index)]
				if was == nil || len(was.Requests) == 0 {
					continue
				}
				if turn.Model == "" {
					t.Errorf("message %s, turn %d has no model", x.Data.ID, turn.Index)
				}
				for typ, digest := range map[string]string{"system_prompt": turn.System, "tool_catalog": turn.Tools} {
					if _, ok := bodies[typ+digest]; digest != "" && !ok {
						t.Errorf("message %s, turn %d: no %s %s", x.Data.ID, turn.Index, typ, digest)
					} else if ok {
						seen[typ]++
					}
				}
				if want := was.PromptDigest != ""; want != (turn.System != "") {
					t.Errorf("message %s, turn %d: prompt %q, in the tree %q", x.Data.ID, turn.Index, turn.System, was.PromptDigest)
				}
			}
		}
	})
	if seen["system_prompt"] < 50 || seen["tool_catalog"] < 50 {
		t.Errorf("only %v", seen)
	}
}

func runAndTurn(run string, index int64) string { return fmt.Sprint(run, "/", index) }

// TestExportTellsWhatATurnRanWith changes model, variant, temperature, prompt and tools from one turn to the next: each turn has its own.
func TestExportTellsWhatATurnRanWith(t *testing.T) {
	turn := func(second, model, temperature, prompt, tool string) string {
		return `{"type":"otelagent.turn_started","ts":"2026-11-21T09:00:` + second + `Z","run":"r","model":"` + model + `","variant":"v-` + model + `"}` + "\n" +
			`{"type":"otelagent.request_prepared","ts":"2026-11-21T09:00:` + second + `.1Z","run":"r","payload":{"model":"` + model + `","temperature":` + temperature +
			`,"system":"` + prompt + `","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"` + tool + `","input_schema":{}}]}}` + "\n" +
			`{"type":"otelagent.turn_ended","ts":"2026-11-21T09:00:` + second + `.5Z","run":"r","output":{"role":"assistant","content":"ho"}}`
	}
	c := usageCase{dialect: "otelagent"}
	b := playAs(t, c, own(turn("01", "small", "0.25", "Be kind.", "read"), turn("02", "large", "1", "Be kind.", "read"), turn("03", "large", "1", "Be brief.", "write")), content, writer.WithDerivedIDs)
	var got []string
	digests := map[string]string{}
	l := guideLines(t, exported(t, b, true))
	for _, x := range l {
		if x.Type == "system_prompt" || x.Type == "tool_catalog" {
			digests[x.Data.Digest] = x.Data.Body
		}
	}
	for _, x := range l {
		for _, turn := range x.Meta.requests() {
			temperature, err := json.Marshal(turn.Temperature)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.Join([]string{turn.Model, turn.Variant, string(temperature), digests[turn.System], digests[turn.Tools]}, " | "))
		}
	}
	want := []string{
		`small | v-small | 0.25 | Be kind. | [{"name":"read","input_schema":{}}]`,
		`large | v-large | 1 | Be kind. | [{"name":"read","input_schema":{}}]`,
		`large | v-large | 1 | Be brief. | [{"name":"write","input_schema":{}}]`,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(digests) != 4 {
		t.Errorf("%d digests (-want +export):\n%s", len(digests), diff)
	}
}

// TestForkNamesItsParent writes a fork from its tree: its row names the parent, and its sums are made anew of the messages that it holds, the copied
// ones among them, where what was billed is its own reply alone.
func TestForkNamesItsParent(t *testing.T) {
	c := usageCase{dialect: "otelagent"}
	fork := `{"type":"otelagent.run_started","ts":"2026-11-21T08:00:00Z","session":"s","run":"c","copied":true,"fork_parent_id":"t"}
{"type":"otelagent.turn_started","ts":"2026-11-21T08:00:01Z","run":"c"}
{"type":"otelagent.turn_ended","ts":"2026-11-21T08:00:03Z","run":"c","output":{"role":"assistant","content":"before"},"usage":{"input":1000,"output":500,"cache_read":300}}
{"type":"otelagent.run_ended","ts":"2026-11-21T08:00:04Z","run":"c","status":"completed"}
`
	b := playAs(t, c, fork+strings.Replace(own(reply("01", `{"input":7,"output":2}`)), `"run":"r"}`, `"run":"r","fork_parent_id":"t"}`, 1), content, writer.WithDerivedIDs)
	d := guideLines(t, exported(t, b, true))[0].Data
	if d.ParentID != "t" || d.Prompt != 1000-300+7 || d.Completion != 500+2 || d.CacheRead != 300 {
		t.Errorf("%+v", d)
	}
	if u := session.AssembleAll(b.Rows)[0].Usage; u.Input != 7 || u.Output != 2 {
		t.Errorf("billed: %+v", u)
	}
}
