package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
)

// ErrAmbiguous is wrapped by errors about a reference that several sessions answer to.
var ErrAmbiguous = errors.New("ambiguous")

// Last is the reference that names the newest session.
const Last = "last"

// maxCandidates bounds how many sessions an ErrAmbiguous names.
const maxCandidates = 5

// Resolve returns the session of a tenant that ref names: its id; `last`, the newest by what Sessions yields; the
// beginning of an id that no other session shares; or a trace id or span id in hexadecimal of a span that it holds.
// What comes first in this list wins. Errors name ref and wrap ErrNotFound or ErrAmbiguous, the latter with the
// candidates.
func Resolve(ctx context.Context, st Store, tenant, ref string) (session.Key, error) {
	if ref == "" {
		return session.Key{}, fmt.Errorf("store: session %q: give an id, the beginning of one, %q, or a trace or span id: %w",
			ref, Last, ErrNotFound)
	}
	exact := session.Key{Tenant: tenant, ID: ref}
	switch _, err := st.Revision(ctx, exact); {
	case err == nil:
		return exact, nil
	case !errors.Is(err, ErrNotFound):
		return session.Key{}, fmt.Errorf("store: session %q: %w", ref, err)
	}

	queries := []Query{{Tenant: tenant, Prefix: ref, Limit: maxCandidates + 1}}
	if ref == Last {
		queries = []Query{{Tenant: tenant, Limit: 1}, queries[0]}
	}
	var trace session.TraceID
	var span session.SpanID
	switch b, err := hex.DecodeString(ref); {
	case err != nil:
	case len(strings.Trim(ref, "0")) == 0: // the id of no span, and any in a Query
	case len(b) == len(trace):
		queries = append(queries, Query{Tenant: tenant, Trace: session.TraceID(b), Limit: maxCandidates + 1})
	case len(b) == len(span):
		queries = append(queries, Query{Tenant: tenant, Span: session.SpanID(b), Limit: maxCandidates + 1})
	}
	for _, q := range queries {
		var found []session.Key
		for s, err := range st.Sessions(ctx, q) {
			if err != nil {
				return session.Key{}, fmt.Errorf("store: session %q: %w", ref, err)
			}
			found = append(found, s.Key)
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return session.Key{}, fmt.Errorf("store: session %q: %w: could be %s", ref, ErrAmbiguous, candidates(found))
		}
	}
	return session.Key{}, fmt.Errorf("store: session %q: %w", ref, ErrNotFound)
}

func candidates(keys []session.Key) string {
	var b strings.Builder
	for i, k := range keys {
		if i == maxCandidates {
			b.WriteString(" and more")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", k.ID)
	}
	return b.String()
}
