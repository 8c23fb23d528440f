package redact

import (
	"bytes"
	"encoding/base64"
	"math"
	"math/bits"
	"regexp"
	"strings"
)

// defaultOrder ranks the default set behind all rules of the user.
const defaultOrder = math.MaxInt32

// defaultSet is the default set: compiled once, never changed.
var defaultSet = newSet()

type set struct {
	*finder
	secret mark
}

// Names of the default set, as the marks show them. They are documented in docs/redaction.md.
const (
	nameKey        = "api-key"
	nameAuth       = "authorization"
	nameJWT        = "jwt"
	namePrivateKey = "private-key"
	nameURL        = "url-userinfo"
	nameSecret     = "secret"
	nameEmail      = "email"
)

// keys are the forms of keys and tokens that their makers gave a prefix, which begins each expression. What must have a digit
// is what words could be spelled like.
var keys = []struct {
	prefix string
	form   string
	digit  bool
}{
	{"sk-", `^sk-(?:(?:ant|proj|svcacct|admin|or|lf|None)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,})`, true}, // OpenAI, Anthropic, OpenRouter, Langfuse, DeepSeek
	{"sk_live_", `^sk_live_[A-Za-z0-9]{16,}`, false},                                                   // Stripe
	{"sk_test_", `^sk_test_[A-Za-z0-9]{16,}`, false},
	{"rk_live_", `^rk_live_[A-Za-z0-9]{16,}`, false},
	{"rk_test_", `^rk_test_[A-Za-z0-9]{16,}`, false},
	{"whsec_", `^whsec_[A-Za-z0-9+/]{24,}=*`, false},
	{"AKIA", `^AKIA[A-Z2-7]{16}`, false}, // AWS: long-lived, temporary
	{"ASIA", `^ASIA[A-Z2-7]{16}`, false},
	{"AIza", `^AIza[A-Za-z0-9_-]{35}`, false}, // Google
	{"ya29.", `^ya29\.[A-Za-z0-9_-]{20,}`, false},
	{"GOCSPX-", `^GOCSPX-[A-Za-z0-9_-]{20,}`, false},
	{"ghp_", `^ghp_[A-Za-z0-9]{36,}`, false}, // GitHub
	{"gho_", `^gho_[A-Za-z0-9]{36,}`, false},
	{"ghu_", `^ghu_[A-Za-z0-9]{36,}`, false},
	{"ghs_", `^ghs_[A-Za-z0-9]{36,}`, false},
	{"ghr_", `^ghr_[A-Za-z0-9]{36,}`, false},
	{"github_pat_", `^github_pat_[A-Za-z0-9_]{22,}`, false},
	{"glpat-", `^glpat-[A-Za-z0-9_.-]{20,}`, false}, // GitLab
	{"gldt-", `^gldt-[A-Za-z0-9_-]{20,}`, false},
	{"glrt-", `^glrt-[A-Za-z0-9_.-]{20,}`, false},
	{"xoxb-", `^xoxb-[A-Za-z0-9-]{10,}`, true}, // Slack
	{"xoxa-", `^xoxa-[A-Za-z0-9-]{10,}`, true},
	{"xoxp-", `^xoxp-[A-Za-z0-9-]{10,}`, true},
	{"xoxr-", `^xoxr-[A-Za-z0-9-]{10,}`, true},
	{"xoxs-", `^xoxs-[A-Za-z0-9-]{10,}`, true},
	{"xapp-", `^xapp-[0-9]-[A-Za-z0-9-]{20,}`, true},
	{"npm_", `^npm_[A-Za-z0-9]{36,}`, false},
	{"pypi-", `^pypi-AgE[A-Za-z0-9_-]{50,}`, false},
	{"hf_", `^hf_[A-Za-z0-9]{30,}`, false},        // Hugging Face
	{"gsk_", `^gsk_[A-Za-z0-9]{40,}`, false},      // Groq
	{"xai-", `^xai-[A-Za-z0-9]{60,}`, false},      // xAI
	{"nvapi-", `^nvapi-[A-Za-z0-9_-]{50,}`, true}, // NVIDIA
	{"SG.", `^SG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{30,}`, false},
	{"dckr_pat_", `^dckr_pat_[A-Za-z0-9_-]{20,}`, false},
	{"dop_v1_", `^dop_v1_[a-f0-9]{64}`, false}, // DigitalOcean
	{"AGE-SECRET-KEY-1", `^AGE-SECRET-KEY-1[A-Z0-9]{50,}`, false},
}

