package export

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// longSession is a session whose bodies are made when they are asked for.
type longSession struct {
	*session.Session
	made   map[spans.ShortID]int32 // which body it is
	loads  int
	loaded int64
}

const longBody = 10 << 10

// body returns a message of about 10 KB: even ones are a user's, odd ones replies.
func (l *longSession) body(i int32) string {
	text := strings.Repeat(fmt.Sprintf("%x ", sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)})), longBody/65)
	if i%2 == 0 {
		return fmt.Sprintf(`{"content":[{"text":"%d %s","type":"text"}],"role":"user"}`, i, text)
	}
	return fmt.Sprintf(`{"content":[{"text":"%d %s","type":"text"},{"arguments":{"n":%[1]d},"id":"c%[1]d","name":"f",`+
		`"type":"toolCall"}],"role":"assistant"}`, i, text)
}

func (l *longSession) Load(_ context.Context, ids []spans.ShortID, least int) (*session.BlockSet, int, error) {
	const most = 4 << 20
	l.loads++
	set := &session.BlockSet{}
	n, size := 0, 0
	for n < len(ids) && (n < least || size < most) {
		if i, ok := l.made[ids[n]]; ok {
			body := l.body(i)
			size += len(body)
			set.Add(session.Block{Body: body})
		}
		n++
	}
	l.loaded += int64(size)
	return set, n, nil
}

func newLongSession(turns int) *longSession {
	l := &longSession{Session: &session.Session{ID: "long", Start: ms(0), Last: ms(int64(turns) * 10)},
		made: map[spans.ShortID]int32{}}
	ref := func(i int) *session.Refs {
		short := spans.BlockOfString(l.body(int32(i))).Short()
		l.made[short] = int32(i)
		return session.NewRefs(session.Ref{Block: short.String()})
	}
	var run *session.Run
	for i := range turns {
		at := int64(i) * 10
		if i%100 == 0 {
			run = &session.Run{Span: observed(at, at+1000), ID: fmt.Sprint("r", i), Status: spans.RunStatusCompleted}
			l.Runs = append(l.Runs, run)
		}
		t := &session.Turn{Span: observed(at, at+9), Index: int64(i % 100), Usage: session.Usage{Input: 1},
			Output: ref(2*i + 1)}
		if i%10 == 0 {
			t.Input = ref(2 * i)
		} else {
			ref(2 * i)
		}
		run.Turns = append(run.Turns, t)
		run.Usage.Input++
	}
	l.Usage.Input = int64(turns)
	return l
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Memory does not grow with the session but for what its tree takes, and what Guide says a turn takes: ten times the
// turns, 110 MB more
// content, a few MB more.
func TestGuideMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it writes hundreds of megabytes")
	}
	peak := func(turns int) int64 {
		l := newLongSession(turns)
		before := liveHeap()
		most := int64(0)
		var size countingWriter
		_, err := JSON(t.Context(), &size, l.Session, l, Options{Progress: func(done, _ int) {
			if done%(turns/50) == 0 {
				most = max(most, liveHeap()-before)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		content := int64(turns) * longBody
		if int64(size) < content {
			t.Errorf("%d turns: %d bytes written, want more than %d", turns, size, content)
		}
		if l.loaded > 5*content {
			t.Errorf("%d turns: %d bytes loaded in %d stretches, of %d", turns, l.loaded, l.loads, content)
		}
		t.Logf("%d turns: %d KB live at most, %d MB written, %d MB loaded in %d stretches", turns, most>>10, size>>20,
			l.loaded>>20, l.loads)
		runtime.KeepAlive(l)
		return most
	}
	small, large := peak(1000), peak(10_000)
	if large > 24<<20 || large-small > 8<<20 {
		t.Errorf("live heap: %d KB with 1,000 turns, %d KB with 10,000", small>>10, large>>10)
	}
}

type countingWriter int64

func (w *countingWriter) Write(b []byte) (int, error) {
	*w += countingWriter(len(b))
	return len(b), nil
}

var _ io.Writer = (*countingWriter)(nil)
