package agentsessionexporter

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
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
	for b, err := range st.Blocks(t.Context(), k, nil) {
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