// names are the words that end the name of a secret, in small letters. Anchored once, at their start.
var names = []string{"password", "passwd", "passphrase", "secret", "token", "api_key", "api-key", "apikey", "access_key", "access-key", "accesskey",
	"account_key", "accountkey", "private_key", "encryption_key", "signing_key", "auth_key"}

func newSet() set {
	s := set{secret: newMark(nameSecret)}
	var literals []literal
	add := func(text string, fold bool, m mark, span func([]byte, int) (int, int)) {
		literals = append(literals, literal{text: text, fold: fold, span: span, mark: &m})
	}
	key := newMark(nameKey)
	for _, k := range keys {
		re := regexp.MustCompile(k.form)
		add(k.prefix, false, key, func(text []byte, at int) (int, int) {
			if wordBefore(text, at) {
				return 0, 0
			}
			m := re.Find(window(text, at, maxKey))
			// A key ends where a word does: longer ones of fixed length are something else.
			if end := at + len(m); m == nil || k.digit && !hasDigit(m) || end < len(text) && isWord(text[end]) {
				return 0, 0
			}
			return at, at + len(m)
		})
	}
	auth := newMark(nameAuth)
	add("bearer", true, auth, bearerSpan)
	add("basic ", true, auth, basicSpan)
	add("authorization", true, auth, authorizationSpan)
	add("eyJ", false, newMark(nameJWT), jwtSpan)
	add("-----BEGIN ", false, newMark(namePrivateKey), privateKeySpan)
	add("://", false, newMark(nameURL), userinfoSpan)
	for _, n := range names {
		add(n, true, s.secret, assignedSpan)
	}
	add("@", false, newMark(nameEmail), emailSpan)
	s.finder = newFinder(literals)
	return s
}

// find appends what the default set finds in text.
func (s *set) find(all []found, text []byte) []found {
	base := len(all)
	first, second, third := &s.places[0], &s.places[1], &s.places[2]
	for i := 2; i < len(text); i++ {
		hits := first[text[i-2]] & second[text[i-1]] & third[text[i]]
		if hits == 0 {
			continue
		}
		for ; hits != 0; hits &= hits - 1 {
			l := &s.literals[bits.TrailingZeros64(hits)]
			at := i - 2
			if !l.at(text, at) {
				continue
			}
			// What stands whole inside the last find is no find of its own. Nor is what looks like an e-mail address and
			// begins in it, such as password@host of a URL, or else the host would go too.
			last := -1
			if len(all) > base {
				last = all[len(all)-1].end
			}
			if at+len(l.text) <= last {
				continue
			}
			if start, end := l.span(text, at); start < end && (l.text != "@" || start >= last) {
				all = append(all, found{start, end, l.mark, defaultOrder})
			}
		}
	}
	return all
}

// Bounds of how far one literal is looked after, so that text of nothing but literals takes bounded time.
const (
	maxKey        = 1 << 9
	maxJWT        = 1 << 13
	maxPrivateKey = 1 << 15
	maxValue      = 1 << 9
)

func window(text []byte, at, most int) []byte { return text[at:min(len(text), at+most)] }

func isWord(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= lower(b) && lower(b) <= 'z' || b == '_'
}

// wordBefore reports whether what begins at at goes on a word, a hyphen included: task-... is no sk-... . The letter of an escape,
// which stands in text that is JSON or source code itself, is no word.
func wordBefore(text []byte, at int) bool {
	if at == 0 || !isWord(text[at-1]) && text[at-1] != '-' {
		return false
	}
	return !escapeBefore(text, at)
}

// escapeBefore reports whether an escape such as \n ends at at.
func escapeBefore(text []byte, at int) bool {
	return at >= 2 && text[at-2] == '\\' && strings.IndexByte("nrtbf", text[at-1]) >= 0
}

func hasDigit(text []byte) bool { return bytes.ContainsAny(text, "0123456789") }

