package e2e

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/otelagent/otelagent/interop/clickhouse/ring"
)

// home is interop/clickhouse, repository the whole project.
const (
	home       = ".."
	repository = "../../.."
)

func TestMain(m *testing.M) {
	code := m.Run()
	if r := engine.ring; r != nil {
		if code != 0 {
			r.Keep()
			println("logs are in", r.Folder)
		}
		r.Close()
	}
	os.Exit(code)
}

var engine struct {
	mu   sync.Mutex
	ring *ring.Ring
}

// start returns the engine, which the tests share one after the other: each takes databases of its own and keeps it
// running.
func start(t *testing.T) *ring.Ring {
	t.Helper()
	engine.mu.Lock()
	defer engine.mu.Unlock()
	if engine.ring == nil {
		r, err := ring.Start(context.Background(), home)
		if err != nil {
			t.Fatal(err)
		}
		engine.ring = r
	}
	return engine.ring
}
