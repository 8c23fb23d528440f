package redact

import (
	"bytes"
	"regexp"
	"slices"
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
)

func classOf(name []byte) class {
	if len(name) < 5 || len(name) > 64 || bytes.IndexByte([]byte("detny"), lower(name[len(name)-1])) < 0 {
		return noSecret // nearly all names
	}
	var buffer [64]byte
	letters := buffer[:0]
	for _, b := range name {
		if b != '_' && b != '-' && b != '.' && b != ' ' {
			letters = append(letters, lower(b))
		}
	}
	is := func(ending string) bool { return bytes.HasSuffix(letters, []byte(ending)) }
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
	default:
		return isString && opaque(value, 12)
	}
}

// opaque reports whether value may be a token: at least least bytes, in one piece, with digits and more.
func opaque(value []byte, least int) bool {
	return len(value) >= least && hasDigit(value) && !bytes.ContainsAny(value, " \t\r\n") &&
		len(bytes.Trim(value, "0123456789.,")) > 0
}

var placeholders = regexp.MustCompile(`^(?:$|[$<{%]|\[redacted:|[*xX.•_?#-]{3,}$|(?i:your)|` +
	`(?i:null|none|nil|true|false|undefined|string|str|required|optional)$)`)

// placeholder reports whether value stands for a secret that is elsewhere, or that was replaced before.
func placeholder(value []byte) bool { return placeholders.Match(value) }

var (
	// assignment stands between a name and a value: maybe a quote, a sign, and maybe the quote of the value.
	// Quotes may be escaped, also more than once, as in JSON inside a string.
	assignment = regexp.MustCompile(`^(?:\\{0,8}["'` + "`" + `])?[ \t\r\n]{0,8}(?::=|=>|[:=])[ \t\r\n]{0,8}` +
		`(?:\\{0,8}(["'` + "`" + `]))?`)
	// sourceCode is an unquoted value that is a type or the member of a variable: config.api_key2.
	sourceCode = regexp.MustCompile(`^(?:(?i:u?int|float|i|u|f|sha|md|utf|base|v)[-_]?[0-9]+[?!.]?|` +
		`[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::|->)[A-Za-z_][A-Za-z0-9_]*)+)$`)
)

// assigned is a value that text assigns to a name.
type assigned struct {
	nameEnd, start int
	quote          byte // of the value, 0 for none
	direct         bool // nothing but an equals sign stands between
}

// assignedAt reads the assignment to the name of which a part stands at text[at:].
func assignedAt(text []byte, at int) (v assigned, ok bool) {
	end := at
	for end < len(text) && end < at+64 && (isWord(text[end]) || text[end] == '-') {
		end++
	}
	m := assignment.FindSubmatchIndex(window(text, end, 64))
	if m == nil {
		return v, false
	}
	v = assigned{nameEnd: end, start: end + m[1], direct: m[1] == 1 && text[end] == '='}
	if m[2] >= 0 {
		v.quote = text[end+m[2]]
	}
	return v, true
}

// Bytes that end a value without quotes, and blanks, which end any.
const (
	bareStops = blanks + "\"'`\\,;&|<>()[]{}"
	blanks    = " \t\r\n"
)

// valueEnd returns where the value that continues at i ends, before most.
func valueEnd(text []byte, i, most int, stops string) int {
	most = min(most, len(text))
	if n := bytes.IndexAny(text[i:most], stops); n >= 0 {
		return i + n
	}
	return most
}

// secretAssigned finds the value that text assigns to the name of a secret, of which a part stands at
// text[at:].
func secretAssigned(text []byte, at, _ int) (int, int) {
	v, ok := assignedAt(text, at)
	if !ok {
		return 0, 0
	}
	from := at
	for from > 0 && at-from < 24 && (isWord(text[from-1]) || text[from-1] == '-') {
		from--
	}
	c := classOf(text[from:v.nameEnd])
	if c == noSecret {
		return 0, 0
	}
	stops := bareStops
	if v.quote != 0 {
		stops = blanks + string(v.quote)
	}
	end := valueEnd(text, v.start, v.start+maxValue, stops)
	value, next := text[v.start:end], byte(0)
	if end < len(text) {
		next = text[end]
	}
	upper := bytes.Equal(text[at:v.nameEnd], bytes.ToUpper(text[at:v.nameEnd]))
	least := 16
	switch {
	case placeholder(value):
		return 0, 0
	case v.quote != 0:
		if bytes.IndexByte([]byte(blanks), next) >= 0 || c == maybeSecret && !opaque(value, 8) {
			return 0, 0
		}
		end = valueEnd(text, end, len(text), stops)
		return v.start, v.start + len(bytes.TrimRight(text[v.start:end], `\`)) // \"value\" in JSON inside a string
	case bytes.IndexByte([]byte("([{<"), next) >= 0, sourceCode.Match(value):
		return 0, 0
	case c == sureSecret && v.direct && len(value) >= 4 && upper: // NAME=value, as in a shell or .env
		return v.start, valueEnd(text, end, len(text), stops)
	case c == sureSecret:
		least = 6
	case v.direct:
		least = 12
	}
	if len(value) < least || !hasDigit(value) || c == maybeSecret && !opaque(value, least) {
		return 0, 0
	}
	return v.start, valueEnd(text, end, len(text), stops)
}

// authorization finds the value of the header, whatever its scheme.
func authorization(text []byte, at, _ int) (int, int) {
	v, ok := assignedAt(text, at)
	if !ok {
		return 0, 0
	}
	start := v.start + len(scheme.Find(window(text, v.start, maxValue)))
	end := valueEnd(text, start, start+maxValue, bareStops)
	if value := text[start:end]; len(value) < 8 || !hasDigit(value) || placeholder(value) {
		return 0, 0
	}
	return start, valueEnd(text, end, len(text), bareStops)
}

var scheme = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32} {1,8}`)
