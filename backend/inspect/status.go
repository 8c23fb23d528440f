package inspect

import (
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// StatusView is the present state of a session. docs/live.md describes its JSON form, which
// `otelagent status --output json` and the API print.
type StatusView struct {
	// Format is session.TreeFormat.
	Format  int                 `json:"format"`
	Tenant  string              `json:"tenant,omitempty"`
	Session string              `json:"session"`
	Status  spans.SessionStatus `json:"status"`
	// Last is the time of the last data of the session, HeartbeatNS the interval of heartbeats of its open runs; 0
	// for none.
	Last        time.Time `json:"last"`
	HeartbeatNS int64     `json:"heartbeat_ns,omitempty"`
	// Turn is the address of the open turn, of several the last one; empty for none. Attempts is the number of its
	// attempts; 0 where it is unknown.
	Turn     string `json:"turn,omitempty"`
	Attempts int64  `json:"attempts,omitempty"`
	// Open are the unfinished tool calls and permission evaluations, by start; those of an aborted session as they
	// were last seen.
	Open []StatusOpen `json:"open,omitempty"`

	turn *session.Turn // the open one
}

// StatusOpen is an unfinished tool call or permission evaluation.
type StatusOpen struct {
	// Kind is tool_call or permission.
	Kind  string    `json:"kind"`
	Turn  string    `json:"turn,omitempty"` // address; empty where it belongs to no turn
	Tool  string    `json:"tool,omitempty"`
	Call  string    `json:"call,omitempty"` // id of the tool call
	Since time.Time `json:"since,omitzero"`
}

// StatusOf returns the state of s at a time. The zero time is that of the last row.
func StatusOf(s *session.Session, now time.Time) StatusView {
	sum := session.Summarize(s)
	v := StatusView{
		Format: session.TreeFormat, Tenant: s.Tenant, Session: s.ID, Status: s.StatusAt(now), Last: s.Last,
		HeartbeatNS: sum.HeartbeatNS,
	}
	for i, run := range s.Runs {
		if run.Status != spans.RunStatusOpen {
			continue
		}
		waiting := run.Waiting()
		for n := range run.Walk() {
			address := ""
			if n.Turn != nil {
				address = session.TurnAddress(s.ID, i+1, n.Turn.Index)
			}
			switch n.Kind() {
			case session.KindTurn:
				if n.Turn.Known == spans.KnownLive && (v.turn == nil || n.Turn.Start.After(v.turn.Start)) {
					v.turn, v.Turn, v.Attempts = n.Turn, address, n.Turn.Attempts
				}
			case session.KindToolCall:
				if c := n.Call; c.Known == spans.KnownLive {
					v.Open = append(v.Open, StatusOpen{"tool_call", address, c.Name, c.ID, c.Start})
				}
			case session.KindPermission:
				if p := n.Permission; slices.Contains(waiting, p) {
					v.Open = append(v.Open, StatusOpen{"permission", address, p.Tool, p.CallID, p.Start})
				}
			}
		}
	}
	slices.SortStableFunc(v.Open, func(a, b StatusOpen) int { return a.Since.Compare(b.Since) })
	return v
}
