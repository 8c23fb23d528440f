package redact

import (
	"bytes"
	"encoding/base64"
	"math/bits"
	"regexp"
	"strings"
)

// Names of the default set, as the marks show them. docs/redaction.md documents them.
const (
	nameKey        = "api-key"
	nameAuth       = "authorization"
	nameJWT        = "jwt"
	namePrivateKey = "private-key"
	nameURL        = "url-userinfo"
	nameSecret     = "secret"
	nameEmail      = "email"
)

// forms is the default set. A form is looked for wherever one of its prefixes stands.
var forms = []struct {
	name     string
	prefixes string // between bars; in small letters where case does not matter
	fold     bool   // case does not matter
	// pattern continues a prefix. Its match is the find, or its group.
	pattern string
	// check returns what of a match is the find; nothing where the end is not greater than the start. Without a
	// pattern the match is the prefix.
	check func(text []byte, start, end int) (int, int)
}{
	// OpenAI, Anthropic, OpenRouter, Langfuse, DeepSeek
	{nameKey, "sk-", false, `(?:(?:ant|proj|svcacct|admin|or|lf|None)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,})`, digitKey},
	{nameKey, "sk_live_|sk_test_|rk_live_|rk_test_", false, `[A-Za-z0-9]{16,}`, key}, // Stripe
	{nameKey, "whsec_", false, `[A-Za-z0-9+/]{24,}=*`, key},
	{nameKey, "AKIA|ASIA", false, `[A-Z2-7]{16}`, key}, // AWS: long-lived, temporary
	{nameKey, "AIza", false, `[A-Za-z0-9_-]{35}`, key}, // Google
	{nameKey, "ya29.|GOCSPX-", false, `[A-Za-z0-9_-]{20,}`, key},
	{nameKey, "ghp_|gho_|ghu_|ghs_|ghr_", false, `[A-Za-z0-9]{36,}`, key}, // GitHub
	{nameKey, "github_pat_", false, `[A-Za-z0-9_]{22,}`, key},
	{nameKey, "glpat-|glrt-", false, `[A-Za-z0-9_.-]{20,}`, key}, // GitLab
	{nameKey, "gldt-", false, `[A-Za-z0-9_-]{20,}`, key},
	{nameKey, "xoxb-|xoxa-|xoxp-|xoxr-|xoxs-", false, `[A-Za-z0-9-]{10,}`, digitKey}, // Slack
	{nameKey, "xapp-", false, `[0-9]-[A-Za-z0-9-]{20,}`, digitKey},
	{nameKey, "npm_", false, `[A-Za-z0-9]{36,}`, key},
	{nameKey, "pypi-", false, `AgE[A-Za-z0-9_-]{50,}`, key},
	{nameKey, "hf_", false, `[A-Za-z0-9]{30,}`, key},           // Hugging Face
	{nameKey, "gsk_", false, `[A-Za-z0-9]{40,}`, key},          // Groq
	{nameKey, "xai-", false, `[A-Za-z0-9]{60,}`, key},          // xAI
	{nameKey, "nvapi-", false, `[A-Za-z0-9_-]{50,}`, digitKey}, // NVIDIA
	{nameKey, "SG.", false, `[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{30,}`, key},
	{nameKey, "dckr_pat_", false, `[A-Za-z0-9_-]{20,}`, key},
	{nameKey, "dop_v1_", false, `[a-f0-9]{64}`, key}, // DigitalOcean
	{nameKey, "AGE-SECRET-KEY-1", false, `[A-Z0-9]{50,}`, key},
	{nameAuth, "bearer", true, `(?:[ \t]|%20|\+)+([A-Za-z0-9._~+/=:-]{16,})`, bearer},
	{nameAuth, "basic", true, `[ \t]+([A-Za-z0-9+/]{6,}={0,2})`, basic},
	{nameAuth, "authorization", true, ``, authorization},
	{nameJWT, "eyJ", false, ``, webToken},
	{namePrivateKey, "-----BEGIN ", false, `[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`, privateKey},
	{nameURL, "://", false, `([^\s/?#"'<>\\` + "`" + `:@]*:[^\s/?#"'<>\\` + "`" + `]+)@`, userinfo},
	{nameSecret, "password|passwd|passphrase|secret|token|api_key|api-key|apikey|access_key|access-key|accesskey|" +
		"account_key|accountkey|private_key|encryption_key|signing_key|auth_key", true, ``, secretAssigned},
	{nameEmail, "@", false, `((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24})(?:[^A-Za-z0-9@_-]|$)`, email},
}

