package ndjson

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/spans"
)

// decoded returns what a Decoder makes of an input: events dumped, problems as they read.
func decoded(r io.Reader, opts ...input.Settings) []string {
	var out []string
	for ev, err := range NewDecoder(opts...).Events(r) {
		var bad *input.LineError
		switch {
		case errors.As(err, &bad):
			out = append(out, strings.TrimSpace(fmt.Sprintf("! %v", bad)+map[bool]string{true: " (cut)"}[bad.Cut]))
		case err != nil:
			out = append(out, "!! "+err.Error())
		default:
			out = append(out, agenttest.Dump(ev))
		}
	}
	return out
}

func TestOwn(t *testing.T) {
	for line, want := range map[string]bool{
		`{"type":"otelagent.run_started"}`:              true,
		`{"type":"otelagent.x","cut`:                    true,
		`{"ts":1,"type":"otelagent.x"}`:                 true,
		`{"ts":{"type":"x"},"type": "otelagent.x", bad`: true,
		`{"\u0074ype":"otelagent\u002ex"}`:              true,
		`{"type":"otelagent"}`:                          false,
		`{"type":"otelagents.x"}`:                       false,
		`{"type":"AgentStart"}`:                         false,
		`{"type":["otelagent.x"]}`:                      false,
		`{"ts":{"type":"otelagent.x"}}`:                 false,
		`{"type":"a","type":"otelagent.x"}`:             false,
		`{"ts":1,"ty`:                                   false,
		`["type","otelagent.x"]`:                        false,
		`{bad`:                                          false,
		``:                                              false,
	} {
		if got := input.Own([]byte(line)); got != want {
			t.Errorf("%s: got %v", line, got)
		}
	}
}

// TestSettings gives what lines lack, and not where they say it.
func TestSettings(t *testing.T) {
	text := strings.Join([]string{
		`{"type":"otelagent.run_started"}`,
		`{"type":"otelagent.run_started","session":"own","run":"r","agent_id":"me","provider":"p","dialect":"mine"}`,
		`{"type":"otelagent.turn_ended","usage":{"input":1}}`,
		`{"type":"otelagent.turn_ended","usage":{"input":1,"rule":"includes_cache"}}`,
		`{"type":"otelagent.group_started"}`,
		`{"type":"otelagent.fact_stated"}`,
	}, "\n")
	got := decoded(strings.NewReader(text), input.Settings{Session: "S", Agent: "A", Provider: "P",
		Rule: spans.UsageRuleExcludesCache})
	want := []string{
		`{"event":"run_started","session":"S","seq":1,"session_id":"S","agent":"A","provider":"P","dialect":"otelagent"}`,
		`{"event":"run_started","session":"own","run":"r","seq":2,"session_id":"own","id":"r","agent_id":"me",` +
			`"provider":"p","dialect":"mine"}`,
		`{"event":"turn_ended","seq":3,"usage":{"input":1,"rule":"excludes_cache"}}`,
		`{"event":"turn_ended","seq":4,"usage":{"input":1,"rule":"includes_cache"}}`,
		`{"event":"group_started","session":"S","seq":5,"session_id":"S","dialect":"otelagent"}`,
		`{"event":"fact_stated","session":"S","seq":6,"dialect":"otelagent"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestPositions reads two inputs with one Decoder, with lines that say their position.
func TestPositions(t *testing.T) {
	d := NewDecoder()
	var got []string
	read := func(text string) {
		for ev, err := range d.Events(strings.NewReader(text)) {
			if err != nil {
				var bad *input.LineError
				if !errors.As(err, &bad) {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("line %d, seq %d", bad.Line, bad.Seq))
				continue
			}
			got = append(got, fmt.Sprintf("%T %d", ev, metaOf(ev).Seq))
		}
	}
	read("\n" + `{"type":"otelagent.reply_delta"}` + "\n{}\n\n")
	read(`{"type":"otelagent.reply_delta","seq":70}` + "\n" + `{"type":"otelagent.reply_delta","x":1}` + "\nx")
	want := []string{"*event.ReplyDelta 2", "line 3, seq 3", "*event.ReplyDelta 70", "*event.ReplyDelta 6",
		"*event.Other 6", "line 3, seq 7"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(input.Stats{Lines: 7, Rejected: 2, Events: 3}, d.Stats()); diff != "" {
		t.Error(diff)
	}
}

// TestBounds reads lines that are small and would take much memory.
func TestBounds(t *testing.T) {
	keys := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"":1,`, n), ",") }
	items := func(n int) string { return strings.TrimSuffix(strings.Repeat(`0,`, n), ",") }
	for name, c := range map[string]struct{ line, want string }{
		"keys": {`{"type":"otelagent.other",` + keys(1024) + `}`, "otelagent: line 1: more than 1024 keys"},
		"keys inside": {`{"type":"otelagent.run_ended","usage":{` + keys(1025) + `}}`,
			"otelagent: line 1: otelagent.run_ended: usage: more than 1024 keys"},
		"keys of a fact": {`{"type":"otelagent.fact_stated","facts":[{},{` + keys(1025) + `}]}`,
			"otelagent: line 1: otelagent.fact_stated: facts[1]: more than 1024 keys"},
		"messages": {`{"type":"otelagent.run_ended","messages":[` + items(1<<16+1) + `]}`,
			"otelagent: line 1: otelagent.run_ended: messages: more than 65536 elements"},
		"bad words": {`{"type":"otelagent.group_started","members":[` + items(12) + `]}`,
			"otelagent: line 1: otelagent.group_started: members[0]: want a string, got a number" + badWords(1, 8) +
				"; and more"},
		"just keys":       {`{"type":"otelagent.other",` + keys(1023) + `}`, ""},
		"just messages":   {`{"type":"otelagent.run_ended","messages":[` + items(1<<16) + `]}`, ""},
		"keys of content": {`{"type":"otelagent.other","body":{` + keys(5000) + `}}`, ""},
	} {
		got := ""
		for _, err := range NewDecoder().Events(strings.NewReader(c.line)) {
			if err != nil {
				got += err.Error()
			}
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func badWords(from, to int) (s string) {
	for i := from; i < to; i++ {
		s += fmt.Sprintf("; members[%d]: want a string, got a number", i)
	}
	return s
}

// TestErrorsHoldNoContent puts a secret wherever a value may be.
func TestErrorsHoldNoContent(t *testing.T) {
	const secret = "hunter2"
	n := 0
	for i := range kinds {
		rows := rowsOf(&kinds[i])
		for _, r := range rows {
			for _, value := range []string{`"` + secret + `"`, `{"` + secret + `":1}`, `["` + secret + `"]`, `[{"` + secret +
				`":1,"raw":1,"role":["` + secret + `"]}]`} {
				_, problems := readAll(fmt.Sprintf(`{"type":"otelagent.%s",%q:%s}`, kinds[i].name, r.key, value))
				for _, err := range problems {
					if n++; strings.Contains(err.Error(), secret) {
						t.Errorf("%s.%s: %v", kinds[i].name, r.key, err)
					}
				}
			}
		}
	}
	if n < 200 {
		t.Errorf("%d lines refused", n)
	}
}

// metaOf returns what every event has.
func metaOf(ev event.Event) *event.Meta {
	return reflect.ValueOf(ev).Elem().FieldByName("Meta").Addr().Interface().(*event.Meta)
}
