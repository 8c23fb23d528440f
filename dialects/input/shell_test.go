package input_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
)

// reader is a dialect of lines {"name":…}: each gives two events. It writes down how the shell calls it.
type reader struct {
	input.Shell
	calls  []string
	held   input.Line
	heldAt int64
}

func newReader(opts ...input.Option) *reader {
	return &reader{Shell: input.NewShell("test", ndjson.Read, opts...)}
}

func (r *reader) line(line input.Line) {
	r.calls = append(r.calls, "line")
	o := r.Object(line)
	if o == nil {
		return
	}
	name := o.String("name")
	if o.Require("name"); r.RejectProblems("named", o) {
		return
	}
	r.Stats.Events++
	for _, typ := range []string{name, name + "+"} {
		r.Emit(&event.Other{Meta: event.Meta{Seq: r.Seq, Arrived: r.Arrived}, Type: typ})
	}
}

// holds keeps the lines of package ndjson that have the key later until the end.
func (r *reader) holds(line input.Line) bool {
	r.calls = append(r.calls, "own")
	if !strings.Contains(string(line.Text), "later") {
		return false
	}
	line.Text = bytes.Clone(line.Text)
	r.held, r.heldAt = line, r.Seq
	return true
}

func (r *reader) end() {
	r.calls = append(r.calls, "end")
	if r.held.Text != nil {
		r.Own(r.held, r.heldAt)
	}
	r.Emit(&event.Other{Meta: event.Meta{Seq: r.Seq}, Type: "end"})
}

func (r *reader) reader() input.Reader { return input.Reader{Line: r.line, Holds: r.holds, End: r.end} }

// read reads in with r, and returns its events and errors, one a line.
func read(r *reader, in io.Reader) (out []string) {
	for ev, err := range r.Events(in, r.reader()) {
		if err != nil {
			out = append(out, "error: "+err.Error())
			continue
		}
		out = append(out, string(ndjson.AppendEvent(nil, ev)))
	}
	return out
}

// other is what an event of reader is written as.
func other(typ, seq string) string {
	if seq == "0" {
		return `{"type":"otelagent.other","event_type":"` + typ + `"}`
	}
	return `{"type":"otelagent.other","seq":` + seq + `,"event_type":"` + typ + `"}`
}

const own = `{"type":"otelagent.turn_started","run":"r"}` + "\n"

const wantCount = "want an integer from 0 to 9223372036854775807"

