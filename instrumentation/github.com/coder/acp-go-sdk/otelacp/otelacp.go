// Package otelacp traces the connections of programs on github.com/coder/acp-go-sdk, the Go SDK of the Agent Client
// Protocol. A client (an editor, or a program that drives an agent) changes one line:
//
//	conn := otelacp.NewClientSideConnection(tracer, client, stdin, stdout)
//
// and an agent this one:
//
//	conn := otelacp.NewAgentSideConnection(tracer, agent, os.Stdout, os.Stdin)
//
// Each prompt becomes a run of the ACP session that it names. Turns, tool calls, permissions, compactions, usage and
// cost are read from the messages, by the rules of dialect acp (dialects/README.md). The protocol does not carry the
// requests of the agent to its model.
//
// The package reads the bytes that the SDK writes and reads, and changes none. It reads them in the calls of the SDK,
// starts no goroutine, and sends nothing itself. It holds at most 64 MiB of what has not ended, and one line of at most
// 16 MiB each way. A line that the dialect cannot read is passed on, and the first of a connection is reported to the
// error handler of OpenTelemetry, without content.
//
// Trace one side of a connection: two that send to one store record each run twice. An agent whose loop is traced by
// other means needs no connection that is traced. A request that cannot be written ends as one that the other side
// refuses.
package otelacp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"
	"go.opentelemetry.io/otel"

	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	tracing "github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// ScopeName is the name of this instrumentation, its import path.
const ScopeName = "github.com/otelagent/otelagent/instrumentation/github.com/coder/acp-go-sdk/otelacp"

// Version is the version of this module.
const Version = "0.1.0"

// maxLine is the longest line that is traced. The SDK reads none over 10 MiB.
const maxLine = 16 << 20

// A ClientSideConnection is the SDK's, with calls of Prompt that place their runs.
type ClientSideConnection struct {
	*sdk.ClientSideConnection
	wire *wire
}

// NewClientSideConnection is [sdk.NewClientSideConnection] with its messages traced. Tracing ends when peerOutput does,
// or when the SDK gives up: open runs then end as closed by the tracer. With a nil tracer nothing is traced.
func NewClientSideConnection(t *otelagent.Tracer, client sdk.Client, peerInput io.Writer, peerOutput io.Reader,
) *ClientSideConnection {
	w := newWire(t)
	return &ClientSideConnection{sdk.NewClientSideConnection(client, &writer{peerInput, w, line{dir: acp.ToAgent}},
		&reader{peerOutput, w, line{dir: acp.ToClient}}), w}
}

// Prompt is that of the SDK. The run is a child of the span in ctx. In the context of a tool call it is that of a
// sub-agent. Where several prompts of one session are sent at the same time, their contexts may be confused.
func (c *ClientSideConnection) Prompt(ctx context.Context, p sdk.PromptRequest) (sdk.PromptResponse, error) {
	defer c.wire.expect(ctx, string(p.SessionId))()
	defer func() {
		select {
		case <-c.Done(): // the SDK may give up before peerOutput ends
			c.wire.end()
		default:
		}
	}()
	return c.ClientSideConnection.Prompt(ctx, p)
}

// NewAgentSideConnection is [sdk.NewAgentSideConnection] with its messages traced, as those of
// [NewClientSideConnection] are.
func NewAgentSideConnection(t *otelagent.Tracer, agent sdk.Agent, peerInput io.Writer, peerOutput io.Reader,
) *sdk.AgentSideConnection {
	w := newWire(t)
	return sdk.NewAgentSideConnection(agent, &writer{peerInput, w, line{dir: acp.ToClient}},
		&reader{peerOutput, w, line{dir: acp.ToAgent}})
}

// wire reads the messages of one connection, in the order in which they went.
type wire struct {
	mu      sync.Mutex
	dec     *acp.Decoder
	rec     *event.Recorder // nil without a tracer, and after the end
	number  int64           // of the last line
	calls   []*call         // of Prompt whose request was not read yet
	refused bool            // a line was reported
}

// call is a call of Prompt.
type call struct {
	ctx     context.Context
	session string
}

func newWire(t *otelagent.Tracer) *wire {
	if t == nil {
		return &wire{}
	}
	return &wire{dec: acp.NewDecoder(input.Settings{Live: true}), rec: event.NewRecorder(t)}
}

