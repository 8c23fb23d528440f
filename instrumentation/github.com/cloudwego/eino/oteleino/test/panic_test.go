package test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
)

// A tool that panics ends with the run that Eino makes fail for it.
func TestToolPanics(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, first(t, calls("bad")), content)
		s.model.own = own
		bad, err := utils.InferTool("bad", "bad", func(context.Context, city) (string, error) { panic("it breaks") })
		if err != nil {
			t.Fatal(err)
		}
		a := s.agent("boss", func(c *adk.ChatModelAgentConfig) { c.ToolsConfig.Tools = []tool.BaseTool{bad} })
		if _, err := s.ask(t.Context(), a, stream, "Hello?"); err == nil {
			t.Error("no error")
		}
		s.failed("it breaks", `
    turn 0 user tool_calls in 15 out 5 cached 3
      tool c1 bad
`)
	})
}

// A model that panics is a turn that failed, in a run that failed.
func TestModelPanics(t *testing.T) {
	both(t, func(t *testing.T, stream, own bool) {
		s := set(t, nil, content)
		s.model.own = own
		s.model.client.Transport = nobody{}
		if _, err := s.ask(t.Context(), s.agent("boss"), stream, "Hello?"); err == nil {
			t.Error("no error")
		}
		s.failed("nobody answers", `
    turn 0 user failed provider_error "`)
	})
}

// nobody is a transport that panics.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) { panic("nobody answers") }

// failed checks that the run of the session failed with an error, and what it did. Errors of panics have the stack.
func (s *setting) failed(why, did string) {
	s.t.Helper()
	global.Wait()
	got := s.Outline()
	if !strings.HasPrefix(got, "session chat\n  run boss error \"") || !strings.Contains(got, why) ||
		!strings.Contains(got, did) {
		s.t.Error(got)
	}
}
