// Package copilottest plays the Copilot runtime in tests: a server on loopback that speaks the JSON-RPC of the SDK's
// real client, and does on each message of a user what a script says.
//
//	r, err := copilottest.Start(func(p *copilottest.Prompt) {
//		p.Says("", "user.message", copilottest.Data{"content": p.Text})
//		p.Says("", "session.idle", copilottest.Data{})
//	})
//	client := copilot.NewClient(&copilot.ClientOptions{Connection: copilot.URIConnection{URL: r.URL}})
//
// It serves one client.
package copilottest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"sync"
	"time"

	copilot "github.com/github/copilot-sdk/go"
)

// Runtime is a server. Safe for concurrent use.
type Runtime struct {
	// URL is what the client connects to.
	URL string

	script   func(*Prompt)
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup

	write sync.Mutex

	mu      sync.Mutex
	conn    net.Conn
	next    int
	answers map[string]chan struct{}        // of the runtime's requests, by id
	replies map[string]*reply               // of model calls, by request id
	decided map[string]chan json.RawMessage // of permissions and tools, by request id
	aborts  map[string]context.CancelFunc   // of prompts, by session
}

// reply is that of a model call. Its end closes chunks.
type reply struct {
	chunks chan string
	failed bool
}

// Prompt is one message of a user.
type Prompt struct {
	// Context ends when the program aborts the session, and with the runtime.
	Context       context.Context
	Session, Text string

	r *Runtime
}

// Data is an object of JSON.
type Data = map[string]any

// Start starts a runtime. Each message of a user runs script in a goroutine of its own.
func Start(script func(*Prompt)) (*Runtime, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Runtime{URL: l.Addr().String(), script: script, listener: l, answers: map[string]chan struct{}{},
		replies: map[string]*reply{}, decided: map[string]chan json.RawMessage{}, aborts: map[string]context.CancelFunc{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.running.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.conn = conn
		r.mu.Unlock()
		r.serve(conn)
	})
	return r, nil
}

// Close ends the runtime and its scripts, and waits for them.
func (r *Runtime) Close() {
	r.cancel()
	_ = r.listener.Close()
	r.mu.Lock()
	if r.conn != nil {
		_ = r.conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
}

type frame struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// serve reads messages until the client is gone.
func (r *Runtime) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		header, err := textproto.NewReader(in).ReadMIMEHeader()
		if err != nil {
			return
		}
		n, err := strconv.Atoi(header.Get("Content-Length"))
		if err != nil {
			return
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		var f frame
		if json.Unmarshal(body, &f) != nil {
			return
		}
		if f.Method != "" {
			r.request(&f)
			continue
		}
		r.mu.Lock()
		if c := r.answers[string(f.ID)]; c != nil {
			close(c)
			delete(r.answers, string(f.ID))
		}
		r.mu.Unlock()
	}
}

// request answers a request of the client.
func (r *Runtime) request(f *frame) {
	var p struct {
		SessionID string          `json:"sessionId"`
		Prompt    string          `json:"prompt"`
		RequestID string          `json:"requestId"`
		Data      string          `json:"data"`
		End       bool            `json:"end"`
		Error     *struct{}       `json:"error"`
		Result    json.RawMessage `json:"result"`
	}
	_ = json.Unmarshal(f.Params, &p) // other requests have other members
	result := `{"success":true,"accepted":true}`
	switch f.Method {
	case "connect": //nolint:usestdlibvars // no method of HTTP
		result = fmt.Sprintf(`{"ok":true,"protocolVersion":%d,"version":"test"}`, copilot.GetSDKProtocolVersion())
	case "session.create":
		result = `{"sessionId":"` + p.SessionID + `","workspacePath":"/"}`
	case "session.send":
		result = `{"messageId":"m1"}`
		ctx, cancel := context.WithCancel(r.ctx)
		r.mu.Lock()
		r.aborts[p.SessionID] = cancel
		r.mu.Unlock()
		r.running.Go(func() { r.script(&Prompt{ctx, p.SessionID, p.Prompt, r}) })
	case "session.abort":
		r.mu.Lock()
		if cancel := r.aborts[p.SessionID]; cancel != nil {
			cancel()
		}
		r.mu.Unlock()
	case "llmInference.httpResponseChunk":
		r.mu.Lock()
		x := r.replies[p.RequestID]
		if p.End {
			delete(r.replies, p.RequestID)
		}
		r.mu.Unlock()
		if x == nil {
			break
		}
		x.chunks <- p.Data
		if p.End {
			x.failed = p.Error != nil
			close(x.chunks)
		}
	case "session.permissions.handlePendingPermissionRequest", "session.tools.handlePendingToolCall":
		r.mu.Lock()
		c := r.decided[p.RequestID]
		delete(r.decided, p.RequestID)
		r.mu.Unlock()
		if c != nil {
			c <- p.Result
		}
	}
	if f.ID != nil {
		r.send(frame{ID: f.ID, Result: json.RawMessage(result)})
	}
}

