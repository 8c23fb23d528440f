// Package play records events in tests.
package play

import (
	"errors"
	"iter"
	"testing"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
)

// Events records all events and closes rec. It returns the number of events without a place. An error ends the test.
func Events(t testing.TB, rec *event.Recorder, all ...iter.Seq2[event.Event, error]) (lost int64) {
	t.Helper()
	play(t, rec, all, func(err error) { t.Helper(); t.Fatal(err) })
	return rec.Lost()
}

// Lines is Events for inputs with lines that cannot be read. It skips these and returns their number.
func Lines(t testing.TB, rec *event.Recorder, all ...iter.Seq2[event.Event, error]) (rejected int) {
	t.Helper()
	play(t, rec, all, func(err error) {
		t.Helper()
		if rejected++; !errors.As(err, new(*input.LineError)) {
			t.Fatal(err)
		}
	})
	return rejected
}

func play(t testing.TB, rec *event.Recorder, all []iter.Seq2[event.Event, error], bad func(error)) {
	t.Helper()
	for _, events := range all {
		for ev, err := range events {
			if err != nil {
				bad(err)
				continue
			}
			rec.Record(t.Context(), ev)
		}
	}
	rec.Close(t.Context())
}