// expect keeps ctx for the prompt of a session whose request is written next, until the returned function is called.
func (w *wire) expect(ctx context.Context, session string) (done func()) {
	c := &call{context.WithoutCancel(ctx), session}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, c)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.forget(c)
	}
}

func (w *wire) forget(c *call) {
	w.calls = slices.DeleteFunc(w.calls, func(x *call) bool { return x == c })
}

// caller returns the context of the call of Prompt that began the run of a session.
func (w *wire) caller(session string) context.Context {
	for _, c := range w.calls {
		if c.session == session {
			w.forget(c)
			return c.ctx
		}
	}
	return context.Background()
}

// line is what was seen of the line that is under way in one direction.
type line struct {
	dir  acp.Direction
	text []byte
	long bool // longer than maxLine; without text
}

// take reads the lines that b ends. Each direction has one caller at a time.
func (w *wire) take(l *line, b []byte) {
	for len(b) > 0 {
		text, more, ends := bytes.Cut(b, []byte{'\n'})
		if l.long = l.long || len(l.text)+len(text) > maxLine; l.long {
			l.text, text = nil, nil
		} else if len(l.text) > 0 || !ends {
			l.text = append(l.text, text...)
			text = l.text
		}
		if !ends {
			return
		}
		if text = bytes.TrimSpace(text); l.long || len(text) > 0 {
			w.message(input.Line{Text: text, Arrived: time.Now(), TooLong: l.long}, l.dir)
		}
		*l, b = line{dir: l.dir}, more
	}
}

// message records what one message says.
func (w *wire) message(l input.Line, dir acp.Direction) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec == nil {
		return
	}
	w.number++
	l.Number = w.number
	w.record(w.dec.Message(l, dir), dir)
}

// record records events. Whatever becomes of tracing, the connection goes on.
func (w *wire) record(events iter.Seq2[event.Event, error], dir acp.Direction) {
	done := false
	defer func() {
		if !done { // a panic, which Guard ends
			w.close()
		}
	}()
	defer tracing.Guard(ScopeName)
	for ev, err := range events {
		if err != nil {
			if !w.refused {
				w.refused = true
				otel.Handle(fmt.Errorf("otelacp: a message is not traced: %w", err))
			}
			continue
		}
		ctx := context.Background()
		if run, ok := ev.(*event.RunStarted); ok && dir == acp.ToAgent {
			ctx = w.caller(run.SessionID)
		}
		w.rec.Record(ctx, ev)
	}
	done = true
}

// end ends what is open: the peer is gone.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rec != nil {
		w.record(w.dec.Rest(), acp.Unknown)
	}
	w.close()
}

// close ends what is open. Later messages are not traced.
func (w *wire) close() {
	defer tracing.Guard(ScopeName)
	rec := w.rec
	if w.dec, w.rec = nil, nil; rec != nil {
		rec.Close(context.Background())
	}
}

// refuse records that a request was not sent: it ends as one that the other side refuses, since no answer comes.
func (w *wire) refuse(text []byte, dir acp.Direction, why error) {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(text, &request) != nil || request.ID == nil || request.Method == "" {
		return
	}
	from := acp.ToAgent
	if dir == from {
		from = acp.ToClient
	}
	answer, _ := json.Marshal(map[string]any{"id": request.ID, "error": map[string]string{"message": why.Error()}})
	w.message(input.Line{Text: answer, Arrived: time.Now()}, from)
}

// errPanicked stands for the error of a call that panics.
var errPanicked = errors.New("the connection panicked")

// writer and reader show every piece to the wire before the other side sees it, so that no answer is seen before what
// it answers.
type writer struct {
	to   io.Writer
	wire *wire
	line line
}

func (w *writer) Write(p []byte) (_ int, err error) {
	w.wire.take(&w.line, p)
	err = errPanicked
	defer func() {
		if err != nil {
			w.wire.refuse(p, w.line.dir, err)
		}
	}()
	return w.to.Write(p)
}

type reader struct {
	from io.Reader
	wire *wire
	line line
}

func (r *reader) Read(p []byte) (n int, err error) {
	err = errPanicked
	defer func() {
		r.wire.take(&r.line, p[:max(n, 0)])
		if err != nil {
			r.wire.end()
		}
	}()
	return r.from.Read(p)
}
