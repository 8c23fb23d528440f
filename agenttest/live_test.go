package agenttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/redact"
	"github.com/otelagent/otelagent/spans"
)

// partly keeps partial output, as often as copies leave at all.
var partly = func(c *writer.Config) { c.PartialEvery = time.Nanosecond }

// lastTurn returns the last turn of the last run, nil when there is none.
func lastTurn(s *session.Session) *session.Turn {
	if len(s.Runs) == 0 || len(s.Runs[len(s.Runs)-1].Turns) == 0 {
		return nil
	}
	turns := s.Runs[len(s.Runs)-1].Turns
	return turns[len(turns)-1]
}

// whenOnly waits until the only session is as wanted, and returns it and what it is made of.
func whenOnly(p *agenttest.Pipeline, wanted func(*session.Session, session.Batch) bool) (only *session.Session, of session.Batch) {
	p.When(func(all []*session.Session, b session.Batch) bool {
		if len(all) == 1 {
			only, of = all[0], b
			of.Blocks = append(of.Blocks, only.LiveBlocks()...)
		}
		return len(all) == 1 && wanted(only, of)
	})
	return only, of
}

// What a tree shows of a session at each step, from nothing but what was sent by itself.
func TestLiveTree(t *testing.T) {
	p := agenttest.NewLive(t, content, partly)
	when := func(what string, wanted func(*session.Session, session.Batch) bool) {
		t.Helper()
		t.Log(what) // the last one is what did not come
		whenOnly(p, wanted)
	}
	status := func(want spans.SessionStatus) {
		t.Helper()
		when(string(want), func(s *session.Session, _ session.Batch) bool { return s.Status == want })
	}
	turnIs := func(what string, wanted func(*session.Turn, session.Batch) bool) {
		t.Helper()
		when(what, func(s *session.Session, b session.Batch) bool {
			last := lastTurn(s)
			return last != nil && last.Known == spans.KnownLive && wanted(last, b)
		})
	}
	request := func(n int, want []byte) {
		t.Helper()
		turnIs(fmt.Sprintf("request %d", n), func(turn *session.Turn, b session.Batch) bool {
			return len(turn.Requests) > n && bytes.Equal(turn.Requests[n].Payload(blocksOfAll(b)).Bytes, want)
		})
	}

	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder", Rules: []byte(`[{"action":"ask"}]`)})
	when("the run", func(s *session.Session, b session.Batch) bool {
		r := s.Runs[0]
		return s.Status == spans.SessionStatusBusy && r.Status == spans.RunStatusOpen && r.Agent == "coder" && r.Known == spans.KnownLive &&
			r.HeartbeatNS == int64(15*time.Second) && cmp.Equal(bodiesOf(b, r.Rules), []string{`[{"action":"ask"}]`})
	})

	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser, Model: "m"})
	turn.AddInput(writer.Message{Role: "user", Raw: []byte(`{"role":"user","content":"Is it in?"}`)})
	turnIs("the input", func(turn *session.Turn, b session.Batch) bool {
		return turn.Trigger == spans.TriggerUser && cmp.Equal(bodiesOf(b, turn.Input), []string{`{"role":"user","content":"Is it in?"}`})
	})

	payload := []byte(`{"model":"m","system":"Be brief.","messages":[{"role":"user","content":"Is it in?"}],"tools":[{"name":"bash"}]}`)
	turn.Request(writer.Request{Payload: payload})
	request(0, payload)
	again := bytes.Replace(payload, []byte("brief"), []byte("briefer"), 1)
	turn.Request(writer.Request{Payload: again, Attempt: 1})
	request(1, again)
	status(spans.SessionStatusRetrying)

	turn.Partial(writer.PartialReasoning, []byte("Well. "))
	turn.Partial(writer.PartialText, []byte("It is "))
	turn.Partial(writer.PartialText, []byte("in\u00a0\"stock\"."))
	turnIs("what came in of the reply", func(turn *session.Turn, b session.Batch) bool {
		return turn.Partial && cmp.Equal(bodiesOf(b, turn.Output), []string{
			`{"content":[{"thinking":"Well. ","type":"thinking"},{"text":"It is in` + "\u00a0" + `\"stock\".","type":"text"}],"role":"assistant"}`,
		})
	})

	turn.AskUser()
	status(spans.SessionStatusWaitingOnUserInput)
	turn.UserAnswered()
	status(spans.SessionStatusRetrying)

	turn.Replied(writer.Moment{}) // and so what follows is no waiting for the model
	status(spans.SessionStatusBusy)
	turn.Discard(writer.DiscardedAttempt{Attempt: 1, Reason: "empty"})
	status(spans.SessionStatusRetrying)
	turn.Request(writer.Request{Payload: payload, Attempt: 2})
	request(2, payload)
	status(spans.SessionStatusRetrying)
	turn.Replied(writer.Moment{})
	status(spans.SessionStatusBusy)

	ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c1", Name: "bash", Args: []byte(`{"cmd":"ls"}`)})
	toolIs := func(what string, wanted func(*session.ToolCall, session.Batch) bool) {
		t.Helper()
		turnIs(what, func(turn *session.Turn, b session.Batch) bool {
			return len(turn.ToolCalls) == 1 && turn.ToolCalls[0].Known == spans.KnownLive && wanted(turn.ToolCalls[0], b)
		})
	}
	toolIs("the arguments", func(c *session.ToolCall, b session.Batch) bool {
		return cmp.Equal(bodiesOf(b, c.Args), []string{`{"cmd":"ls"}`})
	})
	call.Progress("lines", []byte(`{"lines":7}`), writer.Moment{})
	toolIs("the progress", func(c *session.ToolCall, b session.Batch) bool {
		return c.Progress == 1 && len(c.Events) == 1 && c.Events[0].Type == "lines" && hasBlock(b, c.Events[0].Body, `{"lines":7}`)
	})

	asking := call.Ask(ctx, writer.PermissionEvaluation{Options: []byte(`["once"]`)})
	toolIs("the question", func(c *session.ToolCall, b session.Batch) bool {
		return len(c.Permissions) == 1 && c.Permissions[0].Known == spans.KnownLive && c.Permissions[0].Action == spans.ActionAsk &&
			cmp.Equal(bodiesOf(b, c.Permissions[0].Options), []string{`["once"]`})
	})
	status(spans.SessionStatusWaitingOnApproval)
	asking.End(writer.PermissionEvaluation{Action: spans.ActionAllow, Outcome: "selected"})
	status(spans.SessionStatusBusy)

	call.End(writer.ToolResult{Result: []byte(`"a b"`)})
	turn.End(writer.TurnResult{Output: &writer.Message{Role: "assistant", Raw: []byte(`{"role":"assistant","content":"It is."}`)}})
	run.End(writer.RunResult{})
	s, b := p.Session(), p.Batch()
	last := lastTurn(s)
	if s.Status != spans.SessionStatusIdle || last.Partial || last.Waiting != "" || last.Known != spans.KnownObserved || last.Attempts != 3 || last.HeartbeatNS != 0 ||
		!cmp.Equal(bodiesOf(b, last.Output), []string{`{"role":"assistant","content":"It is."}`}) || len(last.ToolCalls[0].Permissions) != 1 {
		t.Errorf("at the end %s, %+v", s.Status, last)
	}
	for n, want := range [][]byte{payload, again} {
		if got := last.Requests[n].Payload(blocksOfAll(b)); !got.Exact || !bytes.Equal(got.Bytes, want) {
			t.Errorf("request %d is %s, want %s (%+v)", n, got.Bytes, want, got)
		}
	}
	if len(s.Defects)+len(s.Runs[0].Defects)+len(last.Defects) > 0 {
		t.Errorf("defects %v %v %v", s.Defects, s.Runs[0].Defects, last.Defects)
	}
}

