package guide_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
)

func TestBadDocuments(t *testing.T) {
	whole := `{"session":{"id":"s","created_at":1},"messages":[{"message":{"id":"u","role":"user","created_at":2},` +
		`"parts":[]},{"message":{"id":"v","role":"user","created_at":3},"parts":[]}]}`
	for _, test := range []struct {
		name, in, want string
		messages       int
		cut            bool
	}{
		{"cut within a message", whole[:150], "guide: JSON ends too early at byte 151", 0, true},
		{"cut behind a message", whole[:len(whole)-2], "guide: JSON ends too early at byte 175", 0, true},
		{"broken", strings.Replace(whole, `{"message":{"id":"v"`, `{"message":SECRET`, 1),
			"guide: no JSON value at byte 124", 0, false},
		{"messages of another type", `{"session":{"id":"s"},"messages":{"SECRET":[{}]},"x":1}`,
			"guide: messages: want an array, got an object", 0, false},
		{"a message of another type", strings.Replace(whole, `[{"message"`, `["SECRET",{"message"`, 1),
			"guide: messages[0]: want an object, got a string", 2, false},
		{"parts of another type", strings.Replace(whole, `"parts":[]`, `"parts":"SECRET"`, 1),
			"guide: messages[0].parts: want an array, got a string", 2, false},
		{"a part of another type", strings.Replace(whole, `"parts":[]`, `"parts":["SECRET"]`, 1),
			"guide: part: messages[0].parts[0].data: want an object, got a string", 2, false},
		{"parts of a bad message", strings.Replace(whole, `{"id":"u","role":"user","created_at":2},"parts":[]`,
			`{"SECRET":"u"},"parts":[{"id":"p"}]`, 1), "guide: message: messages[0].message.id: want a string that is not " +
			"empty", 1, false},
		{"not UTF-8", strings.Replace(whole, `"id":"u"`, "\"id\":\"SECRET\xff\"", 1),
			"guide: text that is not UTF-8 at byte 74", 2, false},
		{"something behind it", whole + `[]`, "guide: want an object with session and messages", 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var bad *input.LineError
			n := 0
			for ev, err := range guide.NewDecoder().Events(iotest.HalfReader(strings.NewReader(test.in))) {
				if err != nil && bad == nil && !errors.As(err, &bad) {
					t.Fatal(err)
				}
				if _, ok := ev.(*event.MessageAdded); ok {
					n++
				}
			}
			if bad == nil {
				t.Fatal("no error")
			}
			if bad.Error() != test.want || bad.Cut != test.cut || n != test.messages {
				t.Errorf("%d messages, cut %v: %s\nwant %d, %v: %s", n, bad.Cut, bad, test.messages, test.cut, test.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	document := `{"session":{"id":"s","created_at":1},"messages":[{"message":{"id":"u","role":"user"},"parts":[]},` +
		`{"message":{"id":"v","role":"user","x":"` + strings.Repeat("x", 1000) + `"},"parts":[]}]}`
	equal(t, errorsOf(document, input.Settings{MaxLine: 500}), "guide: longer than 500 bytes")
	equal(t, errorsOf(document, input.Settings{MaxLine: len(document)}))
	lines := sessionRow("") + messageRow("u", "user", 1001, `{"x":"`+strings.Repeat("x", 1000)+`"}`) +
		messageRow("v", "user", 1002, `{}`)
	equal(t, errorsOf(lines, input.Settings{MaxLine: 500}), "guide: line 2: longer than 500 bytes")
	var parts strings.Builder
	parts.WriteString(sessionRow("") + messageRow("u", "user", 1001, `{}`))
	for i := range 16384 + 2 {
		parts.WriteString(partRow(fmt.Sprint("p", i), "u", i, 1001, text))
	}
	equal(t, errorsOf(parts.String()), "guide: line 16387: part: a message of more than 16384 parts",
		"guide: line 16388: part: a message of more than 16384 parts")
	equal(t, errorsOf(sessionRow("")+messageRow("u", "user", 1001, `{}`)+partRow("p", "u", 0, 1001, text)+partRow("q",
		"u", 1, 1001, `{"type":"text","text":"`+strings.Repeat("x", 300)+`"}`), input.Settings{MaxLine: 500}),
		"guide: line 4: part: a message with its parts longer than 500 bytes")
	longRow := strings.Replace(partRow("q", "u", 1, 1001, text), `"type":"part"`,
		`"type":"part","x":"`+strings.Repeat("x", 300)+`"`, 1)
	equal(t, errorsOf(sessionRow("")+messageRow("u", "user", 1001, `{}`)+longRow, input.Settings{MaxLine: 500}),
		"guide: line 3: part: a message with its parts longer than 500 bytes")
	var users strings.Builder
	users.WriteString(sessionRow(""))
	for i := range 1500 {
		users.WriteString(messageRow(fmt.Sprint("u", i), "user", 1001+i, `{}`))
	}
	runs := 0
	for _, l := range summaryOf(t, users.String()) {
		if strings.HasPrefix(l, "run_started") {
			runs++
		}
	}
	if runs != 2 {
		t.Errorf("1,500 messages make %d runs, want 2", runs)
	}
}

// TestWrittenAgain: a row that is written again takes the place of the earlier one in the bounds, too.
func TestWrittenAgain(t *testing.T) {
	long := `{"type":"text","text":"` + strings.Repeat("x", 200) + `"}`
	message := messageRow("u", "user", 1001, `{"x":"`+strings.Repeat("x", 100)+`"}`)
	part := partRow("p", "u", 0, 1001, long)
	equal(t, errorsOf(sessionRow("")+message+part+message+part+part, input.Settings{MaxLine: 700}))
	var parts strings.Builder
	for i := range 16384 {
		parts.WriteString(partRow(fmt.Sprint("p", i), "u", i, 1001, text))
	}
	equal(t, errorsOf(sessionRow("")+message+parts.String()+partRow("p0", "u", 0, 1002, text)))
}

// TestRules: rules of another type are no fact, and those of a session are parsed once, not for each of its runs.
func TestRules(t *testing.T) {
	bad := sessionRow(`,"permissions":{"SECRET":1}`)
	equal(t, errorsOf(bad), "guide: line 1: session: permissions: want an array, got an object")
	if got := string(eventsOf([]byte(bad))); strings.Contains(got, `"rules"`) {
		t.Errorf("a fact of rules: %s", got)
	}
	const runs, rules = 100, 1000
	var b strings.Builder
	b.WriteString(sessionRow(`,"permissions":[{"action":"allow","added_at":1}` +
		strings.Repeat(`,{"action":"allow","added_at":1}`, rules-1) + `]`))
	for i := range runs {
		b.WriteString(messageRow(fmt.Sprint("a", i), "assistant", 2000+i, `{}`))
	}
	n := testing.AllocsPerRun(1, func() { errorsOf(b.String()) })
	if n > runs*rules/4 {
		t.Errorf("%d runs of %d rules make %.0f allocations", runs, rules, n)
	}
}

// TestErrorsNameNoKeys: keys and types that are not the guide's are content.
func TestErrorsNameNoKeys(t *testing.T) {
	deep := strings.Repeat("[", 250) + strings.Repeat("]", 250)
	equal(t, errorsOf(`{"type":"SECRET","data":{}}`), "guide: line 1: session_id: missing, want a string")
	equal(t, errorsOf(`{"session":{"id":"s"},"SECRET":`+deep+`}`), "guide: JSON nested too deeply at byte 239")
}

// TestTurnsShareNoParts: what a file says of its turns repeats no content, however often it says so.
func TestTurnsShareNoParts(t *testing.T) {
	const turns, parts = 1000, 50
	var b strings.Builder
	b.WriteString(sessionRow("") + messageRow("a", "assistant", 1001,
		`{"otelagent":{"events":[{"type":"otelagent.run_started","run":"r"}`+
			strings.Repeat(`,{"type":"otelagent.tool_started","run":"r","args":0},{"type":"otelagent.turn_ended","run":"r",`+
				`"output":{"raw":[0,`+fmt.Sprint(parts)+`]}}`, turns)+`]}}`))
	for i := range parts {
		b.WriteString(partRow(fmt.Sprint("p", i), "a", i, 1001, fmt.Sprintf(`{"type":"tool-x","toolCallId":"c%d",`+
			`"state":"output-available","input":{},"output":1}`, i)))
	}
	args, outputs := 0, 0
	for ev, err := range guide.NewDecoder().Events(strings.NewReader(b.String())) {
		switch ev := ev.(type) {
		case *event.ToolStarted:
			if ev.Args != nil {
				args++
			}
		case *event.TurnEnded:
			if ev.Output != nil {
				outputs++
			}
		}
		must.Do(t, err)
	}
	if args != 1 || outputs != 1 {
		t.Errorf("%d calls and %d turns have the content of one", args, outputs)
	}
}

func errorsOf(in string, opts ...input.Settings) (errs []string) {
	for _, err := range guide.NewDecoder(opts...).Events(strings.NewReader(in)) {
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	return errs
}
