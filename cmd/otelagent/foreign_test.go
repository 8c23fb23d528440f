package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/otelagent/otelagent/backend/session"
)

// expectedOf are the entries of expected.json; ranges are lists of what is right.
type expectedOf struct {
	Files                                                   []string
	Tools                                                   []string
	ToolsAny                                                [][]string `json:"tools_any"`
	SessionID                                               *string    `json:"session_id"`
	Sessions, Runs, Turns, Denied, Permissions, Compactions json.RawMessage
	ToolCalls                                               json.RawMessage `json:"tool_calls"`
	InputTokens                                             json.RawMessage `json:"input_tokens"`
	OutputTokens                                            json.RawMessage `json:"output_tokens"`
	CacheRead                                               json.RawMessage `json:"cache_read"`
	CacheWrite                                              json.RawMessage `json:"cache_write"`
}

const foreignSamples = "../../backend/foreign/testdata"

func sampleBytes(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(foreignSamples, name))
	if err == nil {
		return b
	}
	b, err = os.ReadFile(filepath.Join(foreignSamples, name+".zst"))
	must(t, err)
	z, err := zstd.NewReader(bytes.NewReader(b))
	must(t, err)
	defer z.Close()
	b, err = io.ReadAll(z)
	must(t, err)
	return b
}

// pieces returns a file as requests of one record each, a fifth of them twice, in a random order.
func pieces(t *testing.T, raw []byte, signal string) (out [][]byte) {
	t.Helper()
	names := [3]string{"resourceSpans", "scopeSpans", "spans"}
	if signal == "logs" {
		names = [3]string{"resourceLogs", "scopeLogs", "logRecords"}
	}
	var doc map[string][]map[string]any
	must(t, json.Unmarshal(raw, &doc))
	with := func(m map[string]any, key string, v any) map[string]any {
		m = maps.Clone(m)
		m[key] = []any{v}
		return m
	}
	for _, r := range doc[names[0]] {
		for _, s := range r[names[1]].([]any) {
			scope := s.(map[string]any)
			for _, x := range scope[names[2]].([]any) {
				one := map[string]any{names[0]: []any{with(r, names[1], with(scope, names[2], x))}}
				b, err := json.Marshal(one)
				must(t, err)
				if out = append(out, b); len(out)%5 == 0 {
					out = append(out, b)
				}
			}
		}
	}
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func postTo(t *testing.T, addr, signal string, body []byte) {
	t.Helper()
	resp, err := http.Post("http://"+addr+"/v1/"+signal, "application/json", bytes.NewReader(body))
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
}

// seenIn counts what a database shows, in the words of expected.json.
func seenIn(t *testing.T, db string) (n map[string]int64, tools, ids []string) {
	t.Helper()
	n = map[string]int64{}
	code, out, said := command(t, nil, "ls", "--db", db, "--output", "json")
	if code != exitOK {
		t.Log(said)
		return n, nil, nil
	}
	var list struct{ Sessions []session.Summary }
	must(t, json.Unmarshal([]byte(out), &list))
	type call struct{ start, name string }
	var calls []call
	for _, sum := range list.Sessions {
		ids = append(ids, sum.ID)
		if code, out, said = command(t, nil, "show", "--db", db, "--output", "json", sum.ID); code != exitOK {
			t.Fatal(said)
		}
		var s session.Session
		must(t, json.Unmarshal([]byte(out), &s))
		n["Runs"] += int64(len(s.Runs))
		add := func(c []*session.Compaction, p []*session.Permission, l []*session.ToolCall) {
			n["Compactions"], n["Permissions"] = n["Compactions"]+int64(len(c)), n["Permissions"]+int64(len(p))
			for _, x := range l {
				calls = append(calls, call{x.Start.Format("2006-01-02T15:04:05.000000000"), x.Name})
				n["Permissions"] += int64(len(x.Permissions))
				if x.Outcome == "denied" {
					n["Denied"]++
				}
			}
		}
		for _, r := range s.Runs {
			n["Turns"] += int64(len(r.Turns))
			n["InputTokens"], n["OutputTokens"] = n["InputTokens"]+r.Usage.Input, n["OutputTokens"]+r.Usage.Output
			n["CacheRead"], n["CacheWrite"] = n["CacheRead"]+r.Usage.CacheRead, n["CacheWrite"]+r.Usage.CacheWrite
			add(r.Compactions, r.Permissions, r.ToolCalls)
			for _, x := range r.Turns {
				add(x.Compactions, x.Permissions, x.ToolCalls)
			}
		}
	}
	slices.SortFunc(calls, func(a, b call) int { return strings.Compare(a.start+"\x00"+a.name, b.start+"\x00"+b.name) })
	for _, c := range calls {
		tools = append(tools, c.name)
	}
	n["Sessions"], n["ToolCalls"] = int64(len(ids)), int64(len(calls))
	return n, tools, ids
}

// TestForeignSamples sends recordings of other programs over OTLP: whole, record by record in any order with repeats,
// and so to two collectors of one database.
func TestForeignSamples(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(foreignSamples, "expected.json"))
	must(t, err)
	var raw map[string]json.RawMessage
	must(t, json.Unmarshal(text, &raw))
	for i, name := range slices.Sorted(maps.Keys(raw)) {
		if strings.HasPrefix(name, "_") || testing.Short() && i%8 != 0 {
			continue
		}
		var want expectedOf
		must(t, json.Unmarshal(raw[name], &want))
		for _, how := range []string{"whole", "records", "two collectors"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				db := filepath.Join(t.TempDir(), "sessions.db")
				collectors := 1
				if how == "two collectors" {
					collectors = 2
				}
				var up []*collector
				for range collectors {
					c, err := startCollector(t.Context(), collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db})
					must(t, err)
					up = append(up, c)
				}
				for _, file := range want.Files {
					signal := "traces"
					if strings.HasSuffix(file, ".logs.json") {
						signal = "logs"
					}
					bodies := [][]byte{sampleBytes(t, file)}
					if how != "whole" {
						bodies = pieces(t, bodies[0], signal)
					}
					for i, b := range bodies {
						postTo(t, up[i%collectors].addr("http"), signal, b)
					}
				}
				for _, c := range up {
					must(t, c.stop())
				}
				checkForeign(t, db, &want)
			})
		}
	}
}

