package spans

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// Item is one entry of a list: a block, where it came from, and what was taken off it before it was hashed.
//
// On the wire an item is `SHORTID[ PROVENANCE][ ENVELOPE]`, parted by single blanks. PROVENANCE holds no blank and does
// not begin with `{`; ENVELOPE is a JSON object.
type Item struct {
	// Block is the short id of the body.
	Block ShortID
	// Provenance says where the block came from, in the form of Provenance.Encode. Empty when nothing is known.
	Provenance string
	// Envelope is a JSON object with what was stripped from the body (turn id, node ids, tags, hints), so that the
	// same message is one block wherever it appears. Empty when nothing was.
	Envelope string
}

// Encode returns the wire form of the item.
func (it Item) Encode() string {
	var id [11]byte
	base64.RawURLEncoding.Encode(id[:], it.Block[:])
	var b strings.Builder
	b.Grow(len(id) + 2 + len(it.Provenance) + len(it.Envelope))
	b.Write(id[:])
	it.writeTail(&b)
	return b.String()
}

// writeTail writes what the chain digest covers beside the full block id.
func (it *Item) writeTail(b *strings.Builder) {
	if it.Provenance != "" {
		b.WriteByte(' ')
		b.WriteString(it.Provenance)
	}
	if it.Envelope != "" {
		b.WriteByte(' ')
		b.WriteString(it.Envelope)
	}
}

// ParseItem reads the wire form of an item. The result's strings share memory with s.
func ParseItem(s string) (Item, error) {
	id, rest, more := strings.Cut(s, " ")
	var it Item
	var err error
	if it.Block, err = ParseShortID(id); err != nil {
		return Item{}, err
	}
	if !more {
		return it, nil
	}
	if !strings.HasPrefix(rest, "{") {
		it.Provenance, rest, more = strings.Cut(rest, " ")
		if it.Provenance == "" {
			return Item{}, fmt.Errorf("spans: list item with an empty provenance: %w", ErrEncoding)
		}
		if !more {
			return it, nil
		}
	}
	if !strings.HasPrefix(rest, "{") {
		return Item{}, fmt.Errorf("spans: list item with an envelope that is no object: %w", ErrEncoding)
	}
	it.Envelope = rest
	return it, nil
}

// Chain is the digest of a list so far. The zero value is that of the empty list.
//
// d(0) is 32 zero bytes; d(i) = SHA-256(d(i-1) | full block id | the item's wire form behind its short id).
type Chain [sha256.Size]byte

// Add appends one item whose full block id is id and returns the new digest.
func (c Chain) Add(id BlockID, it Item) Chain {
	var fixed [256]byte
	buf := append(append(fixed[:0], c[:]...), id[:]...)
	if it.Provenance != "" {
		buf = append(append(buf, ' '), it.Provenance...)
	}
	if it.Envelope != "" {
		buf = append(append(buf, ' '), it.Envelope...)
	}
	return sha256.Sum256(buf)
}

// String returns the digest as it stands on the wire: 43 characters of base64url.
func (c Chain) String() string {
	b := c.text()
	return string(b[:])
}

func (c Chain) text() (b [43]byte) {
	base64.RawURLEncoding.Encode(b[:], c[:])
	return b
}

// ParseChain reads what Chain.String wrote.
func ParseChain(s string) (Chain, error) {
	var c Chain
	if err := decodeBase64(c[:], s); err != nil {
		return Chain{}, fmt.Errorf("spans: list digest: %w", err)
	}
	return c, nil
}
