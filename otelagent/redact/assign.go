package redact

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// class says how sure the name of a value makes that the value is a secret.
type class uint8

const (
	noSecret class = iota
	// maybeSecret is a token or key: the name is used for other values too, so the value must also look like a
	// secret.
	maybeSecret
	// sureSecret is a password or a secret.
	sureSecret
)

// Endings of names in small letters, without blanks and the characters _-. which are not looked at.
var (
	sureNames  = []string{"password", "passwd", "passphrase", "secret", "secretkey", "secretaccesskey"}
	maybeNames = []string{"token", "apikey", "accesskey", "accountkey", "privatekey", "encryptionkey", "signingkey",
		"authkey", "authorization"}
	otherNames = []string{"pagetoken", "nexttoken", "continuationtoken", "synctoken"}
	separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")
)

func classOf(name []byte) class {
	if len(name) < 5 || len(name) > 64 || bytes.IndexByte([]byte("detnyDETNY"), name[len(name)-1]) < 0 {
		return noSecret // nearly all names
	}
	letters := strings.ToLower(separators.Replace(string(name)))
	is := func(ending string) bool { return strings.HasSuffix(letters, ending) }
	switch {
	case slices.ContainsFunc(sureNames, is):
		return sureSecret
	case slices.ContainsFunc(otherNames, is) || !slices.ContainsFunc(maybeNames, is):
		return noSecret
	}
	return maybeSecret
}

// secretMember reports whether the value of a JSON member is a secret, by the class of its key.
func secretMember(c class, isString bool, value []byte) bool {
	switch {
	case placeholder(value):
		return false
	case c == sureSecret:
		return isString || len(value) >= 4
	}
	return isString && opaque(value, 12)
}

// opaque reports whether value may be a token: at least least bytes, in one piece, with digits and more.
func opaque(value []byte, least int) bool {
	return len(value) >= least && hasDigit(value) && !bytes.ContainsAny(value, blanks) &&
		len(bytes.Trim(value, "0123456789.,")) > 0
}

var placeholders = regexp.MustCompile(`^(?:$|[$<{%]|\[redacted:|[*xX.•_?#-]{3,}$|(?i:your)|` +
	`(?i:null|none|nil|true|false|undefined|string|str|required|optional)$)`)

// placeholder reports whether value stands for a secret that is elsewhere, or that was replaced before.
func placeholder(value []byte) bool { return placeholders.Match(value) }

// assigns is between a name and a value: maybe a quote, a sign, and maybe the quote of the value. Quotes may be
// escaped, also more than once, as in JSON inside a string.
const assigns = `(?:\\{0,8}["'` + "`" + `])?[ \t\r\n]{0,8}(?::=|=>|[:=])[ \t\r\n]{0,8}(?:\\{0,8}(["'` + "`" + `]))?`

var (
	assignment = regexp.MustCompile(`^` + assigns)
	// sourceCode is an unquoted value that is a type or the member of a variable: config.api_key2.
	sourceCode = regexp.MustCompile(`^(?:(?i:u?int|float|i|u|f|sha|md|utf|base|v)[-_]?[0-9]+[?!.]?|` +
		`[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::|->)[A-Za-z_][A-Za-z0-9_]*)+)$`)
)

// Bytes that end a value without quotes, and blanks, which end any.
const (
	bareStops = blanks + "\"'`\\,;&|<>()[]{}"
	blanks    = " \t\r\n"
)

// secretAssigned finds the value that text assigns to the name of a secret, of which a part is at text[at:].
func secretAssigned(text []byte, at, _ int) (int, int) {
	from, nameEnd := at, at
	for from > 0 && at-from < 24 && isName(text[from-1]) {
		from--
	}
	for nameEnd < len(text) && nameEnd < at+64 && isName(text[nameEnd]) {
		nameEnd++
	}
	c := classOf(text[from:nameEnd])
	if c == noSecret {
		return 0, 0
	}
	m := assignment.FindSubmatchIndex(window(text, nameEnd, 64))
	if m == nil {
		return 0, 0
	}
	start, quoted, stops := nameEnd+m[1], m[2] >= 0, bareStops
	if quoted {
		stops = blanks + string(text[nameEnd+m[2]])
	}
	value := until(window(text, start, maxValue), stops)
	next := string(window(text, start+len(value), 1))
	name, direct := text[at:nameEnd], start == nameEnd+1 && text[nameEnd] == '='
	least := 16 // of a value without quotes: the less, the less the text may be prose or source code
	switch {
	case c == sureSecret && direct && bytes.Equal(name, bytes.ToUpper(name)): // NAME=value, as in a shell or .env
		least = 4
	case c == sureSecret:
		least = 6
	case direct:
		least = 12
	}
	switch {
	case placeholder(value),
		quoted && next != "" && strings.Contains(blanks, next),
		quoted && c == maybeSecret && !opaque(value, 8),
		!quoted && next != "" && strings.Contains("([{<", next),
		!quoted && (len(value) < least || sourceCode.Match(value)),
		!quoted && least > 4 && !hasDigit(value),
		!quoted && c == maybeSecret && !opaque(value, least):
		return 0, 0
	}
	value = until(text[start:], stops)
	if quoted {
		value = bytes.TrimRight(value, `\`) // \"value\" in JSON inside a string
	}
	return start, start + len(value)
}

// until returns the text before the first of stops.
func until(text []byte, stops string) []byte {
	if n := bytes.IndexAny(text, stops); n >= 0 {
		return text[:n]
	}
	return text
}
