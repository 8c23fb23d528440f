//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/spans"
)

// between runs `otelagent acp` with this test's program as the agent, and returns what the editor writes to, what it
// reads from, and the exit code when it is over.
func between(t *testing.T, flags []string, agent ...string) (toAgent io.WriteCloser, fromAgent io.ReadCloser,
	stderr *bytes.Buffer, code chan int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	t.Setenv(testAgent, "1")
	inR, inW, err := os.Pipe()
	must(t, err)
	outR, outW, err := os.Pipe()
	must(t, err)
	stderr, code = &bytes.Buffer{}, make(chan int, 1)
	args := append(append([]string{"acp"}, flags...), "--", self)
	go func() {
		c := run(t.Context(), append(args, agent...), inR, outW, stderr)
		code <- c
	}()
	t.Cleanup(func() {
		_, _, _ = inW.Close(), outR.Close(), inR.Close()
	})
	return inW, outR, stderr, code
}

// TestACPPassesEveryByte sends random bytes through both ways, some of them lines, in pieces of any size.
func TestACPPassesEveryByte(t *testing.T) {
	in, out, stderr, code := between(t, []string{"--db", filepath.Join(t.TempDir(), "s.db"), "--verbose"}, "echo")
	random := rand.New(rand.NewPCG(1, 2))
	var sent []byte
	for len(sent) < 4<<20 {
		part := make([]byte, random.IntN(100_000))
		for i := range part {
			part[i] = byte(random.Uint32())
		}
		if random.IntN(4) == 0 {
			part = append(
				[]byte(`{"jsonrpc":"2.0","method":"session/prompt","id":1,"params":{"sessionId":"s","prompt":[]}}`),
				'\n',
			)
		}
		sent = append(sent, part...)
	}
	go func() {
		for rest := sent; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(70_000))
			if _, err := in.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		_ = in.Close()
	}()
	got, err := io.ReadAll(out)
	must(t, err)
	if !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes came back of %d, or others", len(got), len(sent))
	}
	if c := <-code; c != 0 {
		t.Errorf("exit %d: %s", c, stderr)
	}
	if !strings.Contains(stderr.String(), "lines could not be read") {
		t.Errorf("standard error: %q", stderr)
	}
}

// TestACPPassesAtOnce sends pieces of a line, each only after the one before came back.
func TestACPPassesAtOnce(t *testing.T) {
	in, out, _, code := between(t, []string{"--endpoint", "http://127.0.0.1:1"}, "echo")
	for _, part := range []string{"{", `"json`, "\n", "\x00\xff", "rpc\":"} {
		if _, err := io.WriteString(in, part); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(part))
		if _, err := io.ReadFull(out, got); err != nil || string(got) != part {
			t.Fatalf("%q came back as %q: %v", part, got, err)
		}
	}
	_ = in.Close()
	if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil {
		t.Errorf("%q and %v came after the end", rest, err)
	}
	if c := <-code; c != 0 {
		t.Errorf("exit %d", c)
	}
}

// TestACPSignals passes a signal on to the agent, and its exit code back.
func TestACPSignals(t *testing.T) {
	_, out, _, code := between(t, []string{"--db", filepath.Join(t.TempDir(), "s.db")}, "wait")
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	must(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
	if c := <-code; c != 42 {
		t.Errorf("exit %d, want 42", c)
	}
}

// TestACPAgentIsKilled checks that the exit code names the signal that ended the agent.
func TestACPAgentIsKilled(t *testing.T) {
	_, _, _, code := between(t, []string{"--db", filepath.Join(t.TempDir(), "s.db")}, "kill")
	if c := <-code; c != 128+int(syscall.SIGKILL) {
		t.Errorf("exit %d, want 137", c)
	}
}

// TestACPEndsOnSignal ends although nobody reads what the agent said.
func TestACPEndsOnSignal(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for the editor for seconds")
	}
	_, out, _, code := between(t, []string{"--db", filepath.Join(t.TempDir(), "s.db")}, "flood")
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // until all pipes are full
	must(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
	select {
	case c := <-code:
		if c != 128+int(syscall.SIGTERM) {
			t.Errorf("exit %d, want 143", c)
		}
	case <-time.After(4 * acpRestTime):
		t.Error("it waits for a reader")
	}
}

// TestWireTapNeverWaits fills the queue while nobody reads it, with long lines and with short ones, and finds out how
// much did not fit.
func TestWireTapNeverWaits(t *testing.T) {
	for _, n := range []int{1 << 20, 1} {
		tap := newWireTap()
		line := append(bytes.Repeat([]byte("x"), n), '\n')
		fit, more := tapQueue/(n+tapCost), 5
		for range fit + more {
			tap.take(acp.ToAgent, line)
		}
		if lost := tap.lost[acp.ToAgent].Load(); len(tap.lines) != fit || lost != int64(more*n) {
			t.Errorf("%d lines of %d bytes are held and %d bytes lost, want %d and %d", len(tap.lines), n, lost, fit, more*n)
		}
		tap.lines <- nil
		defects := 0
		for ev, _ := range tap.events(acp.NewDecoder()) {
			if d, ok := ev.(*event.DefectFound); ok && d.Code == spans.DefectEventLost {
				defects++
			}
		}
		tap.take(acp.ToAgent, []byte("{}\n"))
		if len(tap.lines) != 1 || defects != 1 || tap.dropped != int64(more*n) || tap.lost[acp.ToAgent].Load() != 0 {
			t.Errorf("then %d lines, %d defects of %d bytes", len(tap.lines), defects, tap.dropped)
		}
	}
}

// TestWireTapWithoutDelivery: no line waits for a trace that does not begin, also while one is being taken.
func TestWireTapWithoutDelivery(t *testing.T) {
	tap := newWireTap()
	tap.queued.Add(tapCost) // of a line that has no room, before it is taken back
	tap.trace(t.Context(), &app{stderr: io.Discard}, &sendOptions{Endpoint: "no URL"})
	tap.queued.Add(-tapCost)
	tap.take(acp.ToAgent, []byte("{}\n"))
	if tap.err == nil || len(tap.lines) != 0 {
		t.Errorf("%d lines wait: %v", len(tap.lines), tap.err)
	}
}

func TestWireTapCutsLines(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := []byte("one\r\n\n  two  \n" + strings.Repeat("x", tapLine+1) + "\nthree\nrest")
	tap := newWireTap()
	for len(text) > 0 {
		n := min(len(text), 1+random.IntN(100_000))
		tap.take(acp.ToAgent, text[:n])
		text = text[n:]
	}
	var got []string
	close(tap.lines)
	for l := range tap.lines {
		if l.TooLong {
			l.Text = []byte("(long)")
		}
		got = append(got, string(l.Text))
	}
	if want := "one two (long) three"; strings.Join(got, " ") != want {
		t.Errorf("lines %q, want %s", got, want)
	}
}

// TestACPEndsWithTheAgent does not wait for the editor to end what it says.
func TestACPEndsWithTheAgent(t *testing.T) {
	in, out, _, code := between(t, []string{"--db", filepath.Join(t.TempDir(), "s.db")}, "exit")
	if c := <-code; c != 7 {
		t.Errorf("exit %d, want 7", c)
	}
	if _, err := io.ReadAll(out); err != nil {
		t.Error(err)
	}
	if _, err := in.Write([]byte("x")); err != nil && !errors.Is(err, syscall.EPIPE) {
		t.Error(err)
	}
}
