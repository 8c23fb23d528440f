package writer

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"
)

// maxName is the length from which ids are hashed and names cut, in bytes.
const maxName = 256

// cleanID makes s fit to be an id on the wire: valid UTF-8, and hashed when it is over 256 bytes.
func cleanID(s string) string {
	if len(s) > maxName {
		sum := sha256.Sum256([]byte(s))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return cleanText(s)
}

// cleanName makes s fit to be a name on the wire: valid UTF-8, cut at a rune at 256 bytes.
func cleanName(s string) string { return cutName(s, maxName) }

// cutName is cleanName with another bound.
func cutName(s string, most int) string {
	s = cleanText(s)
	return s[:runeStart(s, most)]
}

// cleanText replaces each byte of s that is not UTF-8 by U+FFFD: one bad string would make the whole batch of spans
// fail to marshal.
func cleanText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s)) // an invalid byte comes as U+FFFD, one at a time
}
