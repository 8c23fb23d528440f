package otelagent

import (
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/otelagent/otelagent/spans"
)

// When blocks are sent once more: after echoTurns turns, or when echoBytes have come together, a stretch is closed; it goes
// out echoDelay turns later, so that a loss of fewer turns than that in a row takes only one of the two copies.
const (
	echoTurns   = 16
	echoDelay   = 11
	echoBytes   = 256 << 10
	echoPending = 8 << 20
)

// echo is what is to be sent once more.
type echo struct {
	turns   int64 // turns that ended
	since   int64 // turns when the stretch was begun
	stretch []byte
	pending []stretch
	bytes   int // of pending
}

// stretch is a closed one: a zstd frame, and from which turn on it goes out.
type stretch struct {
	frame []byte
	due   int64
}

// echoEncoder compresses stretches. EncodeAll of one encoder may be called concurrently.
var echoEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // options that do not fit together: a test would see it
	}
	return e
})

// add takes a block that is being sent for the first time.
func (e *echo) add(text string, recipe bool) {
	if len(e.stretch) == 0 {
		e.since = e.turns
	}
	e.stretch = spans.AppendEcho(e.stretch, text, recipe)
	if len(e.stretch) >= echoBytes {
		e.close()
	}
}

// close compresses the stretch.
func (e *echo) close() {
	if len(e.stretch) == 0 {
		return
	}
	frame := echoEncoder().EncodeAll(e.stretch, nil)
	e.pending = append(e.pending, stretch{frame, e.turns + echoDelay})
	e.bytes += len(frame)
	if e.stretch = e.stretch[:0]; cap(e.stretch) > 2*echoBytes {
		e.stretch = nil
	}
}

// turnEnded counts a turn and returns the stretches that are to go out with it.
func (e *echo) turnEnded() [][]byte {
	e.turns++
	if len(e.stretch) > 0 && e.turns-e.since >= echoTurns {
		e.close()
	}
	return e.take(e.turns)
}

// runEnded returns all that is left at the end of a run of that many turns. Short runs leave it to those after them, unless the
// run is the last that is of use.
func (e *echo) runEnded(turns int64, last bool) [][]byte {
	if turns < echoTurns && !last {
		return nil
	}
	e.close()
	return e.take(e.turns + echoDelay)
}

// take returns the stretches that are due, and those beyond what may wait.
func (e *echo) take(now int64) (frames [][]byte) {
	n := 0
	for _, s := range e.pending {
		if s.due > now && e.bytes <= echoPending {
			break
		}
		frames = append(frames, s.frame)
		e.bytes -= len(s.frame)
		n++
	}
	e.pending = append(e.pending[:0:0], e.pending[n:]...)
	return frames
}
