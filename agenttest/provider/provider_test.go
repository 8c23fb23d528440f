package provider_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

// post sends one request and returns the body of the response.
func post(t *testing.T, s *provider.Server, api provider.API, stream bool, body string) (int, []byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+api.Path(stream), strings.NewReader(body))
	must.Do(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, text, err
}

func bodyOf(stream bool) string {
	if stream {
		return `{"stream":true,"stream_options":{"include_usage":true}}`
	}
	return `{"stream":false}`
}

// A reply reads the same whole and streamed, in every API, and has what the script says.
func TestReplies(t *testing.T) {
	reply := provider.Reply{Thinking: "Two places.", Text: "I look at \"Oslo\" — é.",
		Calls: []provider.Call{{ID: "c1", Name: "weather", Args: `{"place":"Oslo"}`}, {ID: "c2", Name: "now"}},
		Usage: provider.Usage{Input: 20, Output: 9, CacheRead: 4}}
	for _, api := range provider.APIs {
		s := provider.New(t, reply, reply, provider.Reply{Status: 529}, provider.Reply{Cut: true, Text: "ab"},
			provider.Reply{Cut: true, Text: "ab"}, provider.Reply{Text: "ab", Error: "Overloaded"})
		var first otelagent.TurnResult
		for i, stream := range []bool{false, true} {
			_, text, err := post(t, s, api, stream, bodyOf(stream))
			if err != nil {
				t.Fatal(api, err)
			}
			res, err := otelagent.ParseReply(text)
			if err != nil || res.Usage == nil || res.StopReason == "" || res.Output == nil || res.Model != "fake-1" {
				t.Fatalf("%s: %+v, %v in\n%s", api, res, err, text)
			}
			for _, word := range []string{"Two places.", "Oslo", "weather", "now"} {
				if !bytes.Contains(res.Output.Raw, []byte(word)) {
					t.Errorf("%s, stream %v: no %q in %s", api, stream, word, res.Output.Raw)
				}
			}
			if i == 0 {
				first = res
			} else if *res.Usage != *first.Usage || res.StopReason != first.StopReason {
				t.Errorf("%s: streamed %+v %q, whole %+v %q", api, *res.Usage, res.StopReason, *first.Usage, first.StopReason)
			}
		}
		status, text, _ := post(t, s, api, false, "{}")
		if res, err := otelagent.ParseReply(text); status != 529 || err != nil || res.Err == nil {
			t.Errorf("%s: status %d: %s", api, status, text)
		}
		for _, stream := range []bool{false, true} {
			if _, text, err := post(t, s, api, stream, bodyOf(stream)); !errors.Is(err, io.ErrUnexpectedEOF) || len(text) == 0 {
				t.Errorf("%s: cut: %v, %q", api, err, text)
			}
		}
		_, text, _ = post(t, s, api, true, bodyOf(true))
		res, err := otelagent.ParseReply(text)
		if err != nil || res.Err == nil || !strings.Contains(res.Err.Error(), "Overloaded") {
			t.Errorf("%s: an error in the stream: %+v, %v in\n%s", api, res, err, text)
		}
		if got := s.Requests(); len(got) != 6 || got[1].API != api || !got[1].Stream || string(got[1].Body) != bodyOf(true) {
			t.Errorf("%s: requests %+v", api, got)
		}
	}
}

// A pause holds the stream until the script goes on, or the client is gone.
func TestPause(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	s := provider.New(t, provider.Reply{Text: "abcd", Pause: func(context.Context) { close(reached); <-release }})
	done := make(chan []byte)
	go func() {
		_, text, _ := post(t, s, provider.Anthropic, true, bodyOf(true))
		done <- text
	}()
	<-reached
	close(release)
	if text := <-done; !bytes.Contains(text, []byte("message_stop")) {
		t.Errorf("%s", text)
	}
}
