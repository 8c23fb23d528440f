package input_test

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects/input"
)

// scanned are all lines of text, as NUMBER[@EVENT]:TEXT.
func scanned(t *testing.T, r io.Reader, opts ...input.Settings) (lines []string, s *input.Scanner) {
	t.Helper()
	s = input.NewScanner(r, input.SettingsOf(opts...))
	for s.Scan() {
		l := s.Line()
		text := string(l.Text)
		if l.TooLong {
			if l.Text != nil {
				t.Errorf("line %d is too long and has text", l.Number)
			}
			text = "TOO LONG"
		}
		if l.Event != "" {
			text = "@" + l.Event + " " + text
		}
		lines = append(lines, string(rune('0'+l.Number))+":"+text)
	}
	return lines, s
}

func TestScanner(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     []string
		read     int64
	}{
		{"lines", "{\"a\":1}\n{\"b\":2}\n", []string{`1:{"a":1}`, `2:{"b":2}`}, 2},
		{"no end", "x\ny", []string{"1:x", "2:y"}, 2},
		{"blank lines, blanks, carriage returns, byte order mark", "\xef\xbb\xbf x \r\n\r\n \t\n\ty\r\n",
			[]string{"1:x", "4:y"}, 4},
		{"empty", "", nil, 0},
		{"only blanks", " \n\r\n", nil, 2},
		{"too long", "0123456789abcd\nshort\n0123456789abc", []string{"1:TOO LONG", "2:short", "3:TOO LONG"}, 3},
		{"server-sent events", "event: x\ndata:{\"a\":1}\n\nid: 7\ndata:{\"b\":2}\n\n",
			[]string{`2:@x {"a":1}`, `5:{"b":2}`}, 6},
		{"comments first, data over lines", ": hello\n\ndata: {\"a\":\ndata: 1}\n\n", []string{"3:{\"a\":\n1}"}, 5},
		{"no blank line at the end", "data: x", []string{"1:x"}, 1},
		{"an event without data is none", "event: ping\n\ndata: x\n\n", []string{"3:x"}, 4},
		{"a long event", "data: a\n\ndata: 0123456\n\ndata: 01234\ndata: 56789\ndata: abc\n\ndata: x\n\n",
			[]string{"1:a", "3:TOO LONG", "5:TOO LONG", "9:x"}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"at once": strings.NewReader(test.in), "by bytes": iotest.OneByteReader(strings.NewReader(test.in)),
				"with the end": iotest.DataErrReader(strings.NewReader(test.in)),
			} {
				got, s := scanned(t, r, input.Settings{MaxLine: 12})
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
				if s.Err() != nil || s.Lines() != test.read {
					t.Errorf("%s: error %v, %d lines read, want %d", name, s.Err(), s.Lines(), test.read)
				}
			}
		})
	}
}

// The last line of a reader that fails may be half of one.
func TestScannerFails(t *testing.T) {
	broken := errors.New("broken")
	lines, s := scanned(t, io.MultiReader(strings.NewReader("a\nhalf"), iotest.ErrReader(broken)))
	if diff := cmp.Diff([]string{"1:a"}, lines); diff != "" {
		t.Error(diff)
	}
	if !errors.Is(s.Err(), broken) {
		t.Errorf("Err = %v", s.Err())
	}
}

// An event of which the end never comes holds no more than a line may.
func TestScannerEndlessEvent(t *testing.T) {
	var before, after runtime.MemStats
	in := input.NewScanner(io.MultiReader(strings.NewReader("data: x\n"), io.LimitReader(endless("data:\n"), 12<<20)),
		input.SettingsOf(input.Settings{MaxLine: 1000}))
	runtime.ReadMemStats(&before)
	for in.Scan() {
		if l := in.Line(); !l.TooLong || l.Number != 1 {
			t.Errorf("line %d of %d bytes", l.Number, len(l.Text))
		}
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 || in.Lines() < 1<<20 {
		t.Errorf("%d bytes for %d lines", n, in.Lines())
	}
}

// endless is a text over and over.
type endless string

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for len(p)-n >= len(e) {
		n += copy(p[n:], e)
	}
	return n, nil
}

