// Command quickstart is a tiny agent loop that is traced with otelagent. Run it while `otelagent up` runs, then look
// at what it did with `otelagent show last`:
//
//	go run ./quickstart
//
// The model and the tool are scripted; everything else is as in a real agent.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	// Spans go to the collector on this machine, or where OTEL_EXPORTER_OTLP_ENDPOINT says.
	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("quickstart"))
	if err != nil {
		return err
	}
	defer func() { // wait for what is still on its way, but not for ever
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if e := errors.Join(providers.Shutdown(ctx), providers.Stats().LastError); e != nil {
			err = errors.Join(err, fmt.Errorf("the spans were not delivered, is `otelagent up` running? %w", e))
		}
	}()

	// Without WithCapture no word of prompts, replies or tool results would leave this process.
	tracer := otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent))
	return chat(ctx, tracer, scriptedModel(), "Which day is it?")
}