// blocksOfAll are the blocks of a batch of one session.
func blocksOfAll(b session.Batch) *session.BlockSet {
	blocks := &session.BlockSet{}
	for _, block := range b.Blocks {
		blocks.Add(block)
	}
	return blocks
}

func bodiesOf(b session.Batch, refs *session.Refs) []string {
	if refs == nil {
		return nil
	}
	return blocksOfAll(b).Read(refs).Bodies
}

func hasBlock(b session.Batch, ref *session.Ref, body string) bool {
	return slices.ContainsFunc(b.Blocks, func(x session.Block) bool { return x.ID.Short().String() == ref.Block && x.Body == body })
}

// playLive plays events live and ends nothing, as a process that is killed.
func playLive(t *testing.T, events []byte, opts ...otelagent.Option) (*agenttest.Pipeline, *event.Recorder, []byte) {
	t.Helper()
	p := agenttest.NewLive(t, append(opts, writer.WithDerivedIDs)...)
	rec := event.NewRecorder(p.Tracer())
	var request []byte // the last
	for ev, err := range phi.Events(bytes.NewReader(events)) {
		if err != nil {
			t.Fatal(err)
		}
		if q, ok := ev.(*event.RequestPrepared); ok {
			request = bytes.Clone(q.Payload)
		}
		rec.Record(t.Context(), ev)
	}
	return p, rec, request
}

