package spans

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"unsafe"
)

// BlockID is the SHA-256 of a block's body: the full name of one content-addressed piece of a request or reply.
// The zero value names no block.
type BlockID [sha256.Size]byte

// ShortID is the part of a block id that is in lists: its first 8 bytes. The SHA-256 of a request covers all its
// blocks, so a short id that names the wrong block is noticed.
type ShortID [8]byte

// shortText is the length of a short id as text.
const shortText = 11

// ErrEncoding is the error of this package about text that is not what it should be. It holds nothing of the text.
var ErrEncoding = errors.New("bad encoding")

// BlockOf returns the id of body.
func BlockOf(body []byte) BlockID { return sha256.Sum256(body) }

// BlockOfString returns the id of body without copying it: SHA-256 only reads the bytes.
func BlockOfString(body string) BlockID {
	return sha256.Sum256(unsafe.Slice(unsafe.StringData(body), len(body)))
}

// IsZero reports whether id names no block.
func (id BlockID) IsZero() bool { return id == BlockID{} }

// Short returns the part of id that is in lists.
func (id BlockID) Short() ShortID { return ShortID(id[:8]) }

// String returns the id in hexadecimal.
func (id BlockID) String() string {
	return hex.EncodeToString(id[:])
}

// MarshalText returns the id in hexadecimal.
func (id BlockID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// String returns the short id as it is in lists: 11 characters of base64url.
func (id ShortID) String() string {
	var b [shortText]byte
	base64.RawURLEncoding.Encode(b[:], id[:])
	return string(b[:])
}

// ParseShortID reads what ShortID.String wrote.
func ParseShortID(s string) (id ShortID, err error) {
	err = decodeBase64(id[:], s)
	return id, err
}

// decodeBase64 fills dst from exactly its unpadded base64url text, else with zeros. encoding/base64 alone passes over
// line ends.
func decodeBase64(dst []byte, s string) error {
	if len(s) == base64.RawURLEncoding.EncodedLen(len(dst)) && !strings.ContainsAny(s, "\r\n") {
		if _, err := base64.RawURLEncoding.Strict().Decode(dst, []byte(s)); err == nil {
			return nil
		}
	}
	clear(dst)
	return ErrEncoding
}
