package foreign

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

// TestAgentsDocument compares what docs/agents.md says that sources do not report with the table.
func TestAgentsDocument(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/agents.md"))(t)
	_, table, _ := strings.Cut(string(text), "| source | its telemetry never reports |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, s := range Default().sources {
		want = append(want, fmt.Sprintf("| %s | %s |", s.Title, strings.Join(s.Lacks, ", ")))
	}
	if rows := strings.Join(want, "\n"); rows != table {
		t.Errorf("the table of docs/agents.md is\n%s\nand sources.yaml says\n%s", table, rows)
	}
}
