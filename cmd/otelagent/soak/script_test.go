//go:build linux

package soak

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// script is a session that is the same each time: the player and the check need to share its numbers only.
type script struct {
	ID    string
	Turns int
	Bytes int // of each message, about
	Seed  uint64
}

// systemPrompt is the same in all sessions, as it is in real ones.
var systemPrompt = noise(rand.New(rand.NewPCG(1, 2)), 3<<10)

func noise(rng *rand.Rand, n int) string {
	b := make([]byte, (n+1)/2)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return hex.EncodeToString(b)
}

// conversation makes the requests of a script, one after the other.
type conversation struct {
	rng      *rand.Rand
	size     int
	messages []json.RawMessage
}

func (s script) conversation() *conversation {
	c := &conversation{rng: rand.New(rand.NewPCG(s.Seed, 0)), size: s.Bytes}
	c.add("user")
	return c
}

func (c *conversation) add(role string) writer.Message {
	raw := fmt.Appendf(nil, `{"role":%q,"content":%q}`, role, noise(c.rng, c.size))
	c.messages = append(c.messages, raw)
	return writer.Message{Role: role, Raw: raw}
}

// request is what the model is sent on the current turn.
func (c *conversation) request() []byte {
	b, _ := json.Marshal(struct {
		Model    string            `json:"model"`
		System   string            `json:"system"`
		Messages []json.RawMessage `json:"messages"`
	}{"scripted-1", systemPrompt, c.messages}) // never fails: messages are JSON
	return b
}

// usage is what a turn reports. Sums of them show which turns are missing or count twice.
func usage(turn int64) session.Usage {
	return session.Usage{Input: 1_000_000 + turn, Output: 1000 + turn*turn, CacheRead: 7 * turn, CacheWrite: 3}
}

// total is the usage of a whole session.
func (s script) total() (u session.Usage) {
	for i := range s.Turns {
		u.Add(usage(int64(i)))
	}
	return u
}

// play runs the session through a tracer. It waits after each turn, and ends early with ctx.
func (s script) play(ctx context.Context, tracer *writer.Tracer, wait time.Duration) {
	c := s.conversation()
	runCtx, run := tracer.StartRun(
		context.WithoutCancel(ctx),
		writer.RunInfo{SessionID: s.ID, ID: "run", Agent: "soak", Model: "scripted-1"},
	)
	for i := range s.Turns {
		s.turn(runCtx, run, c, int64(i))
		if wait > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(wait):
			}
		}
	}
	run.End(writer.RunResult{})
}

func (s script) turn(ctx context.Context, run *writer.Run, c *conversation, i int64) {
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{Index: new(i), Trigger: spans.TriggerUser})
	turn.Request(writer.Request{Payload: c.request()})
	answer := c.add("assistant")
	_, call := turn.StartTool(
		ctx,
		writer.ToolCall{ID: fmt.Sprint("call-", i), Name: "bash", Args: []byte(`{"command":"true"}`)},
	)
	result := c.add("toolResult")
	result.ToolCallID = fmt.Sprint("call-", i)
	call.End(writer.ToolResult{Result: []byte(`"ok"`)})
	u := usage(i)
	turn.End(writer.TurnResult{
		StopReason: "tool_use", Output: &answer, Results: []writer.Message{result},
		Usage: &writer.Usage{
			Input:      u.Input,
			Output:     u.Output,
			Reasoning:  u.Reasoning,
			CacheRead:  u.CacheRead,
			CacheWrite: u.CacheWrite,
		},
	})
}
