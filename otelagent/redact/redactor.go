package redact

import "github.com/otelagent/otelagent/otelagent"

var _ otelagent.Redactor = (*Rules)(nil)

// Redact implements otelagent.Redactor by Apply.
func (r *Rules) Redact(p otelagent.Piece) (body []byte, changed int) {
	return r.Apply(p.Place, p.Role, p.Provenance, p.JSON, p.Body)
}
