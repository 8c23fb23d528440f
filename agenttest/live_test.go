package agenttest_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
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
func whenOnly(p *agenttest.Pipeline, wanted func(*session.Session, session.Batch) bool) (only *session.Session,
	of session.Batch) {
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

	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r",
		Agent: "coder", Rules: []byte(`[{"action":"ask"}]`)})
	when("the run", func(s *session.Session, b session.Batch) bool {
		r := s.Runs[0]
		return s.Status == spans.SessionStatusBusy && r.Status == spans.RunStatusOpen && r.Agent == "coder" &&
			r.Known == spans.KnownLive &&
			r.HeartbeatNS == int64(15*time.Second) && cmp.Equal(bodiesOf(b, r.Rules), []string{`[{"action":"ask"}]`})
	})

	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser, Model: "m"})
	turn.AddInput(writer.Message{Role: "user", Raw: []byte(`{"role":"user","content":"Is it in?"}`)})
	turnIs("the input", func(turn *session.Turn, b session.Batch) bool {
		return turn.Trigger == spans.TriggerUser && cmp.Equal(bodiesOf(b, turn.Input),
			[]string{`{"role":"user","content":"Is it in?"}`})
	})

	payload := []byte(`{"model":"m","system":"Be brief.","messages":[{"role":"user","content":"Is it in?"}],"tools":[]}`)
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
			`{"content":[{"thinking":"Well. ","type":"thinking"},{"text":"It is in` + "\u00a0" +
				`\"stock\".","type":"text"}],"role":"assistant"}`,
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
		return c.Progress == 1 && len(c.Events) == 1 && c.Events[0].Type == "lines" &&
			hasBlock(b, c.Events[0].Body, `{"lines":7}`)
	})

	asking := call.Ask(ctx, writer.PermissionEvaluation{Options: []byte(`["once"]`)})
	toolIs("the question", func(c *session.ToolCall, b session.Batch) bool {
		return len(c.Permissions) == 1 && c.Permissions[0].Known == spans.KnownLive &&
			c.Permissions[0].Action == spans.ActionAsk &&
			cmp.Equal(bodiesOf(b, c.Permissions[0].Options), []string{`["once"]`})
	})
	status(spans.SessionStatusWaitingOnApproval)
	asking.End(writer.PermissionEvaluation{Action: spans.ActionAllow, Outcome: "selected"})
	status(spans.SessionStatusBusy)

	call.End(writer.ToolResult{Result: []byte(`"a b"`)})
	turn.End(writer.TurnResult{Output: &writer.Message{Role: "assistant",
		Raw: []byte(`{"role":"assistant","content":"It is."}`)}})
	run.End(writer.RunResult{})
	s, b := p.Session(), p.Batch()
	last := lastTurn(s)
	if s.Status != spans.SessionStatusIdle || last.Partial || last.Waiting != "" || last.Known != spans.KnownObserved ||
		last.Attempts != 3 || last.HeartbeatNS != 0 ||
		!cmp.Equal(bodiesOf(b, last.Output), []string{`{"role":"assistant","content":"It is."}`}) ||
		len(last.ToolCalls[0].Permissions) != 1 {
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

// blocksNamed are the blocks of one session of a batch.
func blocksNamed(b session.Batch, id string) []session.Block {
	return slices.DeleteFunc(slices.Clone(b.Blocks), func(block session.Block) bool { return block.Session.ID != id })
}

func bodiesOf(b session.Batch, refs *session.Refs) []string {
	if refs == nil {
		return nil
	}
	return blocksOfAll(b).Read(refs).Bodies
}

func hasBlock(b session.Batch, ref *session.Ref, body string) bool {
	return slices.ContainsFunc(b.Blocks, func(x session.Block) bool {
		return x.ID.Short().String() == ref.Block &&
			x.Body == body
	})
}

// Killed at any moment after the loop reported a request or a reply, the tree of the spans that left by then has the
// request byte for byte, or the reply with its usage and why the model stopped.
func TestLiveRequestIsExact(t *testing.T) {
	requests, replies := 0, 0
	for i, f := range phifixtures.All(t, repository) {
		if testing.Short() && i%8 != 0 {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			p := agenttest.NewLive(t, content, partly, writer.WithDerivedIDs)
			rec := event.NewRecorder(p.Tracer())
			open := false
			for ev, err := range phi.Events(bytes.NewReader(f.Events)) {
				if err != nil {
					t.Fatal(err)
				}
				rec.Record(t.Context(), ev)
				var want func(turn *session.Turn, b session.Batch) bool
				switch ev := ev.(type) {
				case *event.TurnStarted:
					open = true
				case *event.TurnEnded, *event.RunStarted, *event.RunEnded:
					open = false
				case *event.RequestPrepared:
					requests++
					want = func(turn *session.Turn, b session.Batch) bool {
						return slices.ContainsFunc(turn.Requests, func(q *session.Request) bool {
							got := q.Payload(blocksOfAll(b))
							return got.Exact && bytes.Equal(got.Bytes, ev.Payload)
						})
					}
				case *event.ReplyReceived:
					if !open {
						continue
					}
					replies++
					want = func(turn *session.Turn, b session.Batch) bool {
						return !turn.Partial && turn.StopReason == ev.StopReason && turn.Output.Len() == 1 &&
							(ev.Usage == nil || turn.Reported != nil && turn.Reported.Output == ev.Usage.Output) &&
							len(bodiesOf(b, turn.Output)) == 1
					}
				}
				if want == nil {
					continue
				}
				p.When(func(all []*session.Session, b session.Batch) bool {
					for _, s := range all {
						of := session.Batch{Blocks: blocksNamed(b, s.ID)}
						for n := range s.Walk() {
							if n.Kind() == session.KindTurn && n.Turn.Known == spans.KnownLive && want(n.Turn, of) {
								return true
							}
						}
					}
					return false
				})
			}
			rec.Close(t.Context())
		})
	}
	if requests < 3 || replies < 3 {
		t.Errorf("only %d requests and %d replies", requests, replies)
	}
}

// carried are the counts of the bytes that spans themselves carried. With live copies they carry a reply before its
// turn ends, in the spelling of its event, and the reply of the end in its own.
var carried = regexp.MustCompile(`(?m)^ *"otelagent\.capture\.(known_)?bytes": \d+,?\n`)

// Once everything has ended the tree is the same as without copies; also where the same events were sent both ways.
func TestLiveEndsAlike(t *testing.T) {
	text := func(b session.Batch) string { return carried.ReplaceAllString(trees(t, b), "") }
	for i, f := range phifixtures.All(t, repository) {
		if testing.Short() && i%8 != 0 {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			without := play(t, f.Events, nil, content, writer.WithDerivedIDs).Batch()
			p := agenttest.NewLive(t, content, partly, writer.WithDerivedIDs)
			record(t, event.NewRecorder(p.Tracer()), f.Events)
			with := p.Batch()
			// The spans of both are the same but for the bytes that they carry, and for the last sign of a killed run.
			if diff := cmp.Diff(text(without), text(with)); diff != "" && !bytes.Contains(f.Events, []byte("MessageUpdate")) {
				t.Errorf("live (-without +with):\n%s", diff)
			}
			both := join(with, without)
			if diff := cmp.Diff(text(with), text(both)); diff != "" && text(without) != text(both) {
				t.Errorf("sent both ways (-live +both):\n%s", diff)
			}
		})
	}
}
