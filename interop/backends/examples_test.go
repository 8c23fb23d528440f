package backends

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// TestExamplesInJaeger runs examples/service, three processes that call each other over HTTP, on the distribution with
// examples/pipelines/fan-out.yaml as it is, in front of the real Jaeger: there it is one trace from the caller's request to the sub-agent's turn, and in our store one session.
func TestExamplesInJaeger(t *testing.T) {
	otlp, query := startJaeger(t)
	free := addresses(t, 2)
	db := filepath.Join(t.TempDir(), "sessions.db")
	up := exec.Command(distribution(t), "--config", filepath.Join(repository, "examples", "pipelines", "fan-out.yaml"))
	up.Env = append(os.Environ(), "OTLP_GRPC="+free[0], "OTLP_HTTP="+free[1], "OTELAGENT_DB="+db, "JAEGER="+otlp, "METRICS_LEVEL=none")
	serveAt(t, up, free[0])

	service := exec.CommandContext(t.Context(), "go", "run", "./service")
	service.Dir = filepath.Join(repository, "examples")
	service.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+free[0], "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_METRICS_EXPORTER=none")
	if out, err := service.CombinedOutput(); err != nil || string(out) != "Order 17 is on its way since Tuesday. Parcels take three days.\n" {
		t.Fatalf("%v\n%s", err, out)
	}

	want := []string{
		"front: HTTP POST",
		"support: POST /ask",
		"support: session.run support",
		"support: session.turn", "support: session.turn",
		"support: tool.call order_status", "support: tool.call ask_researcher",
		"support: HTTP GET", "orders: GET /orders/{number}",
		"support: HTTP POST", "research: POST /ask",
		"research: session.run researcher", "research: session.turn",
	}
	slices.Sort(want)
	eventually(t, func() error {
		var found struct {
			Data []struct {
				Spans []struct {
					Operation string `json:"operationName"`
					Process   string `json:"processID"`
				}
				Processes map[string]struct{ ServiceName string }
			}
		}
		if err := read(t, http.MethodGet, query+"/api/traces?service=research", nil, &found); err != nil {
			return err
		}
		if len(found.Data) != 1 {
			return fmt.Errorf("%d traces", len(found.Data))
		}
		var got []string
		for _, s := range found.Data[0].Spans {
			got = append(got, found.Data[0].Processes[s.Process].ServiceName+": "+s.Operation)
		}
		slices.Sort(got)
		if diff := gocmp.Diff(want, got); diff != "" {
			return fmt.Errorf("spans of the trace (-want +got):\n%s", diff)
		}
		return nil
	})
	if tree := run(t, "show", "ticket-4711", "--db", db); !strings.Contains(tree, "sub-agent run 2") || !strings.Contains(tree, "2 runs · 3 turns · 2 tool calls") {
		t.Errorf("the session:\n%s", tree)
	}
}
