package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

const (
	// packSize is how many bytes of bodies are compressed together; a larger body has a pack of its own. Reading one
	// block decompresses this much.
	packSize = 512 << 10
	// packWindow is how far back in a large body the compressor looks.
	packWindow = 1 << 20
	// mergePacks bounds how many packs are merged in a step, mergeSize their bytes. Each step reads the places of all
	// blocks of the session once.
	mergePacks = 256
	mergeSize  = 8 * packSize
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

// tidy merges packs that became small because few blocks came at a time, one in each transaction. A pack is rewritten
// each time that the session grew by half of it, until it is full.
func (s *Store) tidy(ctx context.Context, k session.Key) error {
	for merged := true; merged; {
		err := s.transact(ctx, func(ctx context.Context) (err error) {
			merged, err = s.merge(ctx, k)
			return err
		})
		if err != nil {
			return fmt.Errorf("sqlitestore: merge packs: %w", atRest(err))
		}
	}
	return nil
}

// movedBlock is one that goes to another place in another pack.
type movedBlock struct {
	id            spans.BlockID
	from          int64
	start, length int64
}

// merge makes fewer packs of several, inside a transaction, and reports whether it did.
func (s *Store) merge(ctx context.Context, k session.Key) (bool, error) {
	numbers, session, err := s.smallPacks(ctx, k)
	if err != nil || len(numbers) < 2 {
		return false, err
	}
	list, err := json.Marshal(numbers)
	if err != nil {
		return false, err
	}
	args := []any{session, string(list)}
	bodies := map[int64][]byte{}
	const packs = `WHERE session = ? AND pack IN (SELECT value FROM json_each(?))`
	if _, err := all(ctx, s.conn, `SELECT pack, raw, body FROM packs `+packs, args,
		func(rows *sql.Rows) (none struct{}, err error) {
			var pack, size int64
			var body sql.RawBytes
			if err := rows.Scan(&pack, &size, &body); err != nil {
				return none, err
			}
			if bodies[pack], err = unpack(nil, body, size); err != nil {
				err = fmt.Errorf("pack %d: %w", pack, err)
			}
			return none, err
		}); err != nil {
		return false, err
	}
	moves, err := all(ctx, s.conn, `SELECT id, pack, start, length FROM blocks `+packs+` ORDER BY pack, start`, args,
		func(rows *sql.Rows) (m movedBlock, err error) {
			var id sql.RawBytes
			if err := rows.Scan(&id, &m.from, &m.start, &m.length); err != nil {
				return m, err
			}
			if copy(m.id[:], id); len(id) != len(m.id) {
				return m, fmt.Errorf("%w: block id of %d bytes, want %d", errPack, len(id), len(m.id))
			}
			_, err = cut(bodies[m.from], m.id, m.from, m.start, m.length)
			return m, err
		})
	if err != nil {
		return false, err
	}
	ends, size := []int{}, int64(0) // of the moves that go into each new pack
	for i, m := range moves {
		if size += m.length; size > packSize && size > m.length {
			ends, size = append(ends, i), m.length
		}
	}
	if ends = append(ends, len(moves)); len(ends) >= len(numbers) {
		return false, nil
	}
	if err := run(ctx, s.conn, `DELETE FROM packs `+packs, args...); err != nil {
		return false, err
	}
	var to int64
	if err := s.stmts.newest.QueryRowContext(ctx).Scan(&to); err != nil {
		return false, err
	}
	to = max(to, numbers[len(numbers)-1]) // within a session numbers of packs only grow
	move, err := s.conn.PrepareContext(ctx, `UPDATE blocks SET pack = ?, start = ? WHERE session = ? AND id = ?`)
	if err != nil {
		return false, err
	}
	defer func() { _ = move.Close() }()
	from := 0
	for _, end := range ends {
		var raw []byte
		to++
		for _, m := range moves[from:end] { // bodies that nothing uses any more stay behind
			if _, err := move.ExecContext(ctx, to, len(raw), session, m.id[:]); err != nil {
				return false, err
			}
			raw = append(raw, bodies[m.from][m.start:m.start+m.length]...)
		}
		from = end
		if len(raw) == 0 {
			continue
		}
		_, err := s.stmts.pack.ExecContext(ctx, to, session, len(raw), packEncoder().EncodeAll(raw, nil))
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// cut returns the body of a block in the decompressed bytes of its pack.
func cut(raw []byte, id spans.BlockID, pack, start, length int64) ([]byte, error) {
	if start < 0 || length < 0 || start > int64(len(raw)) || length > int64(len(raw))-start {
		return nil, fmt.Errorf("block %s: %w: pack %d has %d bytes, the body is said to be %d at %d", id, errPack, pack,
			len(raw), length, start)
	}
	return raw[start : start+length], nil
}

// smallPacks returns the packs of a session that are worth merging, in the order of arrival: as many of the smallest as
// a step takes, none fuller than half, the largest of them at most twice all others, so that a byte is not compressed
// again and again.
func (s *Store) smallPacks(ctx context.Context, k session.Key) (numbers []int64, session int64, err error) {
	type small struct{ pack, raw int64 }
	packs, err := all(ctx, s.conn, `SELECT session, pack, raw FROM packs WHERE session = `+whichSession+
		` AND raw <= ?3 ORDER BY raw, pack LIMIT ?4`, []any{k.Tenant, k.ID, packSize / 2, mergePacks},
		func(rows *sql.Rows) (p small, err error) {
			err = rows.Scan(&session, &p.pack, &p.raw)
			return p, err
		})
	sum, worth := int64(0), 0
	for i, p := range packs {
		if sum += p.raw; sum > mergeSize {
			break
		}
		if numbers = append(numbers, p.pack); p.raw <= 2*(sum-p.raw) {
			worth = i + 1
		}
	}
	numbers = numbers[:worth]
	slices.Sort(numbers)
	return numbers, session, err
}
