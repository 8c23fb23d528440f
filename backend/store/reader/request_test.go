package reader_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/spans"
)

// TestNoRequest holds that a turn without a request says why it has none.
func TestNoRequest(t *testing.T) {
	for why, turn := range map[string]session.Turn{
		"its loop reported none":               {Capture: spans.CaptureContent},
		"its loop reported one, which did not": {Capture: spans.CaptureContent, RequestMessages: 3},
		"reported one, which did not arrive":   {Capture: spans.CaptureDigests, RequestBytes: 10},
		"content was not captured: send it w":  {RequestMessages: 3, RequestBytes: 10},
	} {
		s := &session.Session{Runs: []*session.Run{{Span: session.Span{Known: spans.KnownObserved}, ID: "r",
			Turns: []*session.Turn{&turn}}}}
		_, _, _, err := reader.PickRequest(s, reader.Address{Session: "s", Turn: "0"})
		if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "turn 0 of run r has no request: ") ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("want %q, got %v", why, err)
		}
	}
}

// Of an address with two wrong parts the error names the first, each time.
func TestRequestAddressError(t *testing.T) {
	for range 20 {
		if _, err := reader.ParseRequestAddress("s/r/x/y"); err == nil || err.Error() != `turn "x": want a number` {
			t.Fatal(err)
		}
	}
}