// group returns where the last group that took part in a match of re at text[at:] stands.
func group(re *regexp.Regexp, text []byte, at, most int) (start, end int) {
	m := re.FindSubmatchIndex(window(text, at, most))
	for i := len(m) - 2; i > 0; i -= 2 {
		if m[i] >= 0 {
			return at + m[i], at + m[i+1]
		}
	}
	return 0, 0
}

var (
	bearer     = regexp.MustCompile(`^(?i:bearer)(?:[ \t]|%20|\+)+([A-Za-z0-9._~+/=:-]{16,})`)
	basic      = regexp.MustCompile(`^(?i:basic)[ \t]+([A-Za-z0-9+/]{6,}={0,2})`)
	jwt        = regexp.MustCompile(`^eyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)`)
	privateKey = regexp.MustCompile(`^-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`)
	userinfo   = regexp.MustCompile(`^://([^\s/?#"'<>\\` + "`" + `:@]*:[^\s/?#"'<>\\` + "`" + `]+)@`)
)

func bearerSpan(text []byte, at int) (int, int) {
	if wordBefore(text, at) {
		return 0, 0
	}
	start, end := group(bearer, text, at, maxValue)
	if !hasDigit(text[start:end]) {
		return 0, 0
	}
	return start, valueEnd(text, end, len(text), bare)
}

// basicSpan finds what follows Basic and says user:password once decoded. Any word could follow it.
func basicSpan(text []byte, at int) (int, int) {
	if wordBefore(text, at) {
		return 0, 0
	}
	start, end := group(basic, text, at, maxValue)
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(text[start:end]), "="))
	if err != nil || bytes.IndexByte(plain, ':') < 0 {
		return 0, 0
	}
	return start, end
}

// authorizationSpan finds the value of the header, whatever its scheme.
func authorizationSpan(text []byte, at int) (int, int) {
	v, ok := assignmentAt(text, at)
	if !ok {
		return 0, 0
	}
	start := v.start
	for start < len(text) && start < v.start+32 && (isWord(text[start]) || text[start] == '-') {
		start++
	}
	if scheme := start; start < len(text) && text[start] == ' ' && start > v.start {
		for start = scheme; start < len(text) && start < scheme+8 && text[start] == ' '; {
			start++
		}
	} else {
		start = v.start
	}
	end := valueEnd(text, start, start+maxValue, bare)
	if value := text[start:end]; len(value) < 8 || !hasDigit(value) || placeholder(value) {
		return 0, 0
	}
	return start, valueEnd(text, end, len(text), bare)
}

func jwtSpan(text []byte, at int) (int, int) {
	if wordBefore(text, at) {
		return 0, 0
	}
	m := jwt.Find(window(text, at, maxJWT))
	return at, at + len(m)
}

// privateKeySpan finds a private key with its lines BEGIN and END. One that was cut goes as far as it looks like one. Line feeds
// may be spelled \n, as in JSON that stands in a string.
func privateKeySpan(text []byte, at int) (int, int) {
	rest := window(text, at, maxPrivateKey)
	header := privateKey.Find(rest)
	if header == nil {
		return 0, 0
	}
	const dashes = "-----"
	if i := bytes.Index(rest[len(header):], []byte(dashes+"END ")); i >= 0 {
		end := len(header) + i + len(dashes)
		if i := bytes.Index(rest[end:], []byte(dashes)); i >= 0 {
			return at, at + end + i + len(dashes)
		}
		return at, at + len(rest)
	}
	const base64Byte, between = "+/=", " \\nr\r\n\t"
	end := len(header)
	for end < len(rest) && strings.IndexByte(between, rest[end]) >= 0 {
		end++
	}
	first := end
	for end < len(rest) && (isWord(rest[end]) || strings.IndexByte(base64Byte, rest[end]) >= 0) {
		end++
	}
	if end-first < 16 {
		return 0, 0 // only talked about
	}
	for end < len(rest) && (isWord(rest[end]) || strings.IndexByte(base64Byte+between, rest[end]) >= 0) {
		end++
	}
	return at, at + end
}

