package phi

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// document reads a ledger, or an array of ledgers.
func (d *Decoder) document(raw []byte) {
	// phi-core lays its files out for people, but not its events.
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		d.shell.RejectSyntax(err)
		return
	}
	list := object.Of("", input.Members("", compact.Bytes()))
	ledgers := [][]byte{compact.Bytes()}
	if raw[0] == '[' {
		ledgers = list.List("")
	}
	for i, ledger := range ledgers {
		at := ""
		if raw[0] == '[' {
			at = object.Element("", i)
		}
		if ledger[0] == '{' {
			d.session(at, ledger)
		} else {
			d.problem(at, "want a session, got "+rawjson.KindOf(ledger))
		}
	}
	d.shell.RejectProblems("", list)
}

// problem rejects what stands at a place of the document.
func (d *Decoder) problem(path, reason string) {
	d.shell.Reject(&input.LineError{Field: path, Reason: reason})
}

// timeOf returns the time that a JSON string says; zero when it says none.
func timeOf(raw []byte) time.Time {
	if len(raw) == 0 || raw[0] != '"' {
		return time.Time{}
	}
	t, _ := input.Time(raw)
	return t
}
