package main

import (
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"

	"github.com/otelagent/otelagent/backend/inspect"
)

// look returns how to render on w: its width and colour when it is a terminal, else 80 columns and none. COLUMNS and
// NO_COLOR are heard.
func look(w io.Writer) inspect.Options {
	o := inspect.Options{Width: 80, Location: time.Local, AsOf: time.Now()}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			o.Width = n
		}
		o.Now = time.Now() // "ago" is for people; what goes into a file or a pipe stays the same
		o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 40 {
		o.Width = min(n, 1000)
	}
	return o
}
