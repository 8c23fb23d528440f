package otelsetup_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// The warning comes once a process, so its tests run programs: this test binary with programEnv set to one of them.
const (
	programEnv = "OTELSETUP_TEST_PROGRAM"
	addrEnv    = "OTELSETUP_TEST_ADDR"
)

// programs are ways to set up an SDK that are found in the field. Each returns its provider.
var programs = map[string]func(context.Context) (*sdktrace.TracerProvider, error){
	"plain": func(ctx context.Context) (*sdktrace.TracerProvider, error) {
		e, err := transports[0].open(ctx, os.Getenv(addrEnv))
		return sdktrace.NewTracerProvider(sdktrace.WithBatcher(e)), err
	},
	"wrapped": func(ctx context.Context) (*sdktrace.TracerProvider, error) {
		e, err := transports[0].open(ctx, os.Getenv(addrEnv))
		return sdktrace.NewTracerProvider(sdktrace.WithBatcher(otelsetup.WrapExporter(e))), err
	},
	"setup": func(ctx context.Context) (*sdktrace.TracerProvider, error) {
		p, err := otelsetup.Setup(ctx, otelsetup.WithEndpoint(os.Getenv(addrEnv)))
		if err != nil {
			return nil, err
		}
		return p.TracerProvider(), nil
	},
}

// runProgram tells of 20 turns with half a megabyte each and prints what the error handler hears.
func runProgram(name string) int {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { fmt.Println(strings.ReplaceAll(err.Error(), "\n", " ")) }))
	ctx := context.Background()
	p, err := programs[name](ctx)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	tracer := otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithTracerProvider(p))
	ctx, run := tracer.StartRun(ctx, otelagent.RunInfo{SessionID: "s1", ID: "r1"})
	for i := range 20 {
		_, turn := run.StartTurn(ctx, otelagent.TurnInfo{Index: int64(i)})
		turn.AddInput(otelagent.Message{Raw: fmt.Appendf(nil, "%q", body(i, 500_000))})
		turn.End(otelagent.TurnResult{})
	}
	run.End(otelagent.RunResult{})
	if err := p.Shutdown(ctx); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// A program without the wrapper loses the batch, and learns which line mends it; with the line it is silent and nothing is lost.
func TestProgramLearnsOfTheWrapperOnce(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ arrived, warnings, errors int }{
		"plain":   {0, 1, 1},
		"wrapped": {20, 0, 0},
		"setup":   {20, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, addr := startGRPC(t)
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), programEnv+"="+name, addrEnv+"="+addr)
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var warnings, refused int
			for line := range strings.Lines(string(out)) {
				switch {
				case strings.Contains(line, "exporter = otelsetup.WrapExporter(exporter)"):
					warnings++
					t.Log(line)
				case strings.Contains(line, "ResourceExhausted"):
					refused++
				default:
					t.Errorf("the error handler heard %q", line)
				}
			}
			if n := len(r.bodies()); n != want.arrived || warnings != want.warnings || refused != want.errors {
				t.Errorf("%d bodies arrived, %d warnings, %d errors, want %+v", n, warnings, refused, want)
			}
		})
	}
}
