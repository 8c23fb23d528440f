package agenttest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
)

// Sessions in the form of the agent guide go through the whole pipeline in memory, and come back as they were written.
// docs/guide-conformance.md lists the requirements.

func guideFile(t *testing.T, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(repository, "dialects", "guide", "testdata", name)))(t)
	return b
}

// importGuide plays rows as `otelagent send` does with a file, and returns the batch that arrived.
func importGuide(t *testing.T, text []byte) session.Batch {
	t.Helper()
	p := agenttest.New(t, content, writer.WithDerivedIDs)
	if n := play.Events(t, event.NewRecorder(p.Tracer()), guide.NewDecoder().Events(bytes.NewReader(text))); n > 0 {
		t.Errorf("%d events had no place", n)
	}
	if r := p.Report(); len(r.Rejected) > 0 || r.Foreign > 0 || r.Cut > 0 {
		t.Fatalf("what we send we must read: %+v", r)
	}
	return p.Batch()
}

// exported writes the only session of a batch.
func exported(t *testing.T, b session.Batch, lines bool) []byte {
	t.Helper()
	all := session.AssembleAll(b.Rows)
	if len(all) != 1 {
		t.Fatalf("%d sessions", len(all))
	}
	blocks := must.Get(session.NewBlockSet(blocksOf(b, all[0].ID)))(t)
	var out bytes.Buffer
	write := export.JSON
	if lines {
		write = export.JSONL
	}
	missing, err := write(&out, session.Tree{Session: all[0], Blocks: blocks}, export.Options{})
	if err != nil || len(missing) > 0 {
		t.Fatalf("%v, %v", missing, err)
	}
	return out.Bytes()
}

// TestGuideMessageGrows reads a message as its host wrote it, part by part and state by state: the last reading counts,
// in any order of arrival.
func TestGuideMessageGrows(t *testing.T) {
	head := `{"type":"session","data":{"id":"ses_1","agent":"a","created_at":1000,"updated_at":1000}}
{"type":"message","data":{"id":"u","session_id":"ses_1","role":"user","metadata_json":"{}",` +
		`"created_at":1001,"updated_at":1001}}` + "\n"
	assistant := func(updated int, usage string) string {
		return fmt.Sprintf(`{"type":"message","data":{"id":"a","session_id":"ses_1","role":"assistant",`+
			`"metadata_json":"{%s}","created_at":1002,"updated_at":%d}}`+"\n", usage, updated)
	}
	part := func(index, updated int, data string) string {
		return fmt.Sprintf(`{"type":"part","data":{"id":"p%d","message_id":"a","index":%d,"data":%s,`+
			`"created_at":%d,"updated_at":%d}}`+"\n", index, index, data, 1010+10*index, updated)
	}
	call := func(updated int, state string) string {
		return part(1, updated, `{"type":"tool-x","toolCallId":"c","input":{},"state":`+state+`}`)
	}
	first := part(0, 1010, `{"type":"step-start"}`)
	ended := call(1029, `"output-available","output":1,"approval":{"id":"1","approved":true}`)
	second := first + ended + part(2, 1030, `{"type":"step-start"}`)
	stages := []string{
		"",
		assistant(1002, "") + first,
		assistant(1002, "") + first + call(1021, `"input-streaming"`),
		assistant(1002, "") + first + call(1022, `"approval-requested","approval":{"id":"1"}`),
		assistant(1023, `\"usage\":{\"input\":5}`) + first + call(1023,
			`"approval-responded","approval":{"id":"1","approved":true}`),
		assistant(1023, `\"usage\":{\"input\":5}`) + first + ended,
		assistant(1023, `\"usage\":{\"input\":5}`) + second + part(3, 1040,
			`{"type":"text","text":"hal","state":"streaming"}`),
		assistant(1050, `\"usage\":{\"input\":12}`) + second + part(3, 1045, `{"type":"text","text":"half","state":"done"}`),
	}
	tree := func(b session.Batch) string { // with the last fact about the message alone
		s := session.AssembleAll(b.Rows)[0]
		row := s.Fact("message/a", "guide.row").Value.Block
		s.Facts = nil
		return fmt.Sprint(row, s.Usage.Input, string(asJSON(t, s)))
	}
	last := importGuide(t, []byte(head+stages[len(stages)-1]))
	all := last
	for _, stage := range stages {
		all = join(importGuide(t, []byte(head+stage)), all)
	}
	backwards := session.Batch{Rows: slices.Clone(all.Rows)}
	slices.Reverse(backwards.Rows)
	for _, b := range []session.Batch{all, backwards} {
		if diff := cmp.Diff(tree(last), tree(b)); diff != "" {
			t.Errorf("(-last stage +all stages):\n%s", diff)
		}
	}
	if n := session.AssembleAll(all.Rows)[0].Usage.Input; n != 12 {
		t.Errorf("%d input tokens, want 12", n)
	}
}