func (r *Runtime) send(f frame) {
	f.JSONRPC = "2.0"
	raw, err := json.Marshal(f)
	if err != nil {
		return
	}
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	r.write.Lock()
	defer r.write.Unlock()
	fmt.Fprintf(conn, "Content-Length: %d\r\n\r\n%s", len(raw), raw)
}

// call sends a request to the client and waits for its answer.
func (r *Runtime) call(method string, params Data) {
	c := make(chan struct{})
	r.mu.Lock()
	r.next++
	id := strconv.Quote(fmt.Sprint("r", r.next))
	r.answers[id] = c
	r.mu.Unlock()
	r.send(frame{ID: json.RawMessage(id), Method: method, Params: encode(params)})
	select {
	case <-c:
	case <-r.ctx.Done():
	}
}

// Says sends a session event of an agent; "" is the main one.
func (p *Prompt) Says(agent, typ string, data Data) {
	now := time.Now().UTC()
	e := Data{"id": fmt.Sprint(now.UnixNano()), "parentId": nil, "type": typ, "data": data,
		"timestamp": now.Format(time.RFC3339Nano)}
	if agent != "" {
		e["agentId"] = agent
	}
	p.r.send(frame{Method: "session.event", Params: encode(Data{"sessionId": p.Session, "event": e})})
}

// Model lets the client send a request of an agent to the model, as the runtime does where the program has a request
// handler. It returns the reply as far as it came. When the prompt is aborted it cancels the request.
func (p *Prompt) Model(agent, interaction, url, body string) (text string, ok bool) {
	r, x := p.r, &reply{chunks: make(chan string, 1024)}
	r.mu.Lock()
	r.next++
	id := fmt.Sprint("q", r.next)
	r.replies[id] = x
	r.mu.Unlock()
	about := Data{"requestId": id, "sessionId": p.Session, "method": "POST", "url": url, "transport": "http",
		"headers": Data{"content-type": []string{"application/json"}}, "interactionType": interaction}
	about["agentId"] = "main" // the main agent has an id here, and none in events
	if agent != "" {
		about["agentId"], about["parentAgentId"] = agent, "main"
	}
	r.call("llmInference.httpRequestStart", about)
	half := len(body) / 2
	r.call("llmInference.httpRequestChunk", Data{"requestId": id, "data": body[:half]})
	r.call("llmInference.httpRequestChunk", Data{"requestId": id, "data": body[half:], "end": true})
	aborted := p.Context.Done()
	for {
		select {
		case chunk, more := <-x.chunks:
			if !more {
				return text, !x.failed
			}
			text += chunk
		case <-aborted:
			aborted = nil
			r.call("llmInference.httpRequestChunk", Data{"requestId": id, "data": "", "cancel": true})
		case <-r.ctx.Done():
			return text, false
		}
	}
}

// Decide sends an event with a requestId, permission.requested or external_tool.requested, and returns what the
// client's handler answers, as JSON. It returns false when the prompt is aborted before.
func (p *Prompt) Decide(agent, typ string, data Data) (answer []byte, ok bool) {
	c := make(chan json.RawMessage, 1)
	p.r.mu.Lock()
	p.r.decided[fmt.Sprint(data["requestId"])] = c
	p.r.mu.Unlock()
	p.Says(agent, typ, data)
	select {
	case answer := <-c:
		return answer, true
	case <-p.Context.Done():
		return nil, false
	}
}

func encode(v any) []byte {
	raw, _ := json.Marshal(v) // of values that a script writes
	return raw
}
