package otelllmhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
)

// body is the body of a response. It passes on what is read, and keeps the reply until it is whole.
type body struct {
	io.ReadCloser
	exchange *exchange
	status   int
	again    bool // a client asks again after this status
	streamed bool
	lines    bool // of JSON, if it is streamed
	shown    bool // pieces of the reply are
	refused  bool // the failure by the status was recorded

	mu     sync.Mutex
	size   int                // of what is read of the reply
	text   chunks             // one that is not streamed
	stream writer.ReplyReader // one that is
	over   bool               // the reply was recorded
	stop   func() bool        // waiting for the end of the request's context
	first  time.Duration
}

func newBody(e *exchange, res *http.Response) *body {
	typ := res.Header.Get("Content-Type")
	b := &body{ReadCloser: res.Body, exchange: e, status: res.StatusCode, again: asksAgain(res),
		lines: strings.HasPrefix(typ, "application/x-ndjson"), shown: e.turn.ShowsPartial()}
	b.streamed = b.status < http.StatusMultipleChoices && res.Header.Get("Content-Encoding") == "" &&
		(b.lines || strings.HasPrefix(typ, "text/event-stream"))
	if b.refused = b.status >= http.StatusMultipleChoices && b.again; b.refused { // the client may not read the body
		e.end(writer.TurnResult{Failed: true, Error: b.statusText()}, true)
	}
	b.mu.Lock() // until stop is there
	defer b.mu.Unlock()
	// Some clients neither read nor close the response of a request that they cancelled.
	b.stop = context.AfterFunc(e.ctx, func() { b.took(nil, e.ctx.Err()) })
	return b
}

func (b *body) statusText() string { return fmt.Sprintf("HTTP status %d", b.status) }

// asksAgain reports whether clients repeat a request with this response, here or elsewhere.
func asksAgain(res *http.Response) bool {
	switch res.Header.Get("X-Should-Retry") {
	case "true":
		return true
	case "false":
		return false
	}
	switch res.StatusCode {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return res.StatusCode >= 500 || res.StatusCode/100 == 3
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.took(p[:n], err)
	return n, err
}

func (b *body) Close() error {
	b.took(nil, errClosed)
	return b.ReadCloser.Close()
}

// took takes the next part of the reply, and why there is no more.
func (b *body) took(part []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer writer.Guard(ScopeName)
	if b.over {
		return
	}
	if b.first == 0 && len(part) > 0 && b.streamed {
		b.first = time.Since(b.exchange.sent)
	}
	b.keep(part[:min(len(part), maxBody-b.size)])
	if err != nil || b.stream.Ended() {
		b.finish(err) // clients stop reading after the last event, and some do not close the body
	}
}

// errClosed is the end of a reply that the client did not read to its end.
var errClosed = fmt.Errorf("the client closed the response: %w", context.Canceled)

// keep takes the next part of the reply. The caller holds the lock.
func (b *body) keep(part []byte) {
	if b.streamed && !b.lines && b.size == 0 { // some servers call JSON an event stream
		start := bytes.TrimLeft(part, " \r\n\t\uFEFF")
		if len(start) == 0 {
			return
		}
		b.streamed = start[0] != '{' && start[0] != '['
	}
	b.size += len(part)
	if !b.streamed {
		b.text.add(part)
		return
	}
	b.stream.Write(part, func(event []byte) {
		if b.shown {
			kind, text := pieceOf(event)
			b.exchange.turn.Partial(kind, []byte(text))
		}
	})
}

// finish records the reply as far as it was read; err is why reading ended, nil at the last event of a stream. The
// caller holds the lock.
func (b *body) finish(err error) {
	b.over = true
	var res writer.TurnResult
	var problem error
	if b.streamed {
		b.stream.End()
		res, problem = b.stream.Reply()
	} else {
		res, problem = writer.ParseReply(b.text.join())
	}
	cut := errors.Is(problem, io.ErrUnexpectedEOF)
	ended := err == nil || errors.Is(err, io.EOF)
	res.FirstChunk = b.first
	again := b.again
	switch {
	case b.status >= http.StatusMultipleChoices:
		if !res.Failed || res.Error == "" {
			res.Error = b.statusText()
		}
		res.Failed = true
	case problem == nil, !cut && ended:
		// The reply is whole, an error in a stream, or of no form that is known.
	case b.size == maxBody: // the rest of it is not known
		res.Partial = res.Output != nil
	default:
		if ended {
			err = io.ErrUnexpectedEOF
		}
		fail(b.exchange.ctx, &res, err)
		again, res.Partial = !res.Cancelled, res.Output != nil
		if res.Usage != nil {
			res.Usage.LowerBound = true
		}
	}
	b.stop()
	if b.refused {
		b.exchange.explain(res)
	} else {
		b.exchange.end(res, again)
	}
	b.text.release()
	b.stream = writer.ReplyReader{}
}

// fail makes res that of an attempt that ended with err. A URL in err, which may have a key, is left out.
func fail(ctx context.Context, res *writer.TurnResult, err error) {
	var in *url.Error
	if errors.As(err, &in) && in.Err != nil {
		err = in.Err
	}
	res.Failed, res.Error = true, err.Error()
	res.Cancelled = errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled)
}

// chunks is a text that takes the memory of its bytes while it grows, and at most that of one chunk more.
type chunks [][]byte

// spare are chunks for the next texts.
var spare = sync.Pool{New: func() any { return new([16 << 10]byte) }}

func (c *chunks) add(part []byte) {
	for len(part) > 0 {
		last := len(*c) - 1
		if last < 0 || len((*c)[last]) == cap((*c)[last]) {
			*c = append(*c, spare.Get().(*[16 << 10]byte)[:0])
			last++
		}
		to := &(*c)[last]
		n := min(len(part), cap(*to)-len(*to))
		*to, part = append(*to, part[:n]...), part[n:]
	}
}

// join returns the text, which is valid until release.
func (c *chunks) join() []byte {
	if len(*c) == 1 {
		return (*c)[0]
	}
	text := slices.Concat(*c...)
	c.release()
	return text
}

func (c *chunks) release() {
	for _, chunk := range *c {
		spare.Put((*[16 << 10]byte)(chunk[:cap(chunk)]))
	}
	*c = nil
}
