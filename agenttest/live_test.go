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
	"github.com/otelagent/otelagent/internal/must"
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

// liveState describes a session as a tree shows it while it runs: its status, and the last turn with its content.
func liveState(s *session.Session, b session.Batch) string {
	out := fmt.Sprintf("%s, run %s %s", s.Status, s.Runs[0].Known, s.Runs[0].Status)
	turn := lastTurn(s)
	if turn == nil {
		return out + fmt.Sprint(", rules ", bodiesOf(b, s.Runs[0].Rules))
	}
	out += fmt.Sprintf(", turn %s, %d requests, input %s", turn.Known, len(turn.Requests), bodiesOf(b, turn.Input))
	if turn.Output != nil {
		out += fmt.Sprintf(", output %s, partial %v", bodiesOf(b, turn.Output), turn.Partial)
	}
	for _, c := range turn.ToolCalls {
		out += fmt.Sprintf(", call %s %s, progress %d", c.Known, bodiesOf(b, c.Args), c.Progress)
		for _, p := range c.Permissions {
			out += fmt.Sprintf(", permission %s %s %s", p.Known, p.Action, bodiesOf(b, p.Options))
		}
	}
	return out
}

// TestLiveTree compares the tree at each step of a session, from the spans that were sent by themselves.
// TestLiveRequestIsExact has the requests and replies.
func TestLiveTree(t *testing.T) {
	p := agenttest.NewLive(t, content, partly)
	var got, want string
	defer func() {
		if t.Failed() {
			t.Logf("got  %s\nwant %s", got, want)
		}
	}()
	is := func(state string) {
		t.Helper()
		want = state
		p.When(func(all []*session.Session, b session.Batch) bool {
			if len(all) == 1 {
				b.Blocks = append(b.Blocks, all[0].LiveBlocks()...)
				got = liveState(all[0], b)
			}
			return got == want
		})
	}
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(),
		writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder", Rules: []byte(`[{"action":"ask"}]`)})
	is(`busy, run live open, rules [[{"action":"ask"}]]`)
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser, Model: "m"})
	turn.AddInput(writer.Message{Role: "user", Raw: []byte(`"Is it in?"`)})
	const asked = `, run live open, turn live, %d requests, input ["Is it in?"]`
	state := func(status spans.SessionStatus, requests int, rest string) {
		t.Helper()
		is(string(status) + fmt.Sprintf(asked, requests) + rest)
	}
	state("busy", 0, "")
	payload := []byte(`{"model":"m","system":"Be brief.","messages":[{"role":"user","content":"Is it in?"}],"tools":[]}`)
	turn.Request(writer.Request{Payload: payload})
	state("busy", 1, "")
	turn.Request(writer.Request{Payload: payload, Attempt: 1})
	state("retrying", 2, "")
	turn.Partial(writer.PartialReasoning, []byte("Well. "))
	turn.Partial(writer.PartialText, []byte("It is "))
	turn.Partial(writer.PartialText, []byte("in\u00a0\"stock\"."))
	const partial = `, output [{"content":[{"thinking":"Well. ","type":"thinking"},{"text":"It is in` + "\u00a0" +
		`\"stock\".","type":"text"}],"role":"assistant"}], partial true`
	state("retrying", 2, partial)
	turn.AskUser()
	state("waiting_on_user_input", 2, partial)
	turn.UserAnswered()
	turn.Reply(writer.TurnResult{}) // a status after this is none of waiting for the model
	state("busy", 2, partial)
	turn.Discard(writer.DiscardedAttempt{Attempt: 1, Reason: "empty"})
	turn.Request(writer.Request{Payload: payload, Attempt: 2})
	state("retrying", 3, "")
	turn.Reply(writer.TurnResult{})
	ctx, call := turn.StartTool(ctx, writer.ToolCall{ID: "c1", Name: "bash", Args: []byte(`{"cmd":"ls"}`)})
	call.Progress("lines", []byte(`{"lines":7}`), writer.Moment{})
	const called = `, call live [{"cmd":"ls"}], progress 1`
	state("busy", 3, called)
	asking := writer.Ask(ctx, call, writer.PermissionEvaluation{Action: spans.ActionAsk, Options: []byte(`["once"]`)})
	state("waiting_on_approval", 3, called+`, permission live ask [["once"]]`)
	asking.End(writer.PermissionEvaluation{Action: spans.ActionAllow, Outcome: "selected"})
	state("busy", 3, called+`, permission observed allow [["once"]]`)
	call.End(writer.ToolResult{Result: []byte(`"a b"`)})
	turn.End(writer.TurnResult{Output: &writer.Message{Role: "assistant", Raw: []byte(`"It is."`)}})
	run.End(writer.RunResult{})
	s, b := p.Session(), p.Batch()
	want = `idle, run observed completed, turn observed, 3 requests, input ["Is it in?"], output ["It is."], ` +
		`partial false, call observed [{"cmd":"ls"}], progress 1, permission observed allow [["once"]]`
	if got = liveState(s, b); got != want || len(s.Defects)+len(s.Runs[0].Defects)+len(lastTurn(s).Defects) > 0 {
		t.Errorf("at the end: defects %v %v %v", s.Defects, s.Runs[0].Defects, lastTurn(s).Defects)
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

// Killed at any moment after the loop reported a request or a reply, the tree of the spans that left by then has the
// request byte for byte, or the reply with its usage and why the model stopped.
func TestLiveRequestIsExact(t *testing.T) {
	t.Parallel()
	requests, replies := 0, 0
	for i, f := range phifixtures.All(t, repository) {
		if testing.Short() && i%8 != 0 {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			p := agenttest.NewLive(t, content, partly, writer.WithDerivedIDs)
			rec := event.NewRecorder(p.Tracer())
			open := false
			for ev, err := range phi.NewDecoder().Events(bytes.NewReader(f.Events)) {
				must.Do(t, err)
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
			without := played(t, f.Events, nil, content, writer.WithDerivedIDs).Batch()
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
