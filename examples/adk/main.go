// Command adk is an agent on Google's Agent Development Kit: it looks at the weather, asks whether it may book, and
// books. The model is a script in this process that speaks Gemini's API; with GEMINI_API_KEY it is Gemini.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/model/gemini"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/otelagent/otelagent/instrumentation/google.golang.org/adk/v2/oteladk"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	providers, err := otelsetup.Setup(ctx, otelsetup.WithoutGlobal()) // the framework's own spans have all content
	if err != nil {
		return err
	}
	defer func() { _ = providers.Shutdown(ctx) }()
	tracer := otelagent.NewTracer(otelagent.WithTracerProvider(providers.TracerProvider()),
		otelagent.WithMeterProvider(providers.MeterProvider()), otelagent.WithCapture(otelagent.CaptureContent))

	config := &genai.ClientConfig{Backend: genai.BackendGeminiAPI, HTTPClient: oteladk.HTTPClient(tracer)}
	if os.Getenv("GEMINI_API_KEY") == "" {
		server := httptest.NewServer(&script{replies: []string{
			`{"functionCall":{"id":"c1","name":"weather","args":{"city":"Bonn"}}}`,
			`{"text":"It is warm. I book."},{"functionCall":{"id":"c2","name":"book","args":{"city":"Bonn"}}}`,
			`{"text":"It is 21 degrees in Bonn, and your journey is booked."}`}})
		defer server.Close()
		config.APIKey, config.HTTPOptions.BaseURL = "none", server.URL
	}
	m, err := gemini.NewModel(ctx, "gemini-2.5-flash", config)
	if err != nil {
		return err
	}
	clerk, err := newAgent(m)
	if err != nil {
		return err
	}
	r, err := runner.New(runner.Config{AppName: "journeys", Agent: clerk, SessionService: session.InMemoryService(),
		AutoCreateSession: true, PluginConfig: runner.PluginConfig{Plugins: oteladk.Plugins(tracer)}}) // the one line
	if err != nil {
		return err
	}
	asked, err := ask(ctx, r, genai.NewContentFromText("If it is warm in Bonn, book me a journey.", genai.RoleUser))
	if err != nil || asked == "" {
		return err
	}
	fmt.Println("The agent asks whether it may book. Yes.")
	yes := &genai.FunctionResponse{ID: asked, Name: "adk_request_confirmation",
		Response: map[string]any{"confirmed": true}}
	_, err = ask(ctx, r, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: yes}}})
	return err
}

type city struct {
	City string `json:"city"`
}

type degrees struct {
	Degrees int `json:"degrees"`
}

type booking struct {
	Number string `json:"number"`
}

func newAgent(m model.LLM) (agent.Agent, error) {
	weather, err := functiontool.New(functiontool.Config{Name: "weather", Description: "Returns the temperature."},
		func(agent.Context, city) (degrees, error) { return degrees{21}, nil })
	if err != nil {
		return nil, err
	}
	book, err := functiontool.New(functiontool.Config{Name: "book", Description: "Books a journey.",
		RequireConfirmation: true}, func(agent.Context, city) (booking, error) { return booking{"B-17"}, nil })
	if err != nil {
		return nil, err
	}
	return llmagent.New(llmagent.Config{Name: "clerk", Model: m, Instruction: "You book journeys.",
		Tools: []tool.Tool{weather, book}})
}

// ask prints what the agent says to a message, and returns the id of the confirmation that it asks for.
func ask(ctx context.Context, r *runner.Runner, message *genai.Content) (asked string, err error) {
	for event, err := range r.Run(ctx, "user", "journey", message, agent.RunConfig{}) {
		if err != nil {
			return "", err
		}
		if event.Content == nil {
			continue
		}
		for _, p := range event.Content.Parts {
			switch {
			case p.Text != "":
				fmt.Println(p.Text)
			case p.FunctionCall != nil && p.FunctionCall.Name == "adk_request_confirmation":
				asked = p.FunctionCall.ID
			}
		}
	}
	return asked, nil
}

// script answers with its replies, one a request.
type script struct{ replies []string }

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(s.replies) == 0 {
		http.Error(w, `{"error":{"code":400,"message":"the script has ended"}}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":"STOP"}],"usageMetadata":`+
		`{"promptTokenCount":80,"candidatesTokenCount":20,"totalTokenCount":100},"modelVersion":"scripted"}`, s.replies[0])
	s.replies = s.replies[1:]
	_, _ = io.Copy(io.Discard, r.Body)
}
