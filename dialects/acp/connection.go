package acp

import (
	"slices"

	"github.com/otelagent/otelagent/otelagent"
)

// conn is what is remembered of one connection between a client and an agent.
type conn struct {
	pending []*pending // by time
	// What the two said when they met, each as JSON, nil before that.
	initParams, initResult []byte
	agent                  string // agentInfo.name
	later                  bool   // it speaks a later version than 1, which is only kept
}

// pending is a request without a response.
type pending struct {
	at      otelagent.Meta // of the request
	dir     Direction
	id      string // as it is spelled
	method  string
	session string
	params  []byte // a copy, where the response needs them
	run     *run   // the prompt that it is, or that was open when an agent asked
	call    *call  // the tool call that it is about
	term    *terminal
}

// connOf returns the connection of that name.
func (d *Decoder) connOf(name string) *conn {
	c := d.conns[name]
	if c == nil {
		if len(d.conns) == maxConns { // they are told apart by name only, so none is known to be older
			for _, old := range d.conns {
				d.met(old)
			}
			clear(d.conns)
		}
		c = &conn{}
		d.conns[name] = c
	}
	return c
}

// met begins the connection anew: what the one before it of that name did not answer never will be.
func (d *Decoder) met(c *conn) {
	for _, p := range c.pending {
		d.free(p)
		if p.method == mPrompt && p.run != nil {
			d.abandon(p.run)
		}
	}
	*c = conn{}
}

func (d *Decoder) free(p *pending) {
	d.held -= len(p.params)
	p.params = nil
}

// ask remembers a request.
func (d *Decoder) ask(c *conn, f *frame, p *pending) {
	p.at, p.dir, p.id, p.method = f.meta, f.dir, string(f.id), f.method
	p.at.Session, p.at.Run = "", ""
	if len(c.pending) == maxPending {
		d.free(c.pending[0])
		c.pending = slices.Delete(c.pending, 0, 1)
	}
	c.pending = append(c.pending, p)
}

// copied returns a copy of value that counts as held, nil when there is no room.
func (d *Decoder) copied(value []byte) []byte {
	if d.held+len(value) > maxHeld {
		return nil
	}
	d.held += len(value)
	return append([]byte{}, value...)
}

// answered finds the request that a response answers, and forgets it. Both sides number from 0, so where the direction is not known two
// requests may have that id: then it is the one that the result can belong to, and else the one that was sent last, and sure is false.
func (d *Decoder) answered(c *conn, f *frame) (p *pending, sure bool) {
	var at []int
	for i, p := range c.pending {
		if p.id == string(f.id) && (f.dir == Unknown || p.dir == Unknown || p.dir == f.dir.back()) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil, false
	}
	found, sure := at[len(at)-1], true
	if len(at) > 1 && f.err == nil {
		fit := at[:0:0]
		for _, i := range at {
			if m := methods[c.pending[i].method]; m.fits(f.result) {
				fit = append(fit, i)
			}
		}
		if len(fit) > 0 {
			at, found = fit, fit[len(fit)-1]
		}
	}
	if len(at) > 1 && (f.dir == Unknown || f.err != nil) {
		sure = false
	}
	p = c.pending[found]
	c.pending = slices.Delete(c.pending, found, found+1)
	return p, sure
}
