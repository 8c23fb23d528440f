// Package search looks for text in what sessions captured, in any store.Store, and reports where it is: the address of
// the turn that first had it, and whether it is an input, a reply, the arguments or the result of a tool call, a system
// prompt and so on.
package search

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/mapped"
	"github.com/otelagent/otelagent/spans"
)

// Format is the version of the JSON form of a Result: Result.Format. Later versions add fields and never change one.
const Format = 1

// Options say what to look for, and where. The zero value looks for nothing: Text must not be empty.
type Options struct {
	Tenant string
	// Session is the id of the one session to look into; empty: all of the tenant, newest first.
	Session string
	// Text is what to look for, as it was said: of content that is JSON each text and number is a line of its own,
	// after the key that it has (command: ls), and escapes are undone. With Regexp it is a regular expression (RE2,
	// https://pkg.go.dev/regexp/syntax). With IgnoreCase letters match in either case. At most 1,000 bytes.
	Text       string
	Regexp     bool
	IgnoreCase bool
	// Limit bounds how many hits there are; zero or less means no bound.
	Limit int
}

// Hit is one block of content that holds what was looked for, or the reason of a permission. These are looked into
// where something was denied, where a run is open, where a block was found, and in the one session that is named. Its
// JSON form is part of `otelagent grep --output json` and the API (backend/store/README.md).
type Hit struct {
	Session string `json:"session"`
	// Address is that of the turn that first has it, SESSION/@RUN/TURN, and was not rewound where there is one; of what
	// belongs to no turn that of its run, else of the session.
	Address string `json:"address"`
	// Run and Turn are those of Address: id of the run, index of the turn; empty and nil for none.
	Run  string `json:"run,omitempty"`
	Turn *int64 `json:"turn,omitempty"`
	// Place says in words what it is there: user, system, input, reply, arguments, result, system prompt, tools,
	// parameters, request, summary, event, title and the like. Call and Tool are id and name of the tool call of
	// arguments and results.
	Place string `json:"place"`
	Call  string `json:"call,omitempty"`
	Tool  string `json:"tool,omitempty"`
	// At is when the turn or run began; zero where it belongs to neither.
	At time.Time `json:"at,omitzero"`
	// Before, Match and After are the text around the first match, on its line: valid UTF-8, at most about 80 bytes
	// each, and Match 200. It is content, as it was said: inspect.Clean makes it safe for a terminal.
	Before string `json:"before,omitempty"`
	Match  string `json:"match"`
	After  string `json:"after,omitempty"`
	// Matches is how often the block has it, counted up to 1,000. Further is how many other turns name the same block
	// anew; history that a request repeats is not counted.
	Matches int `json:"matches"`
	Further int `json:"further,omitempty"`
	// Hidden says that it was rewound, at all places.
	Hidden bool `json:"hidden,omitempty"`
	// Block names the block; empty of the reason of a permission, which is in none.
	Block string `json:"block"`
}

// Result is what was found.
type Result struct {
	Format int   `json:"format"`
	Hits   []Hit `json:"hits"`
	// Sessions is how many sessions were looked into. More says that the limit ended the search: there may be further
	// hits.
	Sessions int  `json:"sessions"`
	More     bool `json:"more,omitempty"`
}

// MaxOfSession bounds how many blocks of one session are remembered as hits: further ones are left out, and More says
// so.
const MaxOfSession = 10_000

// ErrText is wrapped by errors of Run about a text that cannot be looked for.
var ErrText = errors.New("cannot look for that")

// Run searches. Sessions come newest first, hits of a session in the order of its tree. It streams session by session:
// memory is that of the hits, and of one session with its blocks. The error may wrap ErrText, or is the
// store's or that of ctx; then the result holds what was found before.
func Run(ctx context.Context, st store.Store, o Options) (*Result, error) {
	res := &Result{Format: Format, Hits: []Hit{}}
	m, err := newMatcher(o)
	if err != nil {
		return res, err
	}
	for s, err := range sessions(ctx, st, o) {
		if err != nil {
			return res, fmt.Errorf("search: %w", err)
		}
		k := s.Key
		hits, more, err := inSession(ctx, st, s, m)
		if err != nil {
			if ctx.Err() == nil && errors.Is(err, store.ErrNotFound) {
				continue // deleted meanwhile
			}
			return res, fmt.Errorf("search: session %q: %w", k.ID, err)
		}
		res.Sessions++
		res.More = res.More || more
		if room := o.Limit - len(res.Hits); o.Limit > 0 && len(hits) > room {
			res.Hits, res.More = append(res.Hits, hits[:room]...), true
			return res, nil
		}
		res.Hits = append(res.Hits, hits...)
	}
	return res, nil
}

