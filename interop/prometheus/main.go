// Command prometheus plays the afternoons of package play to an OTLP endpoint, for queries that are asked by hand:
//
//	go run . -endpoint http://127.0.0.1:4317 -afternoons 3
//
// With -move it writes recordings into a folder with their times moved to the last minutes, for `otelagent send`, and
// plays nothing:
//
//	go run . -move DIR RECORDING...
//
// Afternoons end now, one after the other. OTEL_* variables are heard: OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf,
// OTEL_METRICS_EXPORTER=none.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/interop/prometheus/play"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	endpoint := flag.String("endpoint", "http://127.0.0.1:4317", "`URL` of an OTLP receiver")
	afternoons := flag.Int("afternoons", 3, "how many")
	folder := flag.String("move", "",
		"a `folder`, into which the recordings named behind the flags go with their times moved to two minutes ago")
	flag.Parse()
	if *folder != "" {
		if err := move(*folder, flag.Args(), time.Now().Add(-2*time.Minute)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *endpoint, *afternoons); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, endpoint string, afternoons int) error {
	providers, err := otelsetup.Setup(ctx, otelsetup.WithEndpoint(endpoint), otelsetup.WithServiceName("harbour"))
	if err != nil {
		return err
	}
	tracer := otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent),
		func(c *writer.Config) { c.MaxBlockBytes = 64 << 10 })
	now := time.Now()
	for i := range afternoons {
		start := now.Add(-time.Duration(afternoons-i) * play.Duration)
		play.Afternoon(ctx, (*writer.Tracer)(tracer), start.Format("1504"), start)
	}
	if err := providers.Shutdown(ctx); err != nil {
		return err
	}
	fmt.Printf("%+v\n", providers.Stats())
	return nil
}
