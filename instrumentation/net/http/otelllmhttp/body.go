package otelllmhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
)

// body is the body of a response. It passes on what is read, and keeps a copy until the reply is there.
type body struct {
	io.ReadCloser
	exchange *exchange
	status   int
	again    bool // a client asks again after this status
	streamed bool
	shown    bool // pieces of the reply are

	mu    sync.Mutex
	text  []byte
	over  bool // the reply was recorded, and text is nil
	read  int  // bytes of text whose pieces were recorded
	first time.Duration
}

// buffers are the texts of replies that were recorded, for the next ones.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func newBody(e *exchange, res *http.Response) *body {
	typ := res.Header.Get("Content-Type")
	b := &body{ReadCloser: res.Body, exchange: e, status: res.StatusCode, again: asksAgain(res),
		streamed: strings.HasPrefix(typ, "text/event-stream") || strings.HasPrefix(typ, "application/x-ndjson"),
		shown:    e.turn.ShowsPartial(), text: (*buffers.Get().(*[]byte))[:0]}
	if b.status >= http.StatusMultipleChoices && b.again { // which the client may do without reading the body
		e.end(writer.TurnResult{Failed: true, Error: b.statusText()}, true)
	}
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return n, err
	}
	if b.first == 0 && n > 0 && b.streamed {
		b.first = time.Since(b.exchange.sent)
	}
	b.text = append(b.text, p[:min(n, maxBody-len(b.text))]...)
	if ended := b.streamed && b.events(); ended || err != nil {
		b.finish(err) // clients stop reading after the last event, and some do not close the body
	}
	return n, err
}

func (b *body) Close() error {
	b.mu.Lock()
	if !b.over {
		b.finish(errClosed)
	}
	b.mu.Unlock()
	return b.ReadCloser.Close()
}

// errClosed is the end of a reply that the client did not read to its end.
var errClosed = fmt.Errorf("the client closed the response: %w", context.Canceled)

// events records the pieces of the reply in the lines that came since it was called last, and reports whether one of
// them may be the end of a stream. The caller holds the lock.
func (b *body) events() (ended bool) {
	for {
		line, _, whole := bytes.Cut(b.text[b.read:], []byte("\n"))
		if !whole {
			return ended
		}
		b.read += len(line) + 1
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok || bytes.HasPrefix(line, []byte("{")) {
			data = bytes.TrimSpace(data)
			ended = ended || isLast(data)
			if b.shown {
				kind, text := pieceOf(data)
				b.exchange.turn.Partial(kind, []byte(text))
			}
		}
	}
}

// finish records the reply as far as it was read; err is why reading ended. It does nothing where err is nil and the
// reply is not whole. The caller holds the lock.
func (b *body) finish(err error) {
	res, problem := writer.ParseReply(b.text)
	if err == nil && problem != nil {
		b.streamed = false // it is read once more, at its end
		return
	}
	cut := errors.Is(problem, io.ErrUnexpectedEOF)
	res.FirstChunk = b.first
	again := b.again
	switch {
	case b.status >= http.StatusMultipleChoices:
		if !res.Failed || res.Error == "" {
			res.Error = b.statusText()
		}
		res.Failed = true
	case problem == nil, !cut && errors.Is(err, io.EOF):
		// The reply is whole, an error in a stream, or of no form that is known.
	case len(b.text) == maxBody: // the rest of it is not known
	default:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		fail(&res, b.exchange.ctx, err)
		again, res.Partial = !res.Cancelled, res.Output != nil
		if res.Usage != nil {
			res.Usage.LowerBound = true
		}
	}
	b.exchange.end(res, again)
	if text := b.text; cap(text) <= maxPooled {
		buffers.Put(&text)
	}
	b.over, b.text = true, nil
}

// fail makes res that of an attempt that ended with err. A URL in err, which may have a key, is left out.
func fail(res *writer.TurnResult, ctx context.Context, err error) {
	var in *url.Error
	if errors.As(err, &in) && in.Err != nil {
		err = in.Err
	}
	res.Failed, res.Error = true, err.Error()
	res.Cancelled = errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled)
}
