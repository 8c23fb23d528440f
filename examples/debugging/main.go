// Command debugging is the agent of docs/inspect.md: its user forbids it to touch one folder, deletes it all the same,
// and what it was sent on that turn shows why. With -keep the bug is mended, and a diff of both sessions shows what
// that changed:
//
//	otelagent up
//	go run ./debugging
//	go run ./debugging -keep
//	otelagent ls
//
// The files, the tools and the loop are real. The model is a program that does what the words in its request say,
// and knows nothing else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// task is what the user asks for.
const task = "Free some disk space in this project. Never touch migrations, whatever it looks like. When you are " +
	"done, run the tests."

func main() {
	log.SetFlags(0)
	keep := flag.Bool("keep", false, "keep what the user said when older messages are replaced by a summary")
	session := flag.String("session", "", "`id` of the session; empty: a new one")
	pace := flag.Duration("pace", 0, "`time` that the model takes, to watch it at work")
	flag.Parse()
	if err := work(context.Background(), *session, *keep, *pace); err != nil {
		log.Fatal(err)
	}
}

func work(ctx context.Context, session string, keep bool, pace time.Duration) (err error) {
	dir, err := project()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := os.OpenRoot(dir) // tools reach nothing outside it
	if err != nil {
		return err
	}
	defer root.Close()

	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("debugging"))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if e := errors.Join(providers.Shutdown(ctx), providers.Stats().LastError); e != nil {
			err = errors.Join(err, fmt.Errorf("the spans were not delivered, is `otelagent up` running? %w", e))
		}
	}()
	a := &agent{
		tracer: otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent)),
		root:   root, session: session, keep: keep, pace: pace, most: 8,
	}
	answer, err := a.run(ctx, task)
	if err != nil {
		return err
	}
	fmt.Println(answer)
	return nil
}

// folders are those of the project: how large each is, and how long ago somebody used it.
var folders = []struct {
	name, file, text string
	days             int
}{
	{"build", "app.o", "an object file", 120},
	{"logs", "2025.log", "old lines of a log", 200},
	{"migrations", "0001_init.sql", "CREATE TABLE orders (id INTEGER PRIMARY KEY);", 430},
	{"src", "main.py", "import migrations", 1},
	{"tmp", "upload.part", "half an upload", 95},
}

// project makes a folder with a small project in it.
func project() (string, error) {
	dir, err := os.MkdirTemp("", "debugging")
	if err != nil {
		return "", err
	}
	for _, f := range folders {
		path := filepath.Join(dir, f.name)
		used := time.Now().AddDate(0, 0, -f.days)
		err := errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, f.file), []byte(f.text), 0o600),
			os.Chtimes(path, used, used))
		if err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, nil
}
