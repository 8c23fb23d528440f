package foreign

import "github.com/otelagent/otelagent/backend/session"

// Map returns the rows of the session want: rows of the five kinds and payload rows as they are, and what the foreign
// rows among the given ones come to. It is a pure function of the set of rows: order and repeats change nothing.
//
// The rows are those of want, and of every session that has a row in one of their traces (closed under that relation):
// a record that names no session belongs to the one that its nearest ancestor names, else to the only one that its trace
// names, else to the session of its trace. Of a session whose rows all belong to others Map returns nothing.
func (t *Table) Map(rows []session.Row, want session.Key) []session.Row { return rows }
