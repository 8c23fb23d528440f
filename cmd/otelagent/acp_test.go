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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/otelagent/otelagent/dialects/acp"
)

// between runs `otelagent acp` with this test's program as the agent, and returns what the editor writes to, what it
// reads from, and the
// exit code when it is over.
func between(t *testing.T, flags []string, agent ...string) (toAgent io.WriteCloser, fromAgent io.ReadCloser,
	stderr *bytes.Buffer, code chan int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(testAgent, "1")
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
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
			part = append([]byte(`{"jsonrpc":"2.0","method":"session/prompt","id":1,"params":{"sessionId":"s","prompt":[]}}`), '\n')
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
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

// TestWireTapCountsPieces: bytes that come one by one cost more than bytes.
func TestWireTapCountsPieces(t *testing.T) {
	tap := &wireTap{arrived: make(chan struct{}, 1), done: make(chan struct{})}
	const sent = tapQueue / tapPiece * 2
	for range sent {
		tap.take(acp.ToClient, []byte("x"))
	}
	pieces, _ := tap.next()
	tap.take(acp.ToClient, []byte("x"))
	rest, _ := tap.next()
	if held, lost := len(pieces), rest[0].lost; held > tapQueue/tapPiece || int64(held)+lost != sent {
		t.Errorf("%d pieces are held and %d were lost, of %d", held, lost, sent)
	}
}

// TestLastWords reads on behind the end of an agent: what it left behind, whenever that is asked for, and what its
// children write, for a
// while.
func TestLastWords(t *testing.T) {
	const rest = 300 * time.Millisecond
	for name, every := range map[string]time.Duration{"children that write now and then": 20 * time.Millisecond,
		"without a break": 0} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.WriteString(w, "left behind"); err != nil {
				t.Fatal(err)
			}
			var exited atomic.Bool
			exited.Store(true)
			l := &lastWords{f: r, exited: &exited, rest: rest}
			first := make([]byte, 4)
			if _, err := io.ReadFull(l, first); err != nil {
				t.Fatal(err)
			}
			time.Sleep(rest * 2) // the editor is slow
			left := make([]byte, 7)
			if _, err := io.ReadFull(l, left); err != nil || string(first)+string(left) != "left behind" {
				t.Fatalf("%q%q, %v", first, left, err)
			}
			written := make(chan struct{})
			go func() {
				defer close(written)
				for piece := bytes.Repeat([]byte("x"), 4096); ; time.Sleep(every) {
					if _, err := w.Write(piece); err != nil {
						return
					}
				}
			}()
			start := time.Now()
			if _, err := io.Copy(io.Discard, l); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("children were heard for %v", took)
			}
			_ = r.Close()
			<-written
		})
	}
}

// TestACPEndsWhenTold ends although nobody reads what the agent said.
func TestACPEndsWhenTold(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: waits for the editor for seconds")
	}
	_, out, _, code := between(t, []string{"--db", filepath.Join(t.TempDir(), "s.db")}, "flood")
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond) // until all pipes are full
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case c := <-code:
		if c != 128+int(syscall.SIGTERM) {
			t.Errorf("exit %d, want 143", c)
		}
	case <-time.After(4 * acpRestTime):
		t.Error("it waits for a reader")
	}
}

// TestWireTapNeverWaits fills the queue while nobody reads it, and finds out how much did not fit.
func TestWireTapNeverWaits(t *testing.T) {
	tap := &wireTap{arrived: make(chan struct{}, 1), done: make(chan struct{})}
	big := make([]byte, 1<<20)
	const more = 5
	fit := tapQueue / (len(big) + tapPiece)
	for range fit + more {
		tap.take(acp.ToAgent, big)
	}
	if pieces, _ := tap.next(); len(pieces) != fit {
		t.Errorf("%d pieces are held, want %d", len(pieces), fit)
	}
	tap.take(acp.ToAgent, []byte("\n{}\n"))
	pieces, _ := tap.next()
	if len(pieces) != 1 || pieces[0].lost != more<<20 {
		t.Errorf("lost %d bytes, want %d", pieces[0].lost, more<<20)
	}
	var c cutter
	var lines []string
	c.take(pieces[0], func(line []byte, _ bool) { lines = append(lines, string(line)) })
	if len(lines) != 1 || lines[0] != "{}" {
		t.Errorf("after a gap the lines are %q, want those that are whole", lines)
	}
}

func TestCutter(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := []byte("one\r\n\n  two  \n" + strings.Repeat("x", tapLine+1) + "\nthree\nrest")
	var c cutter
	var got []string
	for len(text) > 0 {
		n := min(len(text), 1+random.IntN(100_000))
		c.take(piece{b: text[:n]}, func(line []byte, long bool) {
			if long {
				line = []byte("(long)")
			}
			got = append(got, string(line))
		})
		text = text[n:]
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
