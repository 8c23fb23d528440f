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
	if code != 0 {
		keepAll()
	}
	closeAll()
	os.Exit(code)
}

var rings struct {
	mu   sync.Mutex
	open map[string]*ring.Ring
}

// start returns the ring of that name, which the tests share one after the other: each takes databases of its own and leaves
// every server running.
func start(t *testing.T, name string) *ring.Ring {
	t.Helper()
	rings.mu.Lock()
	defer rings.mu.Unlock()
	if r := rings.open[name]; r != nil {
		return r
	}
	r, err := ring.Start(context.Background(), name, ring.Config{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	if rings.open == nil {
		rings.open = map[string]*ring.Ring{}
	}
	rings.open[name] = r
	return r
}

func keepAll() {
	for _, r := range rings.open {
		r.Keep()
		println("logs of", r.Name, "are in", r.Folder)
	}
}

func closeAll() {
	for _, r := range rings.open {
		r.Close()
	}
}
