// Package reader reads sessions from a store by what people call them: addresses, as the command line and the viewer
// take them.
package reader

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/mapped"
)

// Reader reads the sessions of one tenant. It is safe for concurrent use where Refresh is.
type Reader struct {
	Store  store.Store
	Tenant string
	// Name is what the store is called in errors; empty is "the store".
	Name string
	// Refresh brings summaries up to date, of which `last`, lists and the beginnings of ids are made. Nil: something
	// else does.
	Refresh func(context.Context) error
}

func (r *Reader) refresh(ctx context.Context) error {
	if r.Refresh == nil {
		return nil
	}
	return r.Refresh(ctx)
}

const (
	// maxCandidates bounds how many sessions an error about an ambiguous reference names.
	maxCandidates = 5
	// maxHolders bounds how many sessions that may be meant are looked at, parts of one session among them.
	maxHolders = 100
)

// Resolve returns the session that ref names: its id; `last`, the newest by its summary; the beginning of an id that no
// other session shares; or a trace id or span id in hexadecimal of a span that it or a part of it holds. The first of
// these wins. It brings summaries up to date where ref is no id. An *Error says what is wrong with ref.
func (r *Reader) Resolve(ctx context.Context, ref string) (session.Key, error) {
	key := session.Key{Tenant: r.Tenant, ID: ref}
	if _, err := r.Store.Revision(ctx, key); !errors.Is(err, store.ErrNotFound) {
		return key, err
	}
	if err := r.refresh(ctx); err != nil {
		return key, err
	}
	queries := []store.Query{{Prefix: ref}}
	if ref == store.Last {
		queries = []store.Query{{}, queries[0]}
	}
	var trace session.TraceID
	var span session.SpanID
	switch b, err := hex.DecodeString(ref); {
	case err != nil, strings.Trim(ref, "0") == "": // the latter is the id of no span, and any in a Query
	case len(b) == len(trace):
		queries = append(queries, store.Query{Traces: []session.TraceID{session.TraceID(b)}, Parts: true})
	case len(b) == len(span):
		queries = append(queries, store.Query{Span: session.SpanID(b), Parts: true})
	}
	for i, q := range queries {
		if q.Tenant, q.Limit = r.Tenant, maxHolders; ref == store.Last && i == 0 {
			q.Limit = 1
		}
		var found []string
		for s, err := range r.Store.Sessions(ctx, q) {
			if err != nil {
				return key, fmt.Errorf("session %q: %w", ref, err)
			}
			if s.Part {
				s.ID = s.Parent // which shows what the part holds
			}
			if id := strconv.Quote(s.ID); s.ID != "" && !slices.Contains(found, id) {
				key, found = s.Key, append(found, id)
			}
		}
		if ref == "" {
			break
		}
		switch {
		case len(found) == 1:
			return key, nil
		case len(found) > maxCandidates:
			found = append(found[:maxCandidates-1], found[maxCandidates-1]+" and more")
			fallthrough
		case len(found) > 1:
			return key, wrong(store.ErrAmbiguous, "session %q: ambiguous: could be %s", ref, strings.Join(found, ", "))
		}
	}
	whole := ""
	if strings.Contains(ref, "/") { // which ids may have too
		whole = ", and whole sessions are wanted here, without RUN and TURN"
	}
	return key, wrong(store.ErrNotFound, "no session %q in %s%s; 'otelagent ls' lists what is there", ref,
		cmp.Or(r.Name, "the store"), whole)
}

// Locate returns the session that SESSION[/RUN[/TURN]] names, and what of it. Ids may have slashes in them: what is the
// whole id of a session is that, before anything is taken for a RUN. Address.Pick checks that there is such a RUN and
// TURN.
func (r *Reader) Locate(ctx context.Context, text string) (session.Key, Address, error) {
	id, rest := text, []string{"", ""}
	for range 3 {
		key := session.Key{Tenant: r.Tenant, ID: id}
		switch _, err := r.Store.Revision(ctx, key); {
		case err == nil:
			return key, Address{Session: id, Run: rest[0], Turn: rest[1]}, r.refresh(ctx)
		case !errors.Is(err, store.ErrNotFound):
			return key, Address{}, err
		}
		i := strings.LastIndexByte(id, '/')
		if i < 0 {
			break
		}
		id, rest = id[:i], []string{id[i+1:], rest[0]}
	}
	addr, err := ParseAddress(text)
	if err != nil {
		return session.Key{}, addr, err
	}
	key, err := r.Resolve(ctx, addr.Session)
	return key, addr, err
}

