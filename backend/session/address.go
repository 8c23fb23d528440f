package session

import "strconv"

// RunAddress returns the address of the n-th run of a session, from 1: SESSION/@N. Nothing of the id is changed: one with slashes in it is
// an address that commands find as it stands, and one from outside is not safe for a terminal.
func RunAddress(session string, n int) string { return session + "/@" + strconv.Itoa(n) }

// TurnAddress returns the address of a turn of the n-th run of a session, from 1: SESSION/@N/TURN. Index is Turn.Index; see RunAddress.
func TurnAddress(session string, n int, index int64) string {
	return RunAddress(session, n) + "/" + strconv.FormatInt(index, 10)
}
