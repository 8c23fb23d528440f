// Command http is an agent that speaks to its model by plain HTTP and knows nothing of otelagent. The transport of its
// client is the one line that traces it:
//
//	go run ./http
//
// The model is scripted, on loopback; it refuses one request, which the agent repeats.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	providers, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("http"))
	if err != nil {
		return err
	}
	tracer := otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent))

	transport := otelllmhttp.NewTransport(tracer, otelllmhttp.WithAgent("weatherman")) // the one line
	model := httptest.NewServer(script())
	defer model.Close()
	a := agent{url: model.URL + "/v1/messages", client: &http.Client{Transport: transport}}
	err = errors.Join(a.answer(ctx, "How warm is it in Bonn?"), a.answer(ctx, "And in Rome?"))

	transport.Close() // ends what is open
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return errors.Join(err, providers.Shutdown(ctx), providers.Stats().LastError)
}

// agent is a loop on Anthropic's API.
type agent struct {
	url      string
	client   *http.Client
	messages []any
}

type object map[string]any

type block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

// answer asks the model until it calls no tool.
func (a *agent) answer(ctx context.Context, question string) error {
	a.messages = append(a.messages, object{"role": "user", "content": question})
	for {
		reply, err := a.ask(ctx)
		if err != nil {
			return err
		}
		a.messages = append(a.messages, object{"role": "assistant", "content": reply})
		var results []object
		for _, b := range reply {
			if b.Type == "tool_use" {
				results = append(results, object{"type": "tool_result", "tool_use_id": b.ID, "content": "21 degrees"})
			} else {
				fmt.Println(b.Text)
			}
		}
		if results == nil {
			return nil
		}
		a.messages = append(a.messages, object{"role": "user", "content": results})
	}
}

// ask sends the messages, and once more where the model is overloaded.
func (a *agent) ask(ctx context.Context) ([]block, error) {
	body, err := json.Marshal(object{"model": "scripted-1", "max_tokens": 100, "messages": a.messages})
	for err == nil {
		var req *http.Request
		if req, err = http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body)); err != nil {
			break
		}
		res, err := a.client.Do(req)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			return nil, err
		}
		var reply struct{ Content []block }
		switch res.StatusCode {
		case 529:
			continue
		case http.StatusOK:
			err = json.Unmarshal(text, &reply)
			return reply.Content, err
		}
		return nil, fmt.Errorf("%s: %s", res.Status, text)
	}
	return nil, err
}

// script plays the model.
func script() http.Handler {
	replies := []string{
		`{"id":"msg_1","type":"message","role":"assistant","model":"scripted-1","stop_reason":"tool_use","content":[` +
			`{"type":"tool_use","id":"call_1","name":"weather","input":{"city":"Bonn"}}],` +
			`"usage":{"input_tokens":20,"output_tokens":9}}`,
		"", // overloaded
		`{"id":"msg_2","type":"message","role":"assistant","model":"scripted-1","stop_reason":"end_turn","content":[` +
			`{"type":"text","text":"21 degrees in Bonn."}],"usage":{"input_tokens":40,"output_tokens":6}}`,
		`{"id":"msg_3","type":"message","role":"assistant","model":"scripted-1","stop_reason":"end_turn","content":[` +
			`{"type":"text","text":"I know Bonn only."}],"usage":{"input_tokens":55,"output_tokens":5}}`,
	}
	var n atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply := replies[(int(n.Add(1))-1)%len(replies)]
		if reply == "" {
			w.WriteHeader(529)
			reply = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
		}
		_, _ = io.WriteString(w, reply)
	})
}