// WithSubAgents returns the sessions that refs name, each once, and unless only is set the sub-agents of them. Parts of
// a session come with it. What is wrong with any of refs is in one error.
func (r *Reader) WithSubAgents(ctx context.Context, refs []string, only bool) ([]session.Key, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	var keys []session.Key
	var missing []error
	for _, ref := range refs {
		key, err := r.Resolve(ctx, ref)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		keys = append(keys, key)
		below, err := store.Descendants(ctx, r.Store, key, only)
		if err != nil {
			return nil, err
		}
		keys = append(keys, below...)
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	seen := map[session.Key]bool{}
	return slices.DeleteFunc(keys, func(k session.Key) bool {
		was := seen[k]
		seen[k] = true
		return was
	}), nil
}

// Tree returns a session's tree without its blocks. Of a session that is part of another one an *Error names that.
func (r *Reader) Tree(ctx context.Context, key session.Key) (*session.Session, error) {
	s, err := mapped.Open(ctx, r.Store, key)
	if err != nil {
		return nil, err
	}
	if owner := s.Owner().ID; owner != "" {
		return nil, wrong(store.ErrNotFound, "session %q is part of session %q, which shows what it holds", key.ID, owner)
	}
	return s.Tree(), nil
}

// Read returns a session's tree with its blocks.
func (r *Reader) Read(ctx context.Context, key session.Key) (session.Tree, error) {
	s, err := r.Tree(ctx, key)
	if err != nil {
		return session.Tree{}, err
	}
	return session.NewTree(s, mapped.Blocks(ctx, r.Store, key, s.Links))
}

// Load is Read with the defects that only blocks show.
func (r *Reader) Load(ctx context.Context, key session.Key) (session.Tree, error) {
	t, err := r.Read(ctx, key)
	if err == nil {
		t.CheckContent(t.Blocks)
	}
	return t, err
}

// maxRelated bounds how many sessions are shown in place; more have to be shown one by one.
const maxRelated = 200

// Related returns the sessions that share a trace with s, and those that share one with them, at most 200: sub-agents
// run in the trace of the run that spawned them. Load reads each.
func (r *Reader) Related(ctx context.Context, s *session.Session,
	load func(context.Context, session.Key) (session.Tree, error)) ([]session.Tree, error) {
	seen := map[string]bool{s.ID: true}
	traces := map[session.TraceID]bool{}
	var out []session.Tree
	for todo := []*session.Session{s}; len(todo) > 0; todo = todo[1:] {
		var ids []session.TraceID // that were not looked up yet
		for _, run := range todo[0].Runs {
			b, err := hex.DecodeString(run.TraceID)
			if err != nil || len(b) != len(session.TraceID{}) || traces[session.TraceID(b)] {
				continue
			}
			traces[session.TraceID(b)], ids = true, append(ids, session.TraceID(b))
		}
		for some := range slices.Chunk(ids, tracesAtOnce) {
			q := store.Query{Tenant: r.Tenant, Traces: some, Limit: len(seen) + maxRelated}
			for sum, err := range r.Store.Sessions(ctx, q) {
				if err != nil {
					return nil, err
				}
				if seen[sum.ID] || len(out) >= maxRelated {
					continue
				}
				seen[sum.ID] = true
				other, err := load(ctx, sum.Key)
				if errors.Is(err, store.ErrNotFound) {
					continue // deleted meanwhile
				}
				if err != nil {
					return nil, err
				}
				out = append(out, other)
				todo = append(todo, other.Session)
			}
		}
	}
	return out, nil
}

// tracesAtOnce is how many traces one query names.
const tracesAtOnce = 500
