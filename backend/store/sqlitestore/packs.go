package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
)

const (
	// packSize is how many bytes of bodies are compressed together; a larger body has a pack of its own.
	packSize = 1 << 20
	// maxPack bounds the bytes of a pack when decompressed: the largest body, and its length in front of it.
	maxPack = store.MaxValue + binary.MaxVarintLen64
	// packWindow is how far back in a pack the compressor looks.
	packWindow = 1 << 20
	// mergePacks bounds how many packs become one in a step.
	mergePacks = 256
	// blockKey is how many bytes of an id the table blocks holds: nobody finds two bodies whose ids begin so alike.
	blockKey = 16
)

// packer writes blocks of one batch, inside a transaction.
type packer struct {
	ctx  context.Context
	s    *Store
	open map[int64][]byte // packs that more bodies go into, by session
	body []byte
}

// add keeps a block unless one with its id that is as good is there, and reports whether it did.
func (p *packer) add(session int64, b *session.Block) (bool, error) {
	insert, args := insertBlock, []any{session, b.ID[:blockKey]}
	if b.Size != 0 {
		insert, args = insertHeld, []any{session, b.ID[:], b.Size, []byte(b.Body)}
	}
	res, err := p.s.exec(p.ctx, insert, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	if err != nil || n == 0 || b.Size != 0 {
		return n > 0, err
	}
	raw := p.open[session]
	if len(raw)+len(b.Body) > packSize {
		if err := p.write(session, raw); err != nil {
			return false, err
		}
		raw = raw[:0]
	}
	if p.open == nil {
		p.open = map[int64][]byte{}
	}
	p.open[session] = append(binary.AppendUvarint(raw, uint64(len(b.Body))), b.Body...)
	return true, nil
}

func (p *packer) write(session int64, raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	p.body = packEncoder().EncodeAll(raw, p.body[:0])
	_, err := p.s.exec(p.ctx, insertPack, session, len(raw), p.body)
	return err
}

// flush writes what is open.
func (p *packer) flush() error {
	for session, raw := range p.open {
		if err := p.write(session, raw); err != nil {
			return err
		}
	}
	return nil
}

// bodies yields what a decompressed pack holds, until yield returns false.
func bodies(pack int64, raw []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(raw) > 0 {
			size, n := binary.Uvarint(raw)
			if n <= 0 || size > uint64(len(raw)-n) {
				yield(nil, fmt.Errorf("pack %d: %w: a body of %d bytes, %d are left", pack, errPack, size, len(raw)-max(n, 0)))
				return
			}
			end := n + int(size)
			if !yield(raw[n:end], nil) {
				return
			}
			raw = raw[end:]
		}
	}
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
			return fmt.Errorf("sqlitestore: merge packs of session %s: %w", k.ID, atRest(err))
		}
	}
	return nil
}

// merge makes one pack of several, inside a transaction, and reports whether it did. Bodies that begin alike come
// together, since templates are like templates.
func (s *Store) merge(ctx context.Context, k session.Key) (bool, error) {
	numbers, session, err := s.smallPacks(ctx, k)
	if err != nil || len(numbers) < 2 {
		return false, err
	}
	list, err := json.Marshal(numbers)
	if err != nil {
		return false, err
	}
	const packs = `FROM packs WHERE session = ? AND pack IN (SELECT value FROM json_each(?))`
	args := []any{session, string(list)}
	var kinds [256][]byte // bodies by their first byte
	var raw []byte
	_, err = all(ctx, s.conn, `SELECT pack, raw, body `+packs+` ORDER BY pack`, args,
		func(rows *sql.Rows) (none struct{}, err error) {
			var pack, size int64
			var body sql.RawBytes
			if err := rows.Scan(&pack, &size, &body); err != nil {
				return none, err
			}
			if raw, err = unpack(raw, body, pack, size); err != nil {
				return none, err
			}
			for text, err := range bodies(pack, raw) {
				if err != nil {
					return none, err
				}
				kind := &kinds[0]
				if len(text) > 0 {
					kind = &kinds[text[0]]
				}
				*kind = append(binary.AppendUvarint(*kind, uint64(len(text))), text...)
			}
			return none, nil
		})
	if err != nil {
		return false, err
	}
	if err := run(ctx, s.conn, `DELETE `+packs, args...); err != nil {
		return false, err
	}
	p := packer{ctx: ctx, s: s}
	return true, p.write(session, slices.Concat(kinds[:]...))
}

// smallPacks returns the packs of a session that are worth merging, in the order of arrival: as many of the smallest as
// fit into one, the largest of them at most twice all others, so that a byte is not compressed again and again.
func (s *Store) smallPacks(ctx context.Context, k session.Key) (numbers []int64, session int64, err error) {
	type small struct{ pack, raw int64 }
	packs, err := all(ctx, s.conn, `SELECT session, pack, raw FROM packs WHERE session = `+whichSession+
		` ORDER BY raw, pack LIMIT ?3`, []any{k.Tenant, k.ID, mergePacks}, func(rows *sql.Rows) (p small, err error) {
		err = rows.Scan(&session, &p.pack, &p.raw)
		return p, err
	})
	sum, worth := int64(0), 0
	for i, p := range packs {
		if sum += p.raw; sum > packSize {
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
