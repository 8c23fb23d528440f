package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On a terminal a bar shows how much was read.
func TestImportBar(t *testing.T) {
	importHome(t, allSamples)
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminal can be opened here: ", err)
	}
	must(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	must(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(screen) // until nobody has the terminal open
		shown <- string(text)
	}()
	code := run(t.Context(), []string{"import", "--yes"}, strings.NewReader(""), io.Discard, terminal)
	must(t, terminal.Close())
	text := <-shown
	must(t, screen.Close())
	if code != exitOK || !strings.Contains(text, "% |") || !strings.Contains(text, "iB/s)") {
		t.Errorf("exit %d: %q", code, text)
	}
}