// userinfoSpan finds user and password of a URL.
func userinfoSpan(text []byte, at int) (int, int) {
	if at == 0 || !isWord(text[at-1]) {
		return 0, 0
	}
	start, end := group(userinfo, text, at, maxValue)
	_, password, _ := bytes.Cut(text[start:end], []byte(":"))
	if placeholder(password) {
		return 0, 0
	}
	return start, end
}

var (
	emailHost = regexp.MustCompile(`^@((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24})(?:[^A-Za-z0-9@_-]|$)`)
	version   = regexp.MustCompile(`^[vV]?[0-9]+(?:\.[0-9]+|x\.)`) // package@1.2.3-rc.one, icon@2x.png
)

// emailSpan finds an e-mail address around its @. git@host:path is the address of a repository.
func emailSpan(text []byte, at int) (int, int) {
	const mostLocal, mostHost = 64, 256
	start := at
	for start > 0 && at-start < mostLocal && isLocal(text[start-1]) {
		start--
	}
	if escapeBefore(text, start+1) {
		start++
	}
	for start < at && (text[start] == '.' || text[start] == '-' || text[start] == '+') {
		start++
	}
	if start >= at || text[at-1] == '.' || string(text[start:at]) == "git" {
		return 0, 0
	}
	from, end := group(emailHost, text, at, mostHost)
	if host := text[from:end]; len(host) == 0 || version.Match(host) {
		return 0, 0
	}
	return start, end
}

func isLocal(b byte) bool { return isWord(b) || b == '.' || b == '%' || b == '+' || b == '-' }

// class says how sure the name of something makes that it is a secret.
type class uint8

const (
	noSecret class = iota
	// maybeSecret is a token or key: the word stands for other things too, so it must also look like one.
	maybeSecret
	// sureSecret is a password or a secret.
	sureSecret
)

// classOf says what the key of a member says of its value. Escapes in the key, which nobody writes, are not looked through.
func classOf(key []byte) class {
	if len(key) < 5 || len(key) > 64 {
		return noSecret
	}
	switch lower(key[len(key)-1]) { // cheap, as nearly all keys end here
	case 'd', 'e', 't', 'n', 'y':
	default:
		return noSecret
	}
	var buffer [64]byte
	name := buffer[:0]
	for _, b := range key {
		if b != '_' && b != '-' && b != '.' && b != ' ' {
			name = append(name, lower(b))
		}
	}
	is := func(suffixes ...string) bool {
		for _, s := range suffixes {
			if bytes.HasSuffix(name, []byte(s)) {
				return true
			}
		}
		return false
	}
	switch {
	case is("password", "passwd", "passphrase", "secret", "secretkey", "secretaccesskey"):
		return sureSecret
	case is("pagetoken", "nexttoken", "continuationtoken", "synctoken"):
		return noSecret
	case is("token", "apikey", "accesskey", "accountkey", "privatekey", "encryptionkey", "signingkey", "authkey", "authorization"):
		return maybeSecret
	default:
		return noSecret
	}
}

// secretMember says whether the value of a member whose key has a class is a secret.
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

// opaque reports whether value may be a token: long, in one piece, with digits and more.
func opaque(value []byte, least int) bool {
	return len(value) >= least && hasDigit(value) && !bytes.ContainsAny(value, " \t\r\n") && len(bytes.Trim(value, "0123456789.,")) > 0
}

// placeholder reports whether value stands for a secret that is elsewhere, or that was taken out before.
func placeholder(value []byte) bool {
	if len(value) == 0 || strings.IndexByte("$<{%", value[0]) >= 0 || bytes.HasPrefix(value, []byte("[redacted:")) {
		return true
	}
	if len(value) >= 3 && len(bytes.Trim(value, "*xX.•-_?#")) == 0 {
		return true
	}
	switch string(bytes.ToLower(value[:min(len(value), 16)])) {
	case "null", "none", "nil", "true", "false", "undefined", "string", "str", "required", "optional":
		return true
	}
	return bytes.HasPrefix(bytes.ToLower(value[:min(len(value), 5)]), []byte("your"))
}

