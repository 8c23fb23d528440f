package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

const (
	// packSize is how many bytes of bodies are compressed together; a larger body has a pack of its own. Reading one
	// block decompresses this much.
	packSize = 512 << 10
	// packWindow is how far back in a large body the compressor looks.
	packWindow = 1 << 20
	// mergePacks bounds how many packs become one in a step.
	mergePacks = 256
)

// packer writes blocks of one batch, inside a transaction.
type packer struct {
	ctx    context.Context
	stmts  *statements
	newest int64 // pack number, 0: not asked for yet
	open   map[int64]*openPack
	body   []byte
}

// openPack is one that more bodies go into.
type openPack struct {
	pack, session int64
	raw           []byte
}

// add keeps a block unless one with its id that is as good is there, and reports whether it did.
func (p *packer) add(session int64, b *session.Block) (bool, error) {
	if b.Body == "" {
		return p.place(session, b, 0, 0)
	}
	o := p.open[session]
	if o == nil || len(o.raw)+len(b.Body) > packSize {
		if o != nil {
			if err := p.write(o); err != nil {
				return false, err
			}
		}
		pack, err := p.number()
		if err != nil {
			return false, err
		}
		o = &openPack{pack: pack, session: session}
		if p.open == nil {
			p.open = map[int64]*openPack{}
		}
		p.open[session] = o
	}
	kept, err := p.place(session, b, o.pack, len(o.raw))
	if kept {
		o.raw = append(o.raw, b.Body...)
	}
	return kept, err
}

// number returns one for a new pack, above all that are there.
func (p *packer) number() (int64, error) {
	if p.newest == 0 {
		if err := p.stmts.newest.QueryRowContext(p.ctx).Scan(&p.newest); err != nil {
			return 0, err
		}
	}
	p.newest++
	return p.newest, nil
}

