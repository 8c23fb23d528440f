// Package export writes Session trees in the formats of others: rows of the agent guide, phi-core's ledger, ACP.
package export

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// ErrContent is wrapped when a session cannot be written because content that the format demands was not captured or
// did not arrive.
var ErrContent = errors.New("content missing")

// ErrEmpty is wrapped when a session holds nothing that the format can express.
var ErrEmpty = errors.New("nothing to export")

// Options are those of all formats. The zero value refuses to omit anything, writes all there is, and knows no other
// session.
type Options struct {
	// Partial writes the content that is there. The writer omits the rest and returns what it omitted.
	Partial bool
	// Session, if set, returns the tree of another session of the same tenant, or nil. The writers ask it for the
	// parent of a session, to find the tool call that spawned it.
	Session func(id string) *session.Session
	// CallMessage, if set, returns the id of the guide's message row that holds a tool call of another session, ""
	// where that is not known. Function CallMessage computes it from a tree.
	CallMessage func(session, callID string) string
}

// Missing is one piece of content that a format demands and that is not there.
type Missing struct {
	// Where is an address: RUN@START, RUN@START/TURN. START is the start of the run, because loops reuse run ids.
	Where string
	// What names the list and the blocks, or the reason.
	What string
}

func (m Missing) String() string { return m.Where + ": " + m.What }

// MissingError names the content of a session that could not be written. It wraps ErrContent.
type MissingError struct {
	Session string
	Missing []Missing
}

func (e *MissingError) Error() string {
	const most = 3
	var names []string
	for _, m := range e.Missing[:min(len(e.Missing), most)] {
		names = append(names, m.String())
	}
	if len(e.Missing) > most {
		names = append(names, "...")
	}
	return fmt.Sprintf("export: session %s: %d pieces of content are missing: %s", e.Session, len(e.Missing),
		strings.Join(names, "; "))
}

// Unwrap returns ErrContent.
func (e *MissingError) Unwrap() error { return ErrContent }

func whereRun(r *session.Run) string { return r.ID + "@" + r.Start.Format(time.RFC3339Nano) }

func whereTurn(r *session.Run, t *session.Turn) string {
	if t == nil {
		return whereRun(r)
	}
	return fmt.Sprintf("%s/%d", whereRun(r), t.Index)
}
