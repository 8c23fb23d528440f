package store

import (
	"context"

	"github.com/otelagent/otelagent/backend/session"
)

// Descendants returns the sub-agents and parts of a session, by Summary.Parent, and theirs, nearest first, each once; k
// itself is not among them. With onlyParts it returns no sub-agents. Summaries must be current (project.Refresh).
func Descendants(ctx context.Context, st Store, k session.Key, onlyParts bool) ([]session.Key, error) {
	seen := map[session.Key]bool{k: true}
	var out []session.Key
	for todo := []session.Key{k}; len(todo) > 0; todo = todo[1:] {
		for s, err := range st.Sessions(ctx, Query{Tenant: k.Tenant, Parent: todo[0].ID, Parts: true}) {
			if err != nil {
				return nil, err
			}
			if !seen[s.Key] && (s.Part || !onlyParts) {
				seen[s.Key] = true
				out = append(out, s.Key)
				todo = append(todo, s.Key)
			}
		}
	}
	return out, nil
}
