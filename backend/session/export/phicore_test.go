package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

var update = flag.Bool("update", false, "rewrite golden files")

// made is a session made by hand, and its blocks.
type made struct {
	blocks session.BlockSet
}

// part is a piece of content. more is an object whose members are before those of body.
type part struct{ body, provenance, more string }

func (m *made) refs(parts ...part) *session.Refs {
	var items []session.Ref
	for _, p := range parts {
		if p.more != "" {
			p.body = strings.TrimSuffix(p.more, "}") + "," + p.body[1:]
		}
		m.blocks.Add(session.Block{Body: p.body})
		id := spans.BlockOfString(p.body).Short().String()
		items = append(items, session.Ref{Block: id, Provenance: p.provenance})
	}
	return session.NewRefs(items...)
}

func ms(n int64) time.Time { return time.UnixMicro(1_780_000_000_000_000 + n*1000).UTC() }

func observed(from, to int64) session.Span {
	return session.Span{Known: spans.KnownObserved, Start: ms(from), End: ms(to), Seq: from, EndSeq: to}
}

const (
	user      = `{"content":[{"text":"hi <b> é","type":"text"}],"role":"user","timestamp":1}`
	assistant = `{"content":[{"arguments":{"n":1.0},"id":"c1","name":"sub","type":"toolCall"}],"model":"m",` +
		`"provider":"p","role":"assistant","stopReason":"toolUse","timestamp":2,"usage":{"input":1,"output":2}}`
	result = `{"content":[],"isError":false,"role":"toolResult","timestamp":3,"toolCallId":"c1","toolName":"sub"}`
)

// recordedRun returns a session of one run of phi-core.
func recordedRun() (*session.Session, *made) {
	m := &made{}
	started := observed(0, 90)
	started.Start = started.Start.Add(123456789)
	turnID := `{"turnId":{"loopId":"s.cfg.1","turnIndex":0}}`
	return &session.Session{ID: "s", Runs: []*session.Run{{
		Span: started, ID: "s.cfg.1", Dialect: phiDialect, AgentID: "agent", Status: spans.RunStatusCompleted,
		Config:   `{"model":"m","provider":"p","config_id":null,"temperature":0.7}`,
		Reported: &session.ReportedUsage{Input: 1, Output: 2, Total: 3}, Capture: spans.CaptureContent,
		Messages: m.refs(part{user, "", ""}, part{assistant, "", turnID}),
		Metadata: m.refs(part{`{"k": [1, 2]}`, "", ""}),
		Turns: []*session.Turn{{
			Span: observed(1, 80), Trigger: spans.TriggerUser, Capture: spans.CaptureContent,
			Usage: session.Usage{Input: 1, Output: 2}, Input: m.refs(part{user, "", ""}, part{result, "", ""}),
			Output: m.refs(part{assistant, "", turnID}), Results: m.refs(part{result, "", ""}),
			Requests: []*session.Request{{
				Messages: m.refs(part{user, "st", ""}, part{user, "ib:me:2", ""}, part{user, "mt:long:r%3A1", ""},
					part{user, "?%7B%22kind%22%3A%22unknown%22%7D", ""}, part{user, "", ""}),
				Params: m.refs(part{`"sys"`, "system", ""}, part{`{"model_id":"m","later":1}`, "rest", ""}),
			}},
			ToolCalls: []*session.ToolCall{{Span: observed(11, 20), ID: "c1", Name: "sub"}},
		}},
	}}}, m
}

