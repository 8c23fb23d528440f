package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// researcher is an agent of another service.
type researcher struct{ tracer *otelagent.Tracer }

// ask is the handler of one question. Session, parent run and tool call are in the baggage of the request; the run
// finds them itself.
func (s researcher) ask(w http.ResponseWriter, r *http.Request) {
	asked, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "no question", http.StatusBadRequest)
		return
	}
	const text = "Parcels take three days."
	ctx, run := s.tracer.StartRun(r.Context(), otelagent.RunInfo{Agent: "researcher", Model: "scripted-2"})
	_, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerUser})
	question, reply := message("user", string(asked)), message("assistant", text)
	turn.AddMessage(question)
	turn.Request(request("scripted-2", question))
	turn.End(otelagent.TurnResult{Output: &reply, StopReason: "stop", Usage: &otelagent.Usage{Input: 12, Output: 7}})
	run.End(otelagent.RunResult{})
	fmt.Fprint(w, text)
}
