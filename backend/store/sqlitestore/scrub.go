package sqlitestore

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"

	"modernc.org/sqlite"
)

// SQLite's secure_delete overwrites what is deleted, and leaves alone what it moved: when it splits or joins pages of a b-tree, bytes of
// cells that went to another page stand on in the unused space between a page's cell pointers and its cells. They are never copied
// from there, and gone when the page is filled or freed. Until then they are in the file, long after their row was deleted from its
// new place. So Delete looks through all pages, beside writers, and overwrites that space where it holds anything.
// File format: https://www.sqlite.org/fileformat2.html#b_tree_pages.

const (
	// scrubPages is how many pages are looked at in one read transaction: a long one would keep the log from being emptied.
	scrubPages = 4096
	// scrubMost bounds the files whose pages are told apart by their first byte. That of an overflow or free page is the highest of the
	// number of another page, and becomes one that begins a b-tree page from this many pages on: 256 GiB.
	scrubMost = 1 << 25
)

// unusedFunc is the name in SQL of a function of a page's number and bytes: whether its unused space holds anything.
const unusedFunc = "otelagent_unused"

func init() {
	sqlite.MustRegisterDeterministicScalarFunction(unusedFunc, 2, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		n, _ := args[0].(int64)
		page, _ := args[1].([]byte)
		return len(bytes.Trim(unused(n, page), "\x00")) > 0, nil
	})
}

// unused returns the space of page n between its cell pointers and its cells; nil for one that is no page of a b-tree.
func unused(n int64, page []byte) []byte {
	head := 0
	if n == 1 {
		head = 100 // behind the header of the file
	}
	if len(page) < head+12 {
		return nil
	}
	from := head
	switch page[head] {
	case 2, 5: // inner page of an index, of a table
		from += 12
	case 10, 13: // leaf of an index, of a table
		from += 8
	default:
		return nil
	}
	cells, to := int(binary.BigEndian.Uint16(page[head+3:])), int(binary.BigEndian.Uint16(page[head+5:]))
	if to == 0 {
		to = 1 << 16
	}
	pointers := from
	if from += 2 * cells; from > to || to > len(page) {
		return nil
	}
	for ; pointers < from; pointers += 2 {
		if at := int(binary.BigEndian.Uint16(page[pointers:])); at < to || at >= len(page) {
			return nil
		}
	}
	return page[from:to]
}

// scrub overwrites the unused space of all pages.
func (s *Store) scrub(ctx context.Context) error {
	pages, vacuum := int64(0), int64(0)
	for _, q := range []struct {
		text string
		to   *int64
	}{{`PRAGMA page_count`, &pages}, {`PRAGMA auto_vacuum`, &vacuum}} {
		for n, err := range fetch(ctx, s, q.text, nil, scanInt) {
			if err != nil {
				return err
			}
			*q.to = n
		}
	}
	if pages >= scrubMost || vacuum != 0 {
		return fmt.Errorf("look through the file: %d pages, auto_vacuum %d: %w", pages, vacuum, errScrub)
	}
	for first := int64(1); first <= pages; first += scrubPages {
		var pieces []piece
		for n, err := range fetch(ctx, s, `WITH RECURSIVE n (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM n WHERE n < ?2)
			SELECT n FROM n CROSS JOIN sqlite_dbpage p ON p.pgno = n WHERE `+unusedFunc+`(n, p.data)`, []any{first, min(first+scrubPages-1, pages)}, scanInt) {
			if err != nil {
				return err
			}
			pieces = append(pieces, func(ctx context.Context) error { return s.scrubPage(ctx, n) })
		}
		if err := s.inSteps(ctx, pieces); err != nil {
			return err
		}
	}
	return nil
}

var errScrub = errors.New("copies of what was deleted may be left in unused space: only VACUUM takes them away")

// scrubPage overwrites the unused space of a page, inside a transaction. Nothing that SQLite knows of the page changes.
func (s *Store) scrubPage(ctx context.Context, n int64) error {
	var page []byte
	err := s.stmts.erase.page.QueryRowContext(ctx, n).Scan(&page)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	clear(unused(n, page))
	return s.exec(ctx, s.stmts.erase.setPage, page, n)
}
