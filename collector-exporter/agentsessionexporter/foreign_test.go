package agentsessionexporter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/mapped"
)

// prompt is a record of another program with content and the address of a user.
func prompt(text string) plog.Logs {
	ld := plog.NewLogs()
	sl := ld.ResourceLogs().AppendEmpty().ScopeLogs().AppendEmpty()
	sl.Scope().SetName("com.anthropic.claude_code.events")
	r := sl.LogRecords().AppendEmpty()
	r.Body().SetStr("claude_code.user_prompt")
	for key, value := range map[string]string{"event.name": "user_prompt", "session.id": "s", "prompt.id": "p",
		"prompt": text, "user.email": "somebody@example.com", "event.timestamp": "2026-11-03T10:00:00.000Z"} {
		r.Attributes().PutStr(key, value)
	}
	return ld
}

// stored returns all that the store has of a session, as text.
func stored(t *testing.T, st store.Store, id string) string {
	t.Helper()
	var all strings.Builder
	k := session.Key{ID: id}
	for r, err := range st.Rows(t.Context(), k) {
		require.NoError(t, err)
		all.Write(r.AppendCanonical(nil))
	}
	for b, err := range st.Blocks(t.Context(), k) {
		require.NoError(t, err)
		all.WriteString(b.Body)
	}
	return all.String()
}

// Content of other programs is kept, redacted before it gets a name, or dropped; identities only where a source names
// their keys.
func TestContentOfOtherPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		set       func(*Config)
		has, lack []string
	}{
		"default":  {func(*Config) {}, []string{"find the bug " + secret}, []string{"somebody@example.com"}},
		"drop":     {func(c *Config) { c.Content = contentDrop }, nil, []string{"find the bug", "somebody@example.com"}},
		"redacted": {redacting(""), []string{"find the bug [redacted:api-key]"}, []string{secret}},
		"identity": {func(c *Config) {
			c.Sources = []any{map[string]any{"name": "claude-code", "keep": []any{"user.email"}}}
		}, []string{"somebody@example.com"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, nil, c.set)
			require.NoError(t, b.logsExp.ConsumeLogs(t.Context(), prompt("find the bug "+secret)))
			all := stored(t, b.store, "s")
			require.NotEmpty(t, all)
			for _, text := range c.has {
				require.Contains(t, all, text)
			}
			for _, text := range c.lack {
				require.NotContains(t, all, text)
			}
		})
	}
}

// Keys of one's own for session, agent and run, and a source of one's own, in the exporter's settings: records are
// kept, and read, by them. Readers have no such settings.
func TestKeysOfOnesOwn(t *testing.T) {
	conf := confmap.NewFromStringMap(map[string]any{"sources": []any{
		map[string]any{"name": "genai", "keys": map[string]any{"session": "acme.chat", "run": "acme.request",
			"agent_name": []any{"acme.bot"}}},
		map[string]any{"name": "acme", "title": "Acme", "scopes": []any{"acme.*"}, "keys": map[string]any{
			"session": "chat", "input": "in", "output": "out"}, "usage": "includes_cache",
			"roles": []any{map[string]any{"name": "ask", "role": "turn"}}},
	}})
	b := setup(t, nil, func(c *Config) { require.NoError(t, conf.Unmarshal(c)) })
	td := ptrace.NewTraces()
	add := func(scope, name string, id byte, attrs map[string]any) {
		ss := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
		ss.Scope().SetName(scope)
		s := ss.Spans().AppendEmpty()
		s.SetName(name)
		s.SetTraceID(pcommon.TraceID{id})
		s.SetSpanID(pcommon.SpanID{id})
		s.SetStartTimestamp(1_800_000_000e9)
		s.SetEndTimestamp(1_800_000_001e9)
		require.NoError(t, s.Attributes().FromRaw(attrs))
	}
	add("any", "chat", 1, map[string]any{"gen_ai.operation.name": "chat", "acme.chat": "mine", "acme.request": "r-1",
		"acme.bot": "helper", "gen_ai.usage.input_tokens": 9})
	add("acme.core", "ask", 2, map[string]any{"chat": "own", "in": "12", "out": 3.0})
	require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
	tree := func(id string) *session.Run {
		s, err := mapped.Tree(t.Context(), b.store, session.Key{ID: id})
		require.NoError(t, err)
		require.Len(t, s.Runs, 1)
		return s.Runs[0]
	}
	r := tree("mine")
	require.Equal(t, []any{"r-1", "helper", int64(9)}, []any{r.ID, r.Agent, r.Usage.Input})
	r = tree("own")
	require.Equal(t, []any{"acme", int64(12), int64(3)}, []any{r.Dialect, r.Usage.Input, r.Usage.Output})
}