// A long key does not stand in the path of each member below it.
func TestOutlineIsBounded(t *testing.T) {
	text := []byte(`{"` + strings.Repeat("k", 1<<20) + `":{` + strings.Repeat(`"a":1,`, 100) + `"b":1},"type":"t"}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	o := input.OutlineOf(text)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 || o.Text("", "type") != "t" {
		t.Errorf("%d bytes, type %q", n, o.Text("", "type"))
	}
}

func TestScannerLive(t *testing.T) {
	before := time.Now()
	s := input.NewScanner(strings.NewReader("a\n"), input.SettingsOf(input.Settings{Live: true}))
	if !s.Scan() || s.Line().Arrived.Before(before) {
		t.Errorf("arrived at %v", s.Line().Arrived)
	}
	s = input.NewScanner(strings.NewReader("a\n"), input.SettingsOf())
	if !s.Scan() || !s.Line().Arrived.IsZero() {
		t.Errorf("a recording arrived at %v", s.Line().Arrived)
	}
}

func TestTime(t *testing.T) {
	const want = "2026-11-21T09:30:00.123456789Z"
	for in, want := range map[string]string{
		`"2026-11-21T09:30:00.123456789Z"`:      want,
		`"2026-11-21T10:30:00.123456789+01:00"`: want,
		`1795253400123456789`:                   want,
		`1795253400123456`:                      "2026-11-21T09:30:00.123456Z",
		`1795253400123`:                         "2026-11-21T09:30:00.123Z",
		`1795253400`:                            "2026-11-21T09:30:00Z",
		`1795253400.25`:                         "2026-11-21T09:30:00.25Z",
		`1795253400123.5`:                       "2026-11-21T09:30:00.1235Z",
		`1.7952534e9`:                           "2026-11-21T09:30:00Z",
		`0.5`:                                   "1970-01-01T00:00:00.5Z",
		`"2026-11-21"`:                          "", `"soon"`: "", `-1`: "", `null`: "", `true`: "", `{}`: "", ``: "",
		`0`: "", `"`: "",
		`"0001-01-01T00:00:00Z"`: "", `"2300-01-01T00:00:00Z"`: "", `9e99`: "", `NaN`: "", `17951652005600E0000`: "",
	} {
		got := input.Time([]byte(in))
		if got.IsZero() != (want == "") || want != "" && got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, want %q", in, got, want)
		}
	}
}

func TestLineError(t *testing.T) {
	for want, e := range map[string]*input.LineError{
		"acp: line 3: session/update: update.sessionUpdate: want a string": {Dialect: "acp", Line: 3, Type: "session/update",
			Field: "update.sessionUpdate", Reason: "want a string"},
		"guide: messages[2]: want an object": {Dialect: "guide", Field: "messages[2]",
			Reason: "want an object"},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e, want)
		}
	}
}

// Nothing of an input is lost or invented: what is scanned, put together, is the input without blanks.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{"a\nb\n", "data: a\n\n", ":\n\ndata: x\ndata: y\n\n", "\xef\xbb\xbf{}\r\n"} {
		f.Add([]byte(s), 100)
	}
	f.Fuzz(func(t *testing.T, b []byte, most int) {
		max := input.SettingsOf(input.Settings{MaxLine: most % 1000})
		s := input.NewScanner(iotest.HalfReader(strings.NewReader(string(b))), max)
		last := int64(0)
		for s.Scan() {
			l := s.Line()
			if l.Number <= last || l.Number > s.Lines() {
				t.Fatalf("line %d after %d of %d", l.Number, last, s.Lines())
			}
			last = l.Number
			if l.TooLong == (len(l.Text) > 0) {
				t.Fatalf("line %d: too long %v, %d bytes", l.Number, l.TooLong, len(l.Text))
			}
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	})
}
