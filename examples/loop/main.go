// Command loop is an agent that works on the files of a folder: a real loop with real tools, permission rules,
// compaction and a sub-agent, traced with otelagent by its handles alone. The model is any endpoint that speaks
// OpenAI's chat completions; without one a script plays it:
//
//	otelagent up
//	go run ./loop
//	go run ./loop -endpoint http://127.0.0.1:11434/v1 -model qwen3 -dir ~/notes "What did I write about spring?"
//	otelagent show last
//
// A key for the endpoint is taken from OPENAI_API_KEY.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	log.SetFlags(0)
	endpoint := flag.String("endpoint", "", "`URL` of an endpoint for chat completions, up to /v1; empty: a script "+
		"plays the model")
	model := flag.String("model", "scripted-1", "`name` of the model")
	dir := flag.String("dir", "", "`folder` to work on; empty: a new one with a note in it")
	flag.Parse()
	question := "Which of my notes need work? Mark them."
	if flag.NArg() > 0 {
		question = flag.Arg(0)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx, *endpoint, *model, *dir, question); err != nil {
		stop()
		log.Fatal(err)
	}
}

func work(ctx context.Context, endpoint, model, dir, question string) (err error) {
	if dir == "" {
		if dir, err = sampleFolder(); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	root, err := os.OpenRoot(dir) // tools reach nothing outside it
	if err != nil {
		return err
	}
	defer root.Close()
	if endpoint == "" {
		server := httptest.NewServer(scripted())
		defer server.Close()
		endpoint = server.URL + "/v1"
	}

	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("loop"))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if e := errors.Join(providers.Shutdown(ctx), providers.Stats().LastError); e != nil {
			err = errors.Join(err, fmt.Errorf("the spans were not delivered, is `otelagent up` running? %w", e))
		}
	}()
	a := &agent{
		role:   keeper,
		tracer: otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent)),
		client: client{endpoint: endpoint, key: os.Getenv("OPENAI_API_KEY")},
		model:  model, root: root, rules: defaultRules, most: 8,
	}
	answer, err := a.run(ctx, question)
	if err != nil {
		return err
	}
	fmt.Println(answer)
	return nil
}

// sampleFolder makes a folder with notes.
func sampleFolder() (string, error) {
	dir, err := os.MkdirTemp("", "loop")
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"spring.md": "# Spring\n\nOpen: when do the swallows come?\n",
		"autumn.md": "# Autumn\n\nThe cranes leave in October.\n",
		".secrets":  "nothing that a model should read\n",
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}