// Killed while the model answers, the request of that turn is there byte for byte, from what had left by then.
func TestLiveRequestIsExact(t *testing.T) {
	tried := 0
	for _, f := range phifixtures.All(t, repository) {
		at := bytes.LastIndex(f.Events, []byte(`"type":"TurnRequest"`))
		if at < 0 || testing.Short() && tried > 3 {
			continue
		}
		tried++
		t.Run(f.String(), func(t *testing.T) {
			end := at + bytes.IndexByte(f.Events[at:], '\n') + 1
			p, rec, want := playLive(t, f.Events[:end], content)
			t.Cleanup(func() { rec.Close(context.Background()) })
			p.When(func(all []*session.Session, b session.Batch) bool {
				for _, s := range all {
					blocks := &session.BlockSet{}
					for _, block := range b.Blocks {
						if block.Session.ID == s.ID {
							blocks.Add(block)
						}
					}
					for _, r := range s.Runs {
						for _, turn := range r.Turns {
							for _, q := range turn.Requests {
								if got := q.Payload(blocks); turn.Known == spans.KnownLive && got.Exact && bytes.Equal(got.Bytes, want) {
									return true
								}
							}
						}
					}
				}
				return false
			})
		})
	}
	if tried < 3 {
		t.Errorf("only %d recordings have requests", tried)
	}
}

// carried are the counts of what the spans themselves carried. With live copies they carry a reply before its turn ends, in the spelling of its
// event, and the reply of the end in its own.
var carried = regexp.MustCompile(`(?m)^ *"otelagent\.capture\.(known_)?bytes": \d+,?\n`)

// Once everything has ended the tree is what it is without copies; also where the same events were sent both ways.
func TestLiveEndsAlike(t *testing.T) {
	for i, f := range phifixtures.All(t, repository) {
		if testing.Short() && i%8 != 0 {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			text := func(b session.Batch) string {
				var all []string
				for _, s := range session.AssembleAll(b.Rows) {
					blocks := &session.BlockSet{}
					for _, block := range b.Blocks {
						if block.Session.ID == s.ID {
							blocks.Add(block)
						}
					}
					s.CheckContent(blocks)
					j, err := json.MarshalIndent(s, "", " ")
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, carried.ReplaceAllString(string(j), ""))
				}
				return strings.Join(all, "\n")
			}
			without := play(t, f.Events, nil, content, writer.WithDerivedIDs).Batch()
			p, rec, _ := playLive(t, f.Events, content, partly)
			rec.Close(t.Context())
			with := p.Batch()
			// The spans of both are the same but for what they carry themselves, and when a killed run was heard of last.
			if diff := cmp.Diff(text(without), text(with)); diff != "" && !strings.Contains(string(f.Events), "MessageUpdate") {
				t.Errorf("live (-without +with):\n%s", diff)
			}
			both := session.Batch{Rows: append(slices.Clone(with.Rows), without.Rows...), Blocks: append(slices.Clone(with.Blocks), without.Blocks...)}
			if diff := cmp.Diff(text(with), text(both)); diff != "" && text(without) != text(both) {
				t.Errorf("sent both ways (-live +both):\n%s", diff)
			}
		})
	}
}

