package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/term"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/spans"
)

// watchEvery is how often a session is looked at: one look-up of its mark. One that takes long to read is looked at
// less often.
const watchEvery = 200 * time.Millisecond

var errFollowFile = usagef("--follow wants a database: a file is read once")

// settleFor is how long nothing must have come of a session that is over before it is not followed any more.
const settleFor = 500 * time.Millisecond

// watch calls see with a session at once, whenever something of it arrived, and every watchEvery, since some of its
// state changes with nothing but time; changed says which. It ends when see says that it is done, or with ctx.
func (db *database) watch(ctx context.Context, key session.Key,
	read func(context.Context, session.Key) (session.Tree, error),
	see func(t session.Tree, changed bool, now time.Time) (done bool, err error),
) error {
	var t session.Tree
	var last store.Revision
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		began := time.Now()
		mark, err := db.store.Revision(ctx, key)
		if err != nil {
			return err
		}
		changed := mark != last
		if changed {
			last = mark // before it is read: what comes meanwhile is read again
			if t, err = read(ctx, key); err != nil {
				return err
			}
		}
		if done, err := see(t, changed, time.Now()); done || err != nil {
			return err
		}
		timer.Reset(max(watchEvery, 4*time.Since(began)))
	}
}

// The values of --follow.
const (
	followEnd     = "end"
	followForever = "forever"
)

// follow shows a session as it goes on, or one run of it, until it is over; forever with --follow=forever. Ctrl-C is a
// way to end it.
func (a *app) follow(ctx context.Context, db *database, key session.Key, addr address, mode string) error {
	if _, ok := db.store.(*memstore.Store); ok {
		return errFollowFile
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
	var (
		before string
		came   time.Time // when something last arrived
		kin    = kin{db: db, last: map[string]marked{}}
	)
	err := db.watch(ctx, key, db.read, func(t session.Tree, changed bool, now time.Time) (bool, error) {
		only, _, err := addr.pick(t.Session)
		if err != nil {
			return true, err
		}
		related, moved, err := kin.look(ctx, t.Session)
		if err != nil {
			return true, err
		}
		changed = changed || moved
		status := t.StatusAt(now)
		over := ended(status) || only != nil && only.StatusAt(now) != spans.RunStatusOpen
		first := before == ""
		if changed {
			came = now
		}
		// The last spans of a run may come in several batches.
		over = over && mode != followForever && (first || now.Sub(came) >= settleFor)
		all := string(status) // and of its kin, which time alone changes too
		for _, r := range related {
			all += " " + string(r.StatusAt(now))
		}
		if changed || over || all != before {
			before = all
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

// kin looks at the sessions that share a trace with the followed one, where its sub-agents are, as show does.
type kin struct {
	db   *database
	last map[string]marked // by id
}

// marked is a session as it was at a mark.
type marked struct {
	mark store.Revision
	tree session.Tree
}

// look returns them as they are now, and whether something came of one since it looked last. Only those are read again.
// One that was erased is not there any more.
func (k *kin) look(ctx context.Context, s *session.Session) (trees []session.Tree, changed bool, err error) {
	last := k.last
	k.last = map[string]marked{}
	trees, err = k.db.reader().Related(ctx, s, func(ctx context.Context, key session.Key) (session.Tree, error) {
		mark, err := k.db.store.Revision(ctx, key)
		m := last[key.ID]
		if err == nil && m.mark != mark {
			changed = true
			m = marked{mark: mark}
			m.tree, err = k.db.read(ctx, key)
		}
		if errors.Is(err, store.ErrNotFound) { // erased since it was listed
			return session.Tree{Session: &session.Session{ID: key.ID}}, nil
		}
		if err == nil {
			k.last[key.ID] = m
		}
		return m.tree, err
	})
	return trees, changed, err
}

// ended reports whether nothing is to be expected of a session before its next run.
func ended(s spans.SessionStatus) bool {
	return s == spans.SessionStatusIdle || s == spans.SessionStatusError || s == spans.SessionStatusAborted
}

// footer is the last line of a terminal, which is written anew. On anything else it does nothing.
type footer struct {
	w    io.Writer
	text string // that stands there
}

func newFooter(w io.Writer) *footer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &footer{w: w}
	}
	return &footer{}
}

func (f *footer) show(text string) {
	if f.w == nil || text == f.text {
		return
	}
	f.clear()
	f.text = text
	_, _ = io.WriteString(f.w, text)
}

func (f *footer) clear() {
	if f.w == nil || f.text == "" {
		return
	}
	f.text = ""
	_, _ = io.WriteString(f.w, "\r\x1b[K")
}
