package agentsessionexporter

import "github.com/otelagent/otelagent/session"

// sessionKeys returns the sessions that a batch touches, each once, in the order met.
func sessionKeys(b session.Batch) []session.Key {
	var keys []session.Key
	seen := map[session.Key]struct{}{}
	add := func(k session.Key) {
		if n := len(keys); n > 0 && keys[n-1] == k {
			return // what belongs to one session mostly comes together
		}
		if _, ok := seen[k]; !ok {
			seen[k] = struct{}{}
			keys = append(keys, k)
		}
	}
	for i := range b.Rows {
		add(b.Rows[i].Session)
	}
	for i := range b.Blocks {
		add(b.Blocks[i].Session)
	}
	return keys
}