// TestGuideComesBack imports the file of a producer and exports it: the lines are those of the producer, byte for byte,
// in either form.
func TestGuideComesBack(t *testing.T) {
	for _, form := range [][2]string{{"session.jsonl", "session.canonical.json"}, {"ai-sdk/v6.jsonl", "ai-sdk/v6.json"},
		{"ai-sdk/v7.jsonl", "ai-sdk/v7.json"}} {
		lines := guideFile(t, form[0])
		for _, name := range form {
			b := importGuide(t, guideFile(t, name))
			if diff := cmp.Diff(string(lines), string(exported(t, b, true))); diff != "" {
				t.Errorf("%s: lines (-producer +export): %s", name, diff)
			}
			document := exported(t, b, false)
			if name == form[1] { // blanks between tokens are the writer's
				var want, got bytes.Buffer
				must.Do(t, json.Compact(&want, guideFile(t, name)))
				must.Do(t, json.Compact(&got, document))
				if diff := cmp.Diff(want.String(), got.String()); diff != "" {
					t.Errorf("%s: document (-producer +export): %s", name, diff)
				}
			}
			again := importGuide(t, document)
			if !bytes.Equal(exported(t, again, false), document) || !bytes.Equal(exported(t, again, true), lines) {
				t.Errorf("%s: exported, imported and exported again it is another", name)
			}
		}
	}
}

// guideLine is a line of an export in the guide's form, with the keys that tests read.
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
	Meta struct {
		Usage *struct {
			Input, Output, Reasoning int64
			CacheRead                int64 `json:"cache_read"`
			CacheWrite               int64 `json:"cache_write"`
		}
		Compaction    bool
		SchemaVersion int `json:"schema_version"`
		Otelagent     struct{ Events []guideEvent }
	}
}

// guideEvent is an event next to a row, with the keys of turn_started and request_prepared.
type guideEvent struct {
	Type, Run, Model, Provider, Variant, System, Tools string
	Index                                              int64
	Temperature                                        json.RawMessage
}