// A secret that comes in piece by piece does not leave in pieces: neither on copies nor on a turn that breaks off.
func TestLivePartialOutputIsRedacted(t *testing.T) {
	const secret = "sk-ant-api03-" + "Zq7Rr2Kx9Lm4Np8Tv3Wb6Yc1Df5Gh0JsQaUeXoBiMnPz"
	p := agenttest.NewLive(t, content, partly, otelagent.WithRedactor(redact.Defaults()))
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{})
	seen := 0
	for i := range len(secret) {
		if i == 0 {
			turn.Partial(writer.PartialText, []byte("Here it comes:\nThe key is "))
		}
		turn.Partial(writer.PartialText, []byte(secret[i:i+1]))
		if i%8 == 0 {
			whenOnly(p, func(s *session.Session, _ session.Batch) bool { t := lastTurn(s); return t != nil && t.Partial })
			time.Sleep(20 * time.Millisecond)
		}
		seen++
	}
	turn.Partial(writer.PartialText, []byte(" and that is\nall"))
	whenOnly(p, func(s *session.Session, b session.Batch) bool {
		bodies := bodiesOf(b, lastTurn(s).Output)
		return len(bodies) == 1 && strings.Contains(bodies[0], `that is\n`)
	})
	turn.Close(writer.Moment{})
	run.Close(writer.Moment{})
	all := bytes.Join(p.OTLP(), nil)
	if at := bytes.Index(all, []byte(secret[:16])); at >= 0 {
		t.Errorf("is sent: %q", all[at:at+40])
	}
	last := lastTurn(p.Session())
	got := bodiesOf(p.Batch(), last.Output)
	if !last.Partial || last.Known != spans.KnownClosed || len(got) != 1 || !strings.Contains(got[0], `comes:\nThe key is [redacted:api-key] and that is\n"`) {
		t.Errorf("the turn keeps %q, %+v", got, last)
	}
}

// Killed at any moment after the loop reported a reply, the tree has the reply with its usage and why the model
// stopped.
func TestLiveRepliesStay(t *testing.T) {
	recordings, replies := 0, 0
	for _, f := range phifixtures.All(t, repository) {
		if testing.Short() && recordings > 3 || !bytes.Contains(f.Events, []byte(`"type":"MessageEnd"`)) {
			continue
		}
		recordings++
		t.Run(f.String(), func(t *testing.T) {
			p := agenttest.NewLive(t, content, partly, writer.WithDerivedIDs)
			rec := event.NewRecorder(p.Tracer())
			var recorded *event.ReplyReceived // in the turn that is open
			open := false
			for ev, err := range phi.Events(bytes.NewReader(f.Events)) {
				if err != nil {
					t.Fatal(err)
				}
				rec.Record(t.Context(), ev)
				switch ev := ev.(type) {
				case *event.TurnStarted:
					open, recorded = true, nil
				case *event.TurnEnded, *event.RunStarted, *event.RunEnded:
					open, recorded = false, nil
				case *event.RequestPrepared, *event.AttemptDiscarded:
					recorded = nil
				case *event.ReplyReceived:
					if open {
						reply := *ev
						if ev.Usage != nil { // which the decoder uses again
							reply.Usage = new(*ev.Usage)
						}
						recorded = &reply
						replies++
					}
				}
				if recorded == nil {
					continue
				}
				p.When(func(all []*session.Session, b session.Batch) bool {
					for _, s := range all {
						for _, r := range s.Runs {
							for _, turn := range r.Turns {
								if turn.Known == spans.KnownLive && !turn.Partial && turn.StopReason == recorded.StopReason && turn.Output.Len() == 1 &&
									(recorded.Usage == nil || turn.Reported != nil && turn.Reported.Output == recorded.Usage.Output) {
									return len(bodiesOf(b, turn.Output)) == 1
								}
							}
						}
					}
					return false
				})
			}
			rec.Close(t.Context())
		})
	}
	if recordings < 3 || replies < recordings {
		t.Errorf("only %d replies of %d recordings", replies, recordings)
	}
}
