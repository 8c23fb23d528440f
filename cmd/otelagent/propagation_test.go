package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
)

// A traceparent in the metadata of a run that is sent makes the run a child of the span that it names, in that span's
// trace. With an invalid traceparent, or none, the run is a root.
func TestSendHearsTraceparent(t *testing.T) {
	const (
		trace = "0af7651916cd43dd8448eb211c80319c"
		span  = "b7ad6b7169203331"
	)
	phi := func(metadata string) string {
		return `{"type":"AgentStart","agent_id":"a","session_id":"s","loop_id":"s.m.1","parent_loop_id":null,` +
			`"continuation_kind":"Initial","timestamp":"2026-08-01T12:00:00Z","metadata":` + metadata +
			`,"config_snapshot":null}
{"type":"AgentEnd","loop_id":"s.m.1","messages":[],"timestamp":"2026-08-01T12:00:01Z","usage":{"input":0,"output":0,` +
			`"reasoning":0,"cache_read":0,"cache_write":0,"total_tokens":0},"rejection":null}
`
	}
	own := func(metadata string) string {
		return `{"type":"otelagent.run_started","session":"s","run":"r","metadata":` + metadata + `}
{"type":"otelagent.run_ended"}
`
	}
	clark := func(traceparent string) string {
		return `{"ts":1785585600000000000,"event":{"type":"agent_start"}}
{"ts":1785585600000000001,"event":{"type":"run_identified","identity":{"run_id":"r","depth":0,"conversation_id":"s"` +
			traceparent + `}}}
{"ts":1785585600000000002,"event":{"type":"agent_end","messages":[]}}
`
	}
	for _, tt := range []struct {
		name, input   string
		trace, parent string // trace empty: any
	}{
		{"own lines", own(`{"traceparent":"00-` + trace + `-` + span + `-01"}`), trace, span},
		{"phi-core", phi(`{"traceparent":"00-` + trace + `-` + span + `-01"}`), trace, span},
		{"clark-agent", clark(`,"traceparent":"00-` + trace + `-` + span + `-01"`), trace, span},
		{"no traceparent", own(`{"ticket":"T-1"}`), "", strings.Repeat("0", 16)},
		{"no valid one", own(`{"traceparent":"00-` + strings.Repeat("0", 32) + `-` + span + `-01"}`), "",
			strings.Repeat("0", 16)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, db := filepath.Join(t.TempDir(), "in.ndjson"), filepath.Join(t.TempDir(), "sessions.db")
			must(t, os.WriteFile(file, []byte(tt.input), 0o600))
			cli(t, "send", "--db", db, file)
			s, err := sqlitestore.OpenReadOnly(t.Context(), db)
			must(t, err)
			defer func() { _ = s.Close() }()
			var got []session.Row
			for sum, err := range s.Sessions(t.Context(), store.Query{}) {
				must(t, err)
				for row, err := range s.Rows(t.Context(), sum.Key) {
					must(t, err)
					got = append(got, row)
				}
			}
			if len(got) != 1 || got[0].Kind != session.KindRun {
				raw, _ := json.Marshal(got)
				t.Fatalf("want one run, got %s", raw)
			}
			if tt.trace == "" {
				tt.trace = got[0].Trace.String()
			}
			if diff := cmp.Diff([]string{tt.trace, tt.parent}, []string{got[0].Trace.String(),
				got[0].Parent.String()}); diff != "" {
				t.Errorf("trace and parent (-want +got):\n%s", diff)
			}
		})
	}
}

// A caller that is not sampled decides for what it called, as everywhere in OpenTelemetry. The command reports that it
// sends nothing, with the reason.
func TestSendHearsThatACallerIsNotSampled(t *testing.T) {
	file, db := filepath.Join(t.TempDir(), "in.ndjson"), filepath.Join(t.TempDir(), "sessions.db")
	const input = `{"type":"otelagent.run_started","session":"s","run":"r","metadata":{` +
		`"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}}
{"type":"otelagent.run_ended"}
`
	must(t, os.WriteFile(file, []byte(input), 0o600))
	if code, _, errs := runWith(t, "send", "--db", db, file); code == exitOK || !strings.Contains(errs, "not sampled") {
		t.Errorf("exit %d: %s", code, errs)
	}
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	cli(t, "send", "--db", db, file)
}
