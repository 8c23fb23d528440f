package session

import "strconv"

// RunAddress returns the address of the n-th run of a session, from 1: SESSION/@N. It does not change the id:
// commands find one with slashes, and one from outside is not safe for a terminal.
func RunAddress(session string, n int) string { return session + "/@" + strconv.Itoa(n) }

// TurnAddress returns the address of a turn of the n-th run of a session, from 1: SESSION/@N/TURN. Index is
// Turn.Index; see RunAddress.
func TurnAddress(session string, n int, index int64) string {
	return RunAddress(session, n) + "/" + strconv.FormatInt(index, 10)
}
