package agentsessionexporter

import (
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/store"
)

// sessionKeys returns the sessions that a batch has rows of, each once, in the order of their
// first row. Batches hold few sessions, so a map pays only for the rare long one.
func sessionKeys(b session.Batch) []store.SessionKey {
	var keys []store.SessionKey
	var last store.SessionKey
	seen := map[store.SessionKey]struct{}{}
	for i := range b.Rows {
		k := store.SessionKey{Tenant: b.Rows[i].Tenant, ID: b.Rows[i].SessionID}
		if k == last && len(keys) > 0 {
			continue // rows of one session come together
		}
		last = k
		if _, ok := seen[k]; !ok {
			seen[k] = struct{}{}
			keys = append(keys, k)
		}
	}
	return keys
}
