package spans

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Recipe says how the body of a block is made of others, or that it was cut or withheld where it was captured.
//
// On the wire it is `ID SIZE` and one piece after another, parted by single blanks. ID is a short id, or a full one (43
// characters base64url), which it always is when the pieces do not come to SIZE bytes. A piece is
//
//	SHORTID           the whole body of that block
//	SHORTID:FROM:TO   its bytes from FROM up to TO
//	=N:TEXT           N bytes of text, any bytes but broken UTF-8
type Recipe struct {
	// ID names the block that is made; only its first 8 bytes are known unless Full.
	ID   BlockID
	Full bool
	// Size is the length of the body, in bytes.
	Size int64
	// Pieces in order. When they come to fewer than Size bytes the body was cut, and its beginning is all there is; when
	// there are none (and Size is not 0) it was withheld.
	Pieces []Piece
}

// Piece is one part of a body: Text, or bytes From up to To of a block, or all of it when To is negative.
type Piece struct {
	Block    ShortID
	From, To int64
	Text     string
}

// Limits of a recipe that comes over the wire.
const (
	maxPieces     = 1 << 20
	maxRecipeSize = 1 << 32
)

// Encode returns the wire form.
func (r *Recipe) Encode() string {
	dst := make([]byte, 0, 64+24*len(r.Pieces))
	if r.Full {
		dst = base64.RawURLEncoding.AppendEncode(dst, r.ID[:])
	} else {
		dst = base64.RawURLEncoding.AppendEncode(dst, r.ID[:len(ShortID{})])
	}
	dst = strconv.AppendInt(append(dst, ' '), r.Size, 10)
	for i := range r.Pieces {
		p := &r.Pieces[i]
		dst = append(dst, ' ')
		if p.Block == (ShortID{}) {
			dst = strconv.AppendInt(append(dst, '='), int64(len(p.Text)), 10)
			dst = append(append(dst, ':'), p.Text...)
			continue
		}
		dst = base64.RawURLEncoding.AppendEncode(dst, p.Block[:])
		if p.To >= 0 {
			dst = strconv.AppendInt(append(dst, ':'), p.From, 10)
			dst = strconv.AppendInt(append(dst, ':'), p.To, 10)
		}
	}
	return string(dst)
}

// ParseRecipe reads what Encode wrote. Its strings share memory with s. Errors wrap ErrEncoding and hold nothing of s.
func ParseRecipe(s string) (Recipe, error) {
	var r Recipe
	bad := func(what string) (Recipe, error) {
		return Recipe{}, fmt.Errorf("spans: recipe: %s: %w", what, ErrEncoding)
	}
	id, rest, _ := strings.Cut(s, " ")
	switch len(id) {
	case 11:
		short, err := ParseShortID(id)
		if err != nil {
			return bad("block id")
		}
		copy(r.ID[:], short[:])
	case 43:
		if decodeBase64(r.ID[:], id) != nil {
			return bad("block id")
		}
		r.Full = true
	default:
		return bad("block id")
	}
	size, rest, more := strings.Cut(rest, " ")
	var ok bool
	if r.Size, ok = parseOffset(size); !ok {
		return bad("size")
	}
	for more {
		if len(r.Pieces) == maxPieces {
			return bad("more pieces than allowed")
		}
		var p Piece
		if text, literal := strings.CutPrefix(rest, "="); literal {
			length, text, found := strings.Cut(text, ":")
			n, ok := parseOffset(length)
			if !found || !ok || n > int64(len(text)) || n < int64(len(text)) && text[n] != ' ' {
				return bad("text")
			}
			p.Text = text[:n]
			more = n < int64(len(text))
			rest = strings.TrimPrefix(text[n:], " ")
		} else {
			var piece string
			piece, rest, more = strings.Cut(rest, " ")
			block, span, part := strings.Cut(piece, ":")
			short, err := ParseShortID(block)
			if err != nil || short == (ShortID{}) {
				return bad("block id of a piece")
			}
			p.Block, p.To = short, -1
			if part {
				from, to, _ := strings.Cut(span, ":")
				var okFrom, okTo bool
				p.From, okFrom = parseOffset(from)
				p.To, okTo = parseOffset(to)
				if !okFrom || !okTo || p.From > p.To {
					return bad("range of a piece")
				}
			}
		}
		r.Pieces = append(r.Pieces, p)
	}
	return r, nil
}

// parseOffset reads a decimal number without sign or leading zeros, up to the largest size.
func parseOffset(s string) (int64, bool) {
	if s == "" || len(s) > 10 || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil && n <= maxRecipeSize
}

// RecipeID returns the name under which stores keep a recipe: the short id of the block it makes and the beginning of the
// SHA-256 of its text. So recipes stand beside the body that they make, several of one body can be kept, and none takes the
// place of a body.
func RecipeID(made BlockID, text string) BlockID {
	sum := sha256.Sum256([]byte(text))
	id := made
	copy(id[len(ShortID{}):], sum[:])
	return id
}
