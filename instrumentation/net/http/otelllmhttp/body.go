package otelllmhttp

import (
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

// body is the body of a response. It passes on what is read, and keeps the reply until it is whole.
type body struct {
	io.ReadCloser
	exchange *exchange
	status   int
	again    bool // a client asks again after this status
	streamed bool
	shown    bool // pieces of the reply are

	mu     sync.Mutex
	size   int                // of what is read of the reply
	text   []byte             // one that is not streamed
	stream writer.ReplyReader // one that is
	tried  bool               // the stream went on after what may have been its last event
	over   bool               // the reply was recorded
	first  time.Duration
}

// buffers are the texts of replies that were recorded, for the next ones.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

func newBody(e *exchange, res *http.Response) *body {
	typ := res.Header.Get("Content-Type")
	b := &body{ReadCloser: res.Body, exchange: e, status: res.StatusCode, again: asksAgain(res),
		shown: e.turn.ShowsPartial()}
	b.streamed = b.status < http.StatusMultipleChoices && res.Header.Get("Content-Encoding") == "" &&
		(strings.HasPrefix(typ, "text/event-stream") || strings.HasPrefix(typ, "application/x-ndjson"))
	if !b.streamed {
		b.text = (*buffers.Get().(*[]byte))[:0]
	}
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
	if ended := b.keep(part[:min(len(part), maxBody-b.size)]); ended || err != nil {
		b.finish(err) // clients stop reading after the last event, and some do not close the body
	}
}

// errClosed is the end of a reply that the client did not read to its end.
var errClosed = fmt.Errorf("the client closed the response: %w", context.Canceled)

// keep takes the next part of the reply, and reports whether an event in it may be the last one of a stream. The caller
// holds the lock.
func (b *body) keep(part []byte) (ended bool) {
	b.size += len(part)
	if !b.streamed {
		b.text = append(b.text, part...)
		return false
	}
	b.stream.Write(part, func(event []byte) {
		ended = ended || !b.tried && isLast(event)
		if b.shown {
			kind, text := pieceOf(event)
			b.exchange.turn.Partial(kind, []byte(text))
		}
	})
	return ended
}

// finish records the reply as far as it was read; err is why reading ended. It does nothing where err is nil and the
// reply is not whole. The caller holds the lock.
func (b *body) finish(err error) {
	if err != nil {
		b.stream.End()
	}
	res, problem := b.stream.Reply()
	if !b.streamed {
		res, problem = writer.ParseReply(b.text)
	}
	if err == nil && problem != nil {
		b.tried = true
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
	case b.size == maxBody: // the rest of it is not known
		res.Partial = res.Output != nil
	default:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		fail(b.exchange.ctx, &res, err)
		again, res.Partial = !res.Cancelled, res.Output != nil
		if res.Usage != nil {
			res.Usage.LowerBound = true
		}
	}
	b.exchange.end(res, again)
	if text := b.text; text != nil && cap(text) <= maxPooled {
		buffers.Put(&text)
	}
	b.over, b.text, b.stream = true, nil, writer.ReplyReader{}
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