// searched is a session to look into. rows says that some of what was said may be with its rows: partial replies of
// runs that are open, those of a process that was killed among them, and why something was denied.
type searched struct {
	session.Key
	rows bool
	// mapped says that other sessions may hold blocks of it, which its rows say.
	mapped bool
}

func sessions(ctx context.Context, st store.Store, o Options) iter.Seq2[searched, error] {
	return func(yield func(searched, error) bool) {
		if o.Session != "" {
			yield(searched{session.Key{Tenant: o.Tenant, ID: o.Session}, true, true}, nil)
			return
		}
		for m, err := range st.Sessions(ctx, store.Query{Tenant: o.Tenant}) {
			if !yield(searched{m.Key, live(&m) || m.Denied > 0, m.Mapped != "" || m.Status == ""}, err) || err != nil {
				return
			}
		}
	}
}

// live reports whether a session may have runs that are open. One that went on after them has Settled, whatever
// its status; one that was never projected says nothing.
func live(m *session.Summary) bool {
	return m.Settled != "" || m.Status != spans.SessionStatusIdle && m.Status != spans.SessionStatusError
}

// found is a block that holds what was looked for.
type found struct {
	snippet
	same    spans.ShortID // equal for bodies that are one message in two spellings
	by      string        // who says it, where it is a message
	message string        // that a row of the guide belongs to
}

// inSession searches one session.
func inSession(ctx context.Context, st store.Store, k searched, m *matcher) (hits []Hit, more bool, err error) {
	var tree *session.Session
	if k.mapped {
		if tree, err = mapped.Tree(ctx, st, k.Key); err != nil {
			return nil, false, err
		}
	}
	set := &session.BlockSet{}
	var ids []spans.ShortID
	pieces := map[spans.ShortID]bool{} // of templates
	for b, err := range mapped.Blocks(ctx, st, k.Key, linksOf(tree)) {
		if err != nil {
			return nil, false, err
		}
		set.Add(b)
		ids = append(ids, b.ID.Short())
		for id := range spans.Blocks(b.Body) {
			pieces[id] = true
		}
	}
	blocks := map[spans.ShortID]found{}
	add := func(id spans.ShortID, body string) {
		s, ok := m.find(plain(body))
		switch {
		case !ok:
		case len(blocks) == MaxOfSession:
			more = true
		default:
			f := found{snippet: s}
			f.by, f.message = about(body)
			f.same = id
			if same, ok := session.SameMessage(body); ok && f.by != "" {
				f.same = same
			}
			blocks[id] = f
		}
	}
	for _, id := range ids {
		ref := session.Ref{Block: id.String()}
		if body, ok := set.Body(ref); ok {
			add(id, body)
		} else if body, _, ok := set.Cut(ref); ok {
			add(id, body)
		}
	}
	if len(blocks) == 0 && !k.rows {
		return nil, more, nil
	}
	if tree == nil {
		if tree, err = mapped.Tree(ctx, st, k.Key); err != nil {
			return nil, false, err
		}
	}
	for _, b := range tree.LiveBlocks() {
		add(b.ID.Short(), b.Body)
	}
	w := walker{tree: tree, matcher: m, blocks: blocks, history: session.HistoryOf(tree, set), at: map[spans.ShortID]int{},
		inFacts: map[spans.ShortID]bool{}, folded: map[int]bool{}, further: map[int]*session.Turn{}}
	w.session()
	var rest []spans.ShortID
	for id, f := range blocks {
		if _, ok := w.at[f.same]; !ok && !pieces[id] && !w.inFacts[id] {
			rest = append(rest, id)
		}
	}
	slices.SortFunc(rest, func(a, b spans.ShortID) int { return slices.Compare(a[:], b[:]) })
	w.run, w.turn = nil, nil
	for _, id := range rest {
		w.hit(id, Hit{Place: "of no place that arrived"})
	}
	return slices.DeleteFunc(w.hits, func(h Hit) bool { return h.Address == "" }), more, nil
}

func linksOf(t *session.Session) *session.Links {
	if t == nil {
		return nil
	}
	return t.Links
}
