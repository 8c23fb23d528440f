package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/mapped"
	"github.com/otelagent/otelagent/backend/store/reader"
	"github.com/otelagent/otelagent/spans"
)

// watchEvery is how often the revision of a session is read. A session that takes long to read is read less often.
const watchEvery = 200 * time.Millisecond

// settleFor is how long no span of a session that is over may have arrived before `show --follow` ends.
const settleFor = 500 * time.Millisecond

var errFollowFile = usagef("want a database: a file is read once")

// changes reads sessions, each again only when a span of it arrived.
type changes struct {
	db   *database
	last map[session.Key]readAt
	// changed says that a session was read since it was set to false.
	changed bool
}

type readAt struct {
	at   store.Revision
	tree session.Tree
}

func (c *changes) read(ctx context.Context, key session.Key) (session.Tree, error) {
	v, known := c.last[key]
	var links *session.Links
	if known {
		links = v.tree.Links
	}
	at, err := mapped.Revision(ctx, c.db.Store, key, links)
	if err != nil {
		delete(c.last, key)
		return session.Tree{}, err
	}
	if !known || v.at != at {
		if v.tree, err = c.db.Read(ctx, key); err != nil {
			return v.tree, err
		}
		c.changed = true
		v.at = at // as of before it was read: a span that arrives meanwhile makes it read again
		if links := v.tree.Links; links != nil {
			v.at = store.Revision(links.Revision)
		}
		c.last[key] = v
	}
	return v.tree, nil
}

// related reads the sessions that share a trace with s, where its sub-agents are. A session that was erased since it
// was listed is empty.
func (c *changes) related(ctx context.Context, s *session.Session) ([]session.Tree, error) {
	return c.db.Related(ctx, s, func(ctx context.Context, key session.Key) (session.Tree, error) {
		t, err := c.read(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return session.Tree{Session: &session.Session{ID: key.ID}}, nil
		}
		return t, err
	})
}

// watch calls see with a session every watchEvery: the time alone changes parts of its state. It ends when see returns
// that it is done, or with ctx.
func (c *changes) watch(ctx context.Context, key session.Key,
	see func(t session.Tree, now time.Time) (done bool, err error)) error {
	for {
		began := time.Now()
		c.changed = false
		t, err := c.read(ctx, key)
		if err != nil {
			return err
		}
		if done, err := see(t, time.Now()); done || err != nil {
			return err
		}
		if err := pause(ctx, max(watchEvery, 4*time.Since(began))); err != nil {
			return err
		}
	}
}

// pause waits, unless ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// The values of --follow.
const (
	followEnd     = "end"
	followForever = "forever"
)

// follow prints what happens in a session, or in one run of it, until it is over, or until Ctrl-C.
func (a *app) follow(ctx context.Context, db *database, key session.Key, addr reader.Address, mode string) error {
	if db.recording {
		return usagef("--follow: %w", errFollowFile)
	}
	if addr.Turn != "" {
		return usagef("--follow wants a session, or one run of it")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	o := look(a.stdout)
	f := inspect.NewFollower(a.stdout, o)
	foot := newFooter(a.stdout)
	defer foot.clear()
	var before string     // the statuses that were printed
	var arrived time.Time // when the last span did
	c := &changes{db: db, last: map[session.Key]readAt{}}
	err := c.watch(ctx, key, func(t session.Tree, now time.Time) (bool, error) {
		only, _, err := addr.Pick(t.Session)
		if err != nil {
			return true, err
		}
		related, err := c.related(ctx, t.Session)
		if err != nil {
			return true, err
		}
		if c.changed {
			arrived = now
		}
		status := t.StatusAt(now)
		over := slices.Contains(ended, status) || only != nil && only.StatusAt(now) != spans.RunStatusOpen
		// The last spans of a run may come in several batches.
		over = over && mode != followForever && (before == "" || now.Sub(arrived) >= settleFor)
		statuses := string(status)
		for _, r := range related {
			statuses += " " + string(r.StatusAt(now))
		}
		if c.changed || over || statuses != before {
			before = statuses
			foot.clear()
			if err := f.Write(t, related, only, now, over); err != nil || over {
				return true, err
			}
		}
		foot.show(f.Line(t, now, o.Width))
		return false, nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// ended are the statuses of a session that waits for its next run.
var ended = []spans.SessionStatus{spans.SessionStatusIdle, spans.SessionStatusError, spans.SessionStatusAborted}