// requests returns the requests of the turns that begin with a row, each with the keys of its turn.
func (x *guideLine) requests() (l []guideEvent) {
	var turn guideEvent
	for _, e := range x.Meta.Otelagent.Events {
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

// guideLines reads an export. bodies are the prompts and tool catalogues by type and digest.
func guideLines(t *testing.T, jsonl []byte) (l []guideLine, bodies map[string]string) {
	t.Helper()
	bodies = map[string]string{}
	for line := range bytes.Lines(jsonl) {
		var x guideLine
		must.Do(t, json.Unmarshal(line, &x))
		if x.Data.MetadataJSON != "" {
			must.Do(t, json.Unmarshal([]byte(x.Data.MetadataJSON), &x.Meta))
		}
		if x.Type == "system_prompt" || x.Type == "tool_catalog" {
			key, sum := x.Type+x.Data.Digest, sha256.Sum256([]byte(x.Data.Body))
			if _, again := bodies[key]; again || hex.EncodeToString(sum[:]) != x.Data.Digest {
				t.Errorf("%s is there twice, or not the digest of its body", key)
			}
			bodies[key] = x.Data.Body
		}
		l = append(l, x)
	}
	return l, bodies
}

// eachExport calls f with every recorded session of phi-core and its part of the batch.
func eachExport(t *testing.T, f func(t *testing.T, s *session.Session, one session.Batch)) {
	n := 0
	for _, fixture := range phifixtures.All(t, repository) {
		t.Run(fixture.String(), func(t *testing.T) {
			b := replay(t, fixture.Events, content)
			for _, s := range session.AssembleAll(b.Rows) {
				n++
				f(t, s, only(b, s.ID))
			}
		})
	}
	if n < 50 {
		t.Errorf("only %d sessions", n)
	}
}

// TestExportsComeBack exports the recordings of phi-core in the guide's form, imports that and exports again: it is the
// same, byte for byte, and the runs and turns are those that were recorded.
func TestExportsComeBack(t *testing.T) {
	t.Parallel()
	eachExport(t, func(t *testing.T, s *session.Session, one session.Batch) {
		if len(s.Runs) == 0 {
			return
		}
		for _, lines := range []bool{true, false} {
			first := exported(t, one, lines)
			back := importGuide(t, first)
			if diff := cmp.Diff(string(first), string(exported(t, back, lines))); diff != "" {
				t.Errorf("session %s: %s", s.ID, diff)
			}
			again := session.AssembleAll(back.Rows)[0]
			if diff := cmp.Diff(outline(s, true), outline(again, true)); diff != "" || again.Usage != s.Usage {
				t.Errorf("session %s: usage %+v, want %+v: %s", s.ID, again.Usage, s.Usage, diff)
			}
		}
	})
}

// TestExportedCounts holds the guide's spelling of counts: input without the cached tokens, output without reasoning,
// so that the five add up, and the sum of the session is that of its five; and the version that user messages carry.
func TestExportedCounts(t *testing.T) {
	eachExport(t, func(t *testing.T, s *session.Session, one session.Batch) {
		var in, out int64
		lines, _ := guideLines(t, exported(t, one, true))
		for _, x := range lines {
			switch u, d := x.Meta.Usage, x.Data; {
			case x.Type == "session":
				if d.Total != d.Prompt+d.Completion+d.Reasoning+d.CacheRead+d.CacheWrite {
					t.Errorf("session %s: the five do not add up to %d", s.ID, d.Total)
				}
			case d.Role == "user" && x.Meta.SchemaVersion != 1:
				t.Errorf("message %s: schema_version %d", d.ID, x.Meta.SchemaVersion)
			case u != nil && !x.Meta.Compaction:
				in += u.Input + u.CacheRead + u.CacheWrite
				out += u.Output + u.Reasoning
			}
		}
		if in != s.Usage.Input || out != s.Usage.Output {
			t.Errorf("session %s: messages have %d and %d tokens, the tree %d and %d", s.ID, in, out, s.Usage.Input,
				s.Usage.Output)
		}
	})
}

// TestExportIsReplayEligible looks for the parts that a turn needs to be run again: its model, its prompt and its
// tools, each of which is in the same file.
func TestExportIsReplayEligible(t *testing.T) {
	seen := map[string]int{}
	eachExport(t, func(t *testing.T, s *session.Session, one session.Batch) {
		turns := map[string]*session.Turn{}
		for n := range s.Walk() {
			if n.Kind() == session.KindTurn && len(n.Turn.Requests) > 0 {
				turns[fmt.Sprint(n.Run.ID, "/", n.Turn.Index)] = n.Turn
			}
		}
		lines, bodies := guideLines(t, exported(t, one, true))
		for _, x := range lines {
			for _, turn := range x.requests() {
				was := turns[fmt.Sprint(turn.Run, "/", turn.Index)]
				if was == nil {
					continue
				}
				if turn.Model == "" || (was.PromptDigest != "") != (turn.System != "") {
					t.Errorf("message %s, turn %d: model %q, prompt %q, in the tree %q", x.Data.ID, turn.Index, turn.Model,
						turn.System,
						was.PromptDigest)
				}
				for typ, digest := range map[string]string{"system_prompt": turn.System, "tool_catalog": turn.Tools} {
					if _, ok := bodies[typ+digest]; ok {
						seen[typ]++
					} else if digest != "" {
						t.Errorf("message %s, turn %d: no %s %s", x.Data.ID, turn.Index, typ, digest)
					}
				}
			}
		}
	})
	if seen["system_prompt"] < 50 || seen["tool_catalog"] < 50 {
		t.Errorf("only %v", seen)
	}
}

// TestExportHasTheSettingsOfEachTurn changes model, variant, temperature, prompt and tools from one turn to the next.
func TestExportHasTheSettingsOfEachTurn(t *testing.T) {
	turn := func(second, model, temperature, prompt, tool string) string {
		at := `"ts":"2026-11-21T09:00:` + second
		return `{"type":"otelagent.turn_started",` + at + `Z","run":"r","model":"` + model + `","variant":"v-` + model +
			`"}` + "\n" +
			`{"type":"otelagent.request_prepared",` + at + `.1Z","run":"r","payload":{"model":"` + model +
			`","temperature":` + temperature + `,"system":"` + prompt + `","messages":[{"role":"user","content":"hi"}],` +
			`"tools":[{"name":"` + tool + `","input_schema":{}}]}}` + "\n" +
			`{"type":"otelagent.turn_ended",` + at + `.5Z","run":"r","output":{"role":"assistant","content":"ho"}}`
	}
	b := replayOwn(t, []byte(own(turn("01", "small", "0.25", "Be kind.", "read"),
		turn("02", "large", "1", "Be kind.", "read"),
		turn("03", "large", "1", "Be brief.", "write"))))
	var got []string
	lines, bodies := guideLines(t, exported(t, b, true))
	for _, x := range lines {
		for _, r := range x.requests() {
			got = append(got, fmt.Sprintf("%s | %s | %s | %s | %s", r.Model, r.Variant, r.Temperature,
				bodies["system_prompt"+r.System], bodies["tool_catalog"+r.Tools]))
		}
	}
	want := []string{
		`small | v-small | 0.25 | Be kind. | [{"name":"read","input_schema":{}}]`,
		`large | v-large | 1 | Be kind. | [{"name":"read","input_schema":{}}]`,
		`large | v-large | 1 | Be brief. | [{"name":"write","input_schema":{}}]`,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(bodies) != 4 {
		t.Errorf("%d bodies (-want +export):\n%s", len(bodies), diff)
	}
}

// TestForkNamesItsParent writes a fork from its tree: its row names the parent, and its sums are made anew of the
// messages that it holds, the copied ones among them. Only its own reply was billed.
func TestForkNamesItsParent(t *testing.T) {
	fork := `{"type":"otelagent.run_started","ts":"2026-11-21T08:00:00Z","session":"s","run":"c","copied":true,` +
		`"fork_parent_id":"t"}` + "\n" + `{"type":"otelagent.turn_started","ts":"2026-11-21T08:00:01Z","run":"c"}
{"type":"otelagent.turn_ended","ts":"2026-11-21T08:00:03Z","run":"c",` +
		`"output":{"role":"assistant","content":"before"},"usage":{"input":1000,"output":500,"cache_read":300}}
{"type":"otelagent.run_ended","ts":"2026-11-21T08:00:04Z","run":"c","status":"completed"}
`
	run := own(reply("01", `{"input":7,"output":2}`))
	b := replayOwn(t, []byte(fork+strings.Replace(run, `"run":"r"}`, `"run":"r","fork_parent_id":"t"}`, 1)))
	lines, _ := guideLines(t, exported(t, b, true))
	if d := lines[0].Data; d.ParentID != "t" || d.Prompt != 1000-300+7 || d.Completion != 500+2 || d.CacheRead != 300 {
		t.Errorf("%+v", d)
	}
	if u := session.AssembleAll(b.Rows)[0].Usage; u.Input != 7 || u.Output != 2 {
		t.Errorf("billed: %+v", u)
	}
}