func TestEvents(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
		calls    string
		stats    input.Stats
	}{
		{"nothing", "", []string{other("end", "0")}, "end", input.Stats{}},
		{"lines", "{\"name\":\"a\"}\n\n {\"name\":\"b\"}\r\n", []string{other("a", "1"), other("a+", "1"), other("b", "3"),
			other("b+", "3"), other("end", "3")},
			"line line end", input.Stats{Lines: 3, Events: 2}},
		{"server-sent events", "event: x\ndata: {\"name\":\ndata: \"a\"}\n\n", []string{other("a", "2"), other("a+", "2"),
			other("end", "2")},
			"line end", input.Stats{Lines: 4, Events: 1}},
		{"lagged", "event: lagged\ndata: 5\n\nevent: lagged\ndata: {\"missed\":1,\"of\":2}\n\n", []string{
			`{"type":"otelagent.defect_found","seq":2,"code":"event_lost","detail":"5 events"}`,
			`{"type":"otelagent.defect_found","seq":5,"code":"event_lost"}`, other("end", "5")}, "end", input.Stats{Lines: 6}},
		{"own lines in between", `{"name":"a"}` + "\n" + own + `{"name":"b"}`, []string{other("a", "1"), other("a+", "1"),
			`{"type":"otelagent.turn_started","seq":2,"run":"r"}`, other("b", "3"), other("b+", "3"), other("end", "3")},
			"line own line end", input.Stats{Lines: 3, Events: 3}},
		{"an own line for later", `{"type":"otelagent.turn_started","later":1}` + "\n" + `{"name":"b"}`, []string{
			other("b", "2"), other("b+", "2"), `{"type":"otelagent.turn_started","seq":1}`,
			`{"type":"otelagent.other","seq":1,"event_type":"otelagent.turn_started.unknown_keys","body":{"later":1}}`,
			other("end", "2")}, "own line end", input.Stats{Lines: 2, Events: 2}},
		{"a bad own line", `{"type":"otelagent.turn_started","index":"x"}`, []string{
			"error: otelagent: line 1: otelagent.turn_started: index: " + wantCount + ", got a string", other("end", "1")},
			"own end", input.Stats{Lines: 1, Rejected: 1}},
		{"too long", strings.Repeat("x", 101) + "\n" + `{"name":"a"}`, []string{
			"error: test: line 1: longer than 100 bytes", other("a", "2"), other("a+", "2"),
			other("end", "2")}, "line end", input.Stats{Lines: 2, Rejected: 1, Events: 1}},
		{"no JSON, no object", "{\"SECRET\n[1]\n", []string{"error: test: line 1: JSON ends too early at byte 9",
			"error: test: line 2: want an object, got an array",
			other("end", "2")}, "line line end", input.Stats{Lines: 2, Rejected: 2}},
		{"two problems reject a line once", `{"name":null,"name":5}`, []string{
			"error: test: line 1: named: name: want a string, got a number", other("end", "1")},
			"line end", input.Stats{Lines: 1, Rejected: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReader(input.WithMaxLine(100))
			got := read(r, iotest.OneByteReader(strings.NewReader(test.in)))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if calls := strings.Join(r.calls, " "); calls != test.calls || r.Stats != test.stats {
				t.Errorf("calls %q, want %q; %+v, want %+v", calls, test.calls, r.Stats, test.stats)
			}
		})
	}
}

// TestRejectProblems hands out each problem of a line, names line and key, and counts the line once.
func TestRejectProblems(t *testing.T) {
	p := input.NewShell("test", ndjson.Read)
	line := func(line input.Line) {
		o := p.Object(line)
		o.Count("a")
		o.Object("b").Bool("c")
		o.Require("d")
		p.RejectProblems("odd", o)
	}
	var got []input.LineError
	for range 2 {
		for _, err := range p.Events(strings.NewReader("\n"+`{"a":"SECRET","b":{"c":1}}`), input.Reader{Line: line}) {
			var bad *input.LineError
			if !errors.As(err, &bad) {
				t.Fatal(err)
			}
			got = append(got, *bad)
		}
	}
	var want []input.LineError
	for _, seq := range []int64{2, 4} {
		e := input.LineError{Dialect: "test", Line: 2, Seq: seq, Type: "odd"}
		for _, at := range [][2]string{{"a", "want an integer from 0 to 9223372036854775807, got a string"}, {"b.c",
			"want a boolean, got a number"}, {"d", "missing"}} {
			e.Field, e.Reason = at[0], at[1]
			want = append(want, e)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := (input.Stats{Lines: 4, Rejected: 2}); p.Stats != want {
		t.Errorf("%+v, want %+v", p.Stats, want)
	}
}

// TestArrived is the time of reading for a pipe, and zero for a recording.
func TestArrived(t *testing.T) {
	before := time.Now()
	for _, live := range []bool{true, false} {
		opts := []input.Option{nil}
		if live {
			opts = append(opts, input.WithLive())
		}
		r := newReader(opts...)
		for ev, _ := range r.Events(strings.NewReader(`{"name":"a"}`), r.reader()) {
			if e := ev.(*event.Other); e.Type == "a" && (live && e.Arrived.Before(before) || !live &&
				!e.Arrived.IsZero()) {
				t.Errorf("live %v: arrived at %v", live, e.Arrived)
			}
		}
	}
}