// literal is a prefix of a form, compiled.
type literal struct {
	prefix  string
	fold    bool
	mark    *mark
	pattern *regexp.Regexp // nil for none
	check   func(text []byte, start, end int) (int, int)
}

var secretMark = newMark(nameSecret)

// literals are the prefixes of all forms, at most 64. Bit i of begins[k][b] says that literal i may have b as its byte
// k: so one pass over a text finds the few places where a prefix may stand.
var literals, begins = func() (all []literal, begins [3][256]uint64) {
	for _, f := range forms {
		m := newMark(f.name)
		for prefix := range strings.SplitSeq(f.prefixes, "|") {
			l := literal{prefix: prefix, fold: f.fold, mark: &m, check: f.check}
			if f.pattern != "" {
				l.pattern = regexp.MustCompile(`^` + f.pattern)
			}
			for k := range begins {
				for b := range 256 {
					if k >= len(prefix) || byte(b) == prefix[k] || f.fold && lower(byte(b)) == prefix[k] {
						begins[k][b] |= 1 << len(all)
					}
				}
			}
			all = append(all, l)
		}
	}
	return all, begins
}()

// Bounds of how far the default set looks behind a prefix, so that text of nothing but prefixes takes bounded time.
const (
	maxValue      = 1 << 9
	maxJWT        = 1 << 13
	maxPrivateKey = 1 << 15
)

// findDefaults appends what the default set finds in text, with the given order.
func findDefaults(all []found, text []byte, order int) []found {
	first, second, third := &begins[0], &begins[1], &begins[2]
	last := -1 // the end of the last find
	for i := 2; i < len(text); i++ {
		hits := first[text[i-2]] & second[text[i-1]] & third[text[i]]
		for at := i - 2; hits != 0; hits &= hits - 1 {
			l := &literals[bits.TrailingZeros64(hits)]
			// A prefix inside the last find is no find of its own. Nor is an e-mail address that begins in it, such as
			// password@host of a URL, or else the host would go too.
			if at+len(l.prefix) <= last || !l.at(text[at:]) {
				continue
			}
			if start, end := l.find(text, at); start < end && (l.prefix != "@" || start >= last) {
				all = append(all, found{start, end, l.mark, order})
				last = end
			}
		}
	}
	return all
}

func (l *literal) at(text []byte) bool {
	text = text[:min(len(text), len(l.prefix))]
	return string(text) == l.prefix || l.fold && bytes.EqualFold(text, []byte(l.prefix))
}

func (l *literal) find(text []byte, at int) (start, end int) {
	end = at + len(l.prefix)
	if l.pattern == nil {
		return l.check(text, at, end)
	}
	if isWord(l.prefix[0]) && wordBefore(text, at) {
		return 0, 0
	}
	m := l.pattern.FindSubmatchIndex(window(text, end, maxValue))
	switch {
	case m == nil:
		return 0, 0
	case len(m) > 2:
		return l.check(text, end+m[2], end+m[3])
	default:
		return l.check(text, at, end+m[1])
	}
}

func window(text []byte, at, most int) []byte { return text[at:min(len(text), at+most)] }

// key accepts a key that ends where a word does: longer ones of fixed length are something else.
func key(text []byte, start, end int) (int, int) {
	if end < len(text) && isWord(text[end]) {
		return 0, 0
	}
	return start, end
}