func TestPhiCoreWithoutContent(t *testing.T) {
	s := &session.Session{ID: "s", Runs: []*session.Run{{
		Span: observed(0, 9), ID: "s.1", Dialect: phiDialect, Status: spans.RunStatusCompleted, Capture: spans.CaptureNone,
		Turns: []*session.Turn{{Span: observed(1, 8), Capture: spans.CaptureNone}},
	}}}
	var out bytes.Buffer
	_, err := PhiCore(&out, session.Tree{Session: s}, Options{})
	if !errors.Is(err, ErrContent) || !strings.Contains(err.Error(), `captured with "none"`) || out.Len() > 0 {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
	if left, err := PhiCore(&out, session.Tree{Session: s}, Options{Partial: true}); err != nil || len(left) != 2 ||
		!json.Valid(out.Bytes()) {
		t.Errorf("%v, %v", left, err)
	}
	for _, s := range []*session.Session{{ID: "s"}, {ID: "s",
		Runs: []*session.Run{{Remarks: session.Remarks{Defects: []session.Defect{{Code: spans.DefectStartNotSeen}}}}}}} {
		if _, err := PhiCore(&out, session.Tree{Session: s}, Options{}); !errors.Is(err, ErrEmpty) {
			t.Error(err)
		}
	}
}

func TestRFC3339(t *testing.T) {
	for ns, want := range map[int64]string{
		0:           "2026-05-28T20:26:40Z",
		120_000_000: "2026-05-28T20:26:40.120Z",
		120_000:     "2026-05-28T20:26:40.000120Z",
		1:           "2026-05-28T20:26:40.000000001Z",
	} {
		if got := rfc3339(time.Unix(1_780_000_000, ns).In(time.FixedZone("x", 3600))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"a<b>&\u2028é\x7f": "\"a<b>&\u2028é\x7f\"", "\"\\\n\r\t\b\f\x01": `"\"\\\n\r\t\b\f\u0001"`, "\xff": "\"\ufffd\"",
	} {
		if got := string(quote(s)); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

func TestLoadable(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"a":[1.0,"x\\\"{[",null]}`: true, `"\ud83d\ude00\u00e9\ud83d\ude00"`: true, `"\\ud800"`: true,
		`"\ud800"`: false, `"\ude00\ud83d"`: false, `"\ud83dx"`: false, `{`: false,
	} {
		if got := loadable([]byte(raw)); got != want {
			t.Errorf("%.40q: %v", raw, got)
		}
	}
}

// The configuration of phi-core comes back as it is, that of another loop without words that phi-core may refuse.
func TestPhiCoreConfig(t *testing.T) {
	const config = `{"model":"m","provider":"p","api":"new_api","thinking_level":"huge"}`
	p := &phiCore{content: &content{s: &session.Session{}}}
	for dialect, want := range map[string]string{phiDialect: config, "x": `{"model":"m","provider":"p"}`} {
		if got := string(p.config("", &session.Run{Dialect: dialect, Config: config}, nil)); got != want {
			t.Errorf("%s: %s, want %s", dialect, got, want)
		}
	}
}

// Words that phi-core does not know are named, and with Partial replaced; counts are not below 0.
func TestPhiCoreForeignWords(t *testing.T) {
	s, m := recordedRun()
	run := s.Runs[0]
	run.Continuation, run.Turns[0].Trigger = "weird", "cron"
	run.Reported.Input = -1
	var out bytes.Buffer
	missing, err := PhiCore(&out, session.Tree{Session: s, Blocks: &m.blocks}, Options{})
	var refused *MissingError
	if !errors.As(err, &refused) || out.Len() > 0 {
		t.Fatalf("err %v, %d bytes written", err, out.Len())
	}
	must.Get(PhiCore(&out, session.Tree{Session: s, Blocks: &m.blocks}, Options{Partial: true}))(t)
	for _, word := range []string{"weird", "cron"} {
		named := func(m Missing) bool { return strings.Contains(m.What, `"`+word+`" is no word of phi-core`) }
		if !slices.ContainsFunc(missing, named) {
			t.Errorf("%s is not named in %v", word, missing)
		}
	}
	for _, written := range []string{"weird", "cron", ": -1"} {
		if strings.Contains(out.String(), written) {
			t.Errorf("%s is written", written)
		}
	}
}

// What other loops and their tools say may be texts that are no JSON.
func TestPhiCoreOfTexts(t *testing.T) {
	m := &made{}
	text := func(body string) *session.Refs { return m.refs(part{body, "", ""}) }
	s := &session.Session{ID: "s", Runs: []*session.Run{{
		Span: observed(0, 9), ID: "r", Dialect: "codex", Status: spans.RunStatusCompleted, Capture: spans.CaptureContent,
		Turns: []*session.Turn{{
			Span: observed(1, 8), Capture: spans.CaptureContent, Input: text("list <it>"), Output: text("a file"),
			ToolCalls: []*session.ToolCall{{Span: observed(2, 3), ID: "c", Name: "ls", Outcome: spans.OutcomeOK,
				Result: text("go.mod\n")}},
		}},
	}}}
	var out bytes.Buffer
	missing, err := PhiCore(&out, session.Tree{Session: s, Blocks: &m.blocks}, Options{})
	if err != nil || missing != nil {
		t.Fatal(missing, err)
	}
	for _, said := range []string{`"list <it>"`, `"a file"`, `"go.mod\n"`} {
		if !strings.Contains(out.String(), `"text": `+said) {
			t.Errorf("%s is not in %s", said, out.String())
		}
	}
}
