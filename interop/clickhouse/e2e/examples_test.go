package e2e

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

// TestPipelineOfTheExamples runs examples/pipelines/clickhouse.yaml as it is, kills it after half of the spans,
// starts it again, and finds what one collector with SQLite makes of them: what it had acknowledged was in its queue
// on disk.
func TestPipelineOfTheExamples(t *testing.T) {
	spans, want := sentToSQLite(t)

	r := start(t)
	dsn := database(r, "examples")
	dir := t.TempDir()
	config := must.Get(filepath.Abs(filepath.Join(repository, "examples", "pipelines", "clickhouse.yaml")))(t)
	c := &collector{t: t, config: config, addr: freeAddress(t), log: filepath.Join(dir, "log")}
	for name, value := range map[string]string{
		"OTELAGENT_DB": dsn, "QUEUE": filepath.Join(dir,
			"queue"), "OTLP_HTTP": c.addr, "OTLP_GRPC": freeAddress(t), "METRICS_LEVEL": "none",
	} {
		t.Setenv(name, value)
	}
	c.start()
	t.Cleanup(c.kill)
	half := len(spans) / 200 * 100
	for i, part := range [][][]byte{spans[:half], spans[half:]} {
		for req := range slices.Chunk(part, 100) {
			must.Do(t, c.post(t.Context(), slices.Concat(req...)))
		}
		if i == 0 {
			c.kill()
			c.start()
		}
	}
	settled(t, dsn, want)
	c.stop()
}