// digitKey accepts a key that has a digit, where words could have its form.
func digitKey(text []byte, start, end int) (int, int) {
	if !hasDigit(text[start:end]) {
		return 0, 0
	}
	return key(text, start, end)
}

func bearer(text []byte, start, end int) (int, int) {
	if !hasDigit(text[start:end]) {
		return 0, 0
	}
	return start, valueEnd(text, end, len(text), bareStops)
}

// basic accepts user:password in base64. Any word could follow Basic.
func basic(text []byte, start, end int) (int, int) {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(text[start:end]), "="))
	if err != nil || bytes.IndexByte(plain, ':') < 0 {
		return 0, 0
	}
	return start, end
}

var jwt = regexp.MustCompile(`^eyJ[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|` +
	`[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)`)

func webToken(text []byte, at, _ int) (int, int) {
	if wordBefore(text, at) {
		return 0, 0
	}
	return at, at + len(jwt.Find(window(text, at, maxJWT)))
}

// keyBody is what follows the line BEGIN of a private key. Line feeds may be spelled \n, as in JSON inside a string.
var keyBody = regexp.MustCompile(`^[ \\nr\r\n\t]*[A-Za-z0-9_+/=]{16,}[A-Za-z0-9_+/= \\\r\n\t]*`)

// privateKey finds a private key behind its line BEGIN, with its line END. One that was cut goes as far as it looks
// like one.
func privateKey(text []byte, at, header int) (int, int) {
	rest := text[header:min(len(text), at+maxPrivateKey)]
	body, last, ended := bytes.Cut(rest, []byte("-----END "))
	if !ended {
		body = keyBody.Find(rest)
		if body == nil {
			return 0, 0 // only mentioned
		}
		return at, header + len(body)
	}
	i := bytes.Index(last, []byte("-----"))
	if i < 0 {
		return at, header + len(rest)
	}
	return at, header + len(body) + len("-----END ") + i + len("-----")
}

// userinfo accepts user and password of a URL.
func userinfo(text []byte, start, end int) (int, int) {
	scheme := start - len("://")
	_, password, _ := bytes.Cut(text[start:end], []byte(":"))
	if scheme == 0 || !isWord(text[scheme-1]) || placeholder(password) {
		return 0, 0
	}
	return start, end
}

var version = regexp.MustCompile(`^[vV]?[0-9]+(?:\.[0-9]+|x\.)`) // package@1.2.3-rc.one, icon@2x.png

// email finds an e-mail address before its host. git@host:path is the address of a repository.
func email(text []byte, host, end int) (int, int) {
	const mostLocal = 64
	at := host - 1
	start := at
	for start > 0 && at-start < mostLocal && (isWord(text[start-1]) || strings.IndexByte(".%+-", text[start-1]) >= 0) {
		start--
	}
	if escapeBefore(text, start+1) {
		start++
	}
	for start < at && strings.IndexByte(".-+", text[start]) >= 0 {
		start++
	}
	if start >= at || text[at-1] == '.' || string(text[start:at]) == "git" || version.Match(text[host:end]) {
		return 0, 0
	}
	return start, end
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		b |= 0x20
	}
	return b
}

func isWord(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z' || b == '_'
}

// wordBefore reports whether text[at:] continues a word, a hyphen included: task-... is no sk-... . The letter of an
// escape, which stands in text that is JSON or source code itself, is no word.
func wordBefore(text []byte, at int) bool {
	return at > 0 && (isWord(text[at-1]) || text[at-1] == '-') && !escapeBefore(text, at)
}

// escapeBefore reports whether an escape such as \n ends at at.
func escapeBefore(text []byte, at int) bool {
	return at >= 2 && text[at-2] == '\\' && strings.IndexByte("nrtbf", text[at-1]) >= 0
}

func hasDigit(text []byte) bool { return bytes.ContainsAny(text, "0123456789") }