// place notes where the body of a block is going to be, and reports whether it is to be put there.
func (p *packer) place(session int64, b *session.Block, pack int64, start int) (bool, error) {
	res, err := p.stmts.block.ExecContext(p.ctx, session, b.ID[:], b.Size, pack, start, len(b.Body))
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

func (p *packer) write(o *openPack) error {
	if len(o.raw) == 0 {
		return nil // everything was there
	}
	p.body = packEncoder().EncodeAll(o.raw, p.body[:0])
	_, err := p.stmts.pack.ExecContext(p.ctx, o.pack, o.session, len(o.raw), p.body)
	return err
}

// flush writes what is open. The packer is empty afterwards.
func (p *packer) flush() error {
	for _, o := range p.open {
		if err := p.write(o); err != nil {
			return err
		}
	}
	p.open = nil
	return nil
}

// tidy merges packs that became small because few blocks came at a time. Each step
// reads and compresses outside of the writing connection and then takes it for some milliseconds; after a step that did
// not happen, everything is as before. A pack is rewritten each time that the session grew by half of it, until it is
// full.
func (s *Store) tidy(ctx context.Context, k session.Key) error {
	for {
		more, err := s.merge(ctx, k)
		if err != nil {
			return fmt.Errorf("sqlitestore: merge packs: %w", atRest(err))
		}
		if !more {
			return nil
		}
	}
}

// smallPack is one of those that merge makes a larger one of.
type smallPack struct{ session, pack, raw int64 }

// merge makes one pack of several and reports whether it did.
func (s *Store) merge(ctx context.Context, k session.Key) (bool, error) {
	if s.turn == nil {
		return false, store.ErrReadOnly
	}
	from, err := s.smallPacks(ctx, k)
	if err != nil || len(from) < 2 {
		return false, err
	}
	var numbers []int64
	for _, p := range from {
		numbers = append(numbers, p.pack)
	}
	list, err := json.Marshal(numbers)
	if err != nil {
		return false, err
	}
	session := from[0].session
	raw, moves, err := s.gather(ctx, session, string(list))
	if err != nil {
		return false, err
	}
	body := packEncoder().EncodeAll(raw, nil)
	err = s.transact(ctx, func(ctx context.Context) error {
		// Somebody else may have deleted the session, whose number is not used again, or merged them. Within a session
		// numbers of packs only grow, so that these are the packs that were read.
		var there bool
		if err := s.conn.QueryRowContext(ctx, `SELECT count(*) FROM sessions WHERE session = ?`,
			session).Scan(&there); err != nil || !there {
			return errors.Join(err, errOthers)
		}
		res,
			err := s.conn.ExecContext(ctx, `DELETE FROM packs WHERE session = ? AND pack IN (SELECT value FROM json_each(?))`,
			session, string(list))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != int64(len(from)) {
			return errors.Join(err, errOthers)
		}
		var newest int64
		if err := s.stmts.newest.QueryRowContext(ctx).Scan(&newest); err != nil {
			return err
		}
		to := max(newest, from[len(from)-1].pack) + 1
		if len(raw) > 0 { // else nothing of them is used any more
			if _, err := s.stmts.pack.ExecContext(ctx, to, session, len(raw), body); err != nil {
				return err
			}
		}
		move,
			err := s.conn.PrepareContext(ctx, `UPDATE blocks SET pack = ?, start = ? WHERE session = ? AND id = ? AND pack = ?`)
		if err != nil {
			return err
		}
		defer func() { _ = move.Close() }()
		for _, m := range moves {
			// A block that a better one replaced meanwhile is in another pack.
			if _, err := move.ExecContext(ctx, to, m.to, session, m.id[:], m.pack); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errOthers) {
		return false, nil // they go on
	}
	return err == nil, err
}

// movedBlock is one that goes to another place in another pack.
type movedBlock struct {
	id       spans.BlockID
	pack, to int64
}

// gather returns the bodies in packs of a session one after the other, without those that are not used any more. Packs
// that went meanwhile are left out: the caller finds out.
func (s *Store) gather(ctx context.Context, session int64, packs string) (raw []byte, moves []movedBlock, err error) {
	bodies := map[int64][]byte{}
	for _, err := range fetch(ctx, s, `SELECT pack, raw, body FROM packs
		WHERE session = ? AND pack IN (SELECT value FROM json_each(?))`,
		[]any{session, packs}, func(rows *sql.Rows) (none struct{}, err error) {
			var pack, size int64
			var body sql.RawBytes
			if err := rows.Scan(&pack, &size, &body); err != nil {
				return none, err
			}
			if bodies[pack], err = unpack(nil, body, size); err != nil {
				err = fmt.Errorf("pack %d: %w", pack, err)
			}
			return none, err
		}) {
		if err != nil {
			return nil, nil, err
		}
	}
	// After the packs: blocks only ever leave a pack, so that none is missed.
	for m, err := range fetch(ctx, s, `SELECT id, pack, start, length FROM blocks
		WHERE session = ? AND pack IN (SELECT value FROM json_each(?)) ORDER BY pack, start`,
		[]any{session, packs}, func(rows *sql.Rows) (m movedBlock, err error) {
			var id sql.RawBytes
			var start, length int64
			if err := rows.Scan(&id, &m.pack, &start, &length); err != nil {
				return m, err
			}
			body, ok := bodies[m.pack]
			if copy(m.id[:], id); !ok || len(id) != len(m.id) || start < 0 || length < 0 || start > int64(len(body)) ||
				length > int64(len(body))-start {
				return m, fmt.Errorf("block %s: %w: pack %d has %d bytes, the body is said to be %d at %d", m.id, errPack, m.pack,
					len(body), length, start)
			}
			m.to = int64(len(raw))
			raw = append(raw, body[start:start+length]...)
			return m, nil
		}) {
		if err != nil {
			return nil, nil, err
		}
		moves = append(moves, m)
	}
	return raw, moves, nil
}

var errOthers = errors.New("another program was faster")

// smallPacks returns the packs of a session that are worth merging: as many of the smallest as fit into one, the
// largest of them at most twice all others, so that a byte is not compressed again and again.
func (s *Store) smallPacks(ctx context.Context, k session.Key) ([]smallPack, error) {
	var out []smallPack
	sum, worth := int64(0), 0
	for p, err := range fetch(ctx, s, `SELECT session, pack, raw FROM packs WHERE session = `+whichSession+
		` ORDER BY raw, pack LIMIT ?3`,
		[]any{k.Tenant, k.ID, mergePacks}, func(rows *sql.Rows) (p smallPack, err error) {
			err = rows.Scan(&p.session, &p.pack, &p.raw)
			return p, err
		}) {
		if err != nil {
			return nil, err
		}
		if sum += p.raw; sum > packSize {
			break
		}
		if out = append(out, p); p.raw <= 2*(sum-p.raw) {
			worth = len(out)
		}
	}
	out = out[:worth]
	slices.SortFunc(out, func(a, b smallPack) int { return int(a.pack - b.pack) }) // in the order of arrival
	return out, nil
}