func checkForeign(t *testing.T, db string, want *expectedOf) {
	t.Helper()
	n, tools, ids := seenIn(t, db)
	for key, right := range map[string]json.RawMessage{
		"Sessions": want.Sessions, "Runs": want.Runs, "Turns": want.Turns, "ToolCalls": want.ToolCalls, "Denied": want.Denied,
		"Permissions": want.Permissions, "Compactions": want.Compactions, "InputTokens": want.InputTokens,
		"OutputTokens": want.OutputTokens, "CacheRead": want.CacheRead, "CacheWrite": want.CacheWrite,
	} {
		var many []int64
		if json.Unmarshal(right, &many) != nil {
			many = make([]int64, 1)
			_ = json.Unmarshal(right, &many[0])
		}
		if len(right) > 0 && string(right) != "null" && !slices.Contains(many, n[key]) {
			t.Errorf("%s %d, want %s", key, n[key], right)
		}
	}
	any := want.ToolsAny
	if any == nil && want.Tools != nil {
		any = [][]string{want.Tools}
	}
	if any != nil && !slices.ContainsFunc(any, func(l []string) bool { return fmt.Sprint(l) == fmt.Sprint(tools) }) {
		t.Errorf("tools %q, want %q", tools, any)
	}
	if want.SessionID != nil && !slices.Contains(ids, *want.SessionID) {
		t.Errorf("no session %s among %q", *want.SessionID, ids)
	}
}