var (
	typeWord = regexp.MustCompile(`^(?i:u?int|float|i|u|f|sha|md|utf|base|v)[-_]?[0-9]+[?!.]?$`)
	member   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::|->)[A-Za-z_][A-Za-z0-9_]*)+$`) // config.api_key2
)

// assignedSpan finds the value that is assigned to a name which ends in one of names.
func assignedSpan(text []byte, at int) (int, int) {
	v, ok := assignmentAt(text, at)
	if !ok {
		return 0, 0
	}
	// What stands before the word belongs to the name: next_page_token is not the name of a secret.
	from := at
	for from > 0 && at-from < 24 && (isWord(text[from-1]) || text[from-1] == '-') {
		from--
	}
	c := classOf(text[from:v.nameEnd])
	if c == noSecret {
		return 0, 0
	}
	stops := bare
	if v.quote != 0 {
		stops = quoted[v.quote]
	}
	end := valueEnd(text, v.start, v.start+maxValue, stops)
	value := text[v.start:end]
	if placeholder(value) {
		return 0, 0
	}
	least := 16
	switch {
	case v.quote != 0:
		if end < len(text) && isBlank(text[end]) || c == maybeSecret && !opaque(value, 8) {
			return 0, 0
		}
		end = valueEnd(text, end, len(text), stops)
		for end > v.start && text[end-1] == '\\' { // \"value\" in JSON that stands in a string
			end--
		}
		return v.start, end
	case end < len(text) && strings.IndexByte("([{<", text[end]) >= 0, typeWord.Match(value), member.Match(value):
		return 0, 0 // source code: a call, a type, a variable
	case c == sureSecret && v.direct && len(value) >= 4 && upper(text[at:v.nameEnd]):
		return v.start, valueEnd(text, end, len(text), stops) // NAME=value, as in a shell or .env
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

// assignment is a name that is followed by a value.
type assignment struct {
	nameEnd int
	start   int  // of the value, behind its quote
	quote   byte // of the value, 0 for none
	direct  bool // nothing but an equals sign stands between
}

// assignmentAt looks behind the word of a name at text[at:]: the rest of the name, maybe a quote, a colon or an equals sign, maybe a
// quote. Quotes may be escaped.
func assignmentAt(text []byte, at int) (v assignment, ok bool) {
	i := at
	for i < len(text) && i < at+64 && (isWord(text[i]) || text[i] == '-') {
		i++
	}
	v.nameEnd = i
	if q := pastEscape(text, i); q < len(text) && isQuote(text[q]) {
		i = q + 1
	}
	i = pastBlanks(text, i)
	switch {
	case i >= len(text):
		return v, false
	case bytes.HasPrefix(text[i:], []byte(":=")), bytes.HasPrefix(text[i:], []byte("=>")):
		i += 2
	case text[i] == ':' || text[i] == '=':
		i++
	default:
		return v, false
	}
	v.direct = i == v.nameEnd+1 && text[i-1] == '='
	sign := i
	i = pastBlanks(text, i)
	v.direct = v.direct && i == sign
	if q := pastEscape(text, i); q < len(text) && isQuote(text[q]) {
		v.quote = text[q]
		i = q + 1
	}
	v.start = i
	return v, true
}

func isQuote(b byte) bool { return b == '"' || b == '\'' || b == '`' }
func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func pastBlanks(text []byte, i int) int {
	for most := i + 8; i < len(text) && i < most && isBlank(text[i]); {
		i++
	}
	return i
}

// pastEscape steps over backslashes: of quotes in JSON that stands in a string, which stands in a string.
func pastEscape(text []byte, i int) int {
	for most := i + 8; i < len(text) && i < most && text[i] == '\\'; {
		i++
	}
	return i
}

// stops says which bytes end a value.
type stops [256]bool

func stopAt(bytes string) *stops {
	s := new(stops)
	for i := range len(bytes) {
		s[bytes[i]] = true
	}
	return s
}

var (
	bare   = stopAt(" \t\r\n\"'`\\,;&|<>()[]{}")
	quoted = map[byte]*stops{'"': stopAt(" \t\r\n\""), '\'': stopAt(" \t\r\n'"), '`': stopAt(" \t\r\n`")}
)

// valueEnd returns where the value that goes on at i ends, before most.
func valueEnd(text []byte, i, most int, s *stops) int {
	for most = min(most, len(text)); i < most && !s[text[i]]; {
		i++
	}
	return i
}

func upper(name []byte) bool { return bytes.Equal(name, bytes.ToUpper(name)) }
