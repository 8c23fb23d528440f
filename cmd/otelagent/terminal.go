package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/otelagent/otelagent/backend/inspect"
)

// look returns how to render on w: its width and colour when it is a terminal, else 80 columns and none. COLUMNS and
// NO_COLOR are honored.
func look(w io.Writer) inspect.Options {
	o := inspect.Options{Width: 80, Location: time.Local, AsOf: time.Now()}
	if isTerminal(w) {
		if n, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && n > 0 {
			o.Width = n
		}
		o.Now = time.Now() // "ago" is for people; files and pipes stay the same
		o.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 40 {
		o.Width = min(n, 1000)
	}
	return o
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(escaper{w})
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// escaper writes JSON with \u escapes in place of the characters on which a terminal acts and that JSON permits: DEL,
// C1 controls, and format characters, which hide or reverse text. One Write has whole characters.
type escaper struct{ w io.Writer }

func (e escaper) Write(b []byte) (int, error) {
	const joiner, byteOrder = 0x200d, 0xfeff // part of emoji and of files, and harmless
	out := make([]byte, 0, len(b))
	for _, r := range string(b) {
		if r < 0x7f || r == joiner || r == byteOrder || r >= 0xa0 && !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, "\\u%04x", u)
		}
	}
	_, err := e.w.Write(out)
	return len(b), err
}

// footer is the last line of a terminal, which is replaced. On anything else it does nothing.
type footer struct {
	w    io.Writer
	text string // the line that is there
}

func newFooter(w io.Writer) *footer {
	if !isTerminal(w) {
		w = nil
	}
	return &footer{w: w}
}

func (f *footer) show(text string) {
	if f.w != nil && text != f.text {
		f.clear()
		f.text = text
		_, _ = io.WriteString(f.w, text)
	}
}

func (f *footer) clear() {
	if f.w != nil && f.text != "" {
		f.text = ""
		_, _ = io.WriteString(f.w, "\r\x1b[K")
	}
}
