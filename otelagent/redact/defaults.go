package redact

import (
	"bytes"
	"encoding/base64"
	"math/bits"
	"regexp"
	"strings"
	"unicode"
)

// forms is the default set. A form is looked for wherever one of its prefixes is. Its names are those that the
// marks show; docs/redaction.md documents them.
var forms = []struct {
	name     string
	prefixes string // between bars; with (?i) before them they are in small letters, and case does not matter
	// pattern continues a prefix. Its match with the prefix is the find, or its last group.
	pattern string
	// check returns what of a match is the find; nothing where the end is not greater than the start. With nil it is
	// the match.
	check func(text []byte, start, end int) (int, int)
}{
	// OpenAI, Anthropic, OpenRouter, Langfuse, DeepSeek
	{"api-key", "sk-", `(?:(?:ant|proj|svcacct|admin|or|lf|None)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,})`, digitKey},
	{"api-key", "sk_live_|sk_test_|rk_live_|rk_test_", `[A-Za-z0-9]{16,}`, key}, // Stripe
	{"api-key", "whsec_", `[A-Za-z0-9+/]{24,}=*`, key},
	{"api-key", "AKIA|ASIA", `[A-Z2-7]{16}`, key}, // AWS: long-lived, temporary
	{"api-key", "AIza", `[A-Za-z0-9_-]{35}`, key}, // Google
	{"api-key", "ya29.|GOCSPX-|gldt-|dckr_pat_", `[A-Za-z0-9_-]{20,}`, key},
	{"api-key", "ghp_|gho_|ghu_|ghs_|ghr_|npm_", `[A-Za-z0-9]{36,}`, key}, // GitHub
	{"api-key", "github_pat_", `[A-Za-z0-9_]{22,}`, key},
	{"api-key", "glpat-|glrt-", `[A-Za-z0-9_.-]{20,}`, key},                     // GitLab
	{"api-key", "xoxb-|xoxa-|xoxp-|xoxr-|xoxs-", `[A-Za-z0-9-]{10,}`, digitKey}, // Slack
	{"api-key", "xapp-", `[0-9]-[A-Za-z0-9-]{20,}`, digitKey},
	{"api-key", "pypi-", `AgE[A-Za-z0-9_-]{50,}`, key},
	{"api-key", "hf_", `[A-Za-z0-9]{30,}`, key},           // Hugging Face
	{"api-key", "gsk_", `[A-Za-z0-9]{40,}`, key},          // Groq
	{"api-key", "xai-", `[A-Za-z0-9]{60,}`, key},          // xAI
	{"api-key", "nvapi-", `[A-Za-z0-9_-]{50,}`, digitKey}, // NVIDIA
	{"api-key", "SG.", `[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{30,}`, key},
	{"api-key", "dop_v1_", `[a-f0-9]{64}`, key}, // DigitalOcean
	{"api-key", "AGE-SECRET-KEY-1", `[A-Z0-9]{50,}`, key},
	{"authorization", "(?i)bearer", `(?:[ \t]|%20|\+)+([A-Za-z0-9._~+/=:-]{16,})`, credential},
	{"authorization", "(?i)basic", `[ \t]+([A-Za-z0-9+/]{6,}={0,2})`, basic},
	{"authorization", "(?i)authorization", assigns + `(?:[A-Za-z0-9_-]{1,32} {1,8})?([^ \t\r\n"'` + "`" +
		`\\,;&|<>()\[\]{}]{8,})`, credential},
	{"jwt", "eyJ", `[A-Za-z0-9_-]{8,}\.(?:eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}|` +
		`[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)`, nil},
	{"private-key", "-----BEGIN ", `[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----`, privateKey},
	{"url-userinfo", "://", `([^\s/?#"'<>\\` + "`" + `:@]*:[^\s/?#"'<>\\` + "`" + `]+)@`, userinfo},
	{"secret", "(?i)password|passwd|passphrase|secret|token|api_key|api-key|apikey|access_key|access-key|accesskey|" +
		"account_key|accountkey|private_key|encryption_key|signing_key|auth_key", ``, secretAssigned},
	{"email", "@", `((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.)+[A-Za-z]{2,24})(?:[^A-Za-z0-9@_-]|$)`, email},
}

// prefix is a prefix of a form, compiled.
type prefix struct {
	text    string
	fold    bool
	mark    string
	pattern *regexp.Regexp
	window  int // how far the pattern looks
	check   func(text []byte, start, end int) (int, int)
}

// prefixes are those of all forms, at most 64. Bit i of begins[k][b] says that prefix i may have b as its byte k, so
// that one pass over a text finds the few places where a prefix may be.
var prefixes, begins = func() (all []prefix, begins [3][256]uint64) {
	for _, f := range forms {
		list, fold := strings.CutPrefix(f.prefixes, "(?i)")
		p := prefix{fold: fold, mark: markOf(f.name), pattern: regexp.MustCompile("^" + f.pattern), window: maxValue,
			check: f.check}
		if f.name == "jwt" {
			p.window = maxJWT
		}
		for p.text = range strings.SplitSeq(list, "|") {
			for i := range 3 * 256 {
				k, b := i/256, byte(i)
				if k >= len(p.text) || b == p.text[k] || fold && unicode.ToLower(rune(b)) == rune(p.text[k]) {
					begins[k][b] |= 1 << len(all)
				}
			}
			all = append(all, p)
		}
	}
	return all, begins
}()

// Bounds of how far the default set looks after a prefix, so that text of nothing but prefixes takes bounded time.
const (
	maxValue      = 1 << 9
	maxJWT        = 1 << 13
	maxPrivateKey = 1 << 15
)

// findDefaults appends what the default set finds in text, with the given order.
func findDefaults(all []found, text []byte, order int) []found {
	last := -1 // the end of the last find
	for i := 2; i < len(text); i++ {
		hits := begins[0][text[i-2]] & begins[1][text[i-1]] & begins[2][text[i]]
		for at := i - 2; hits != 0; hits &= hits - 1 {
			p := &prefixes[bits.TrailingZeros64(hits)]
			// A prefix inside the last find is no find of its own. Nor is an e-mail address that begins in it, such as
			// password@host of a URL, or else the host would go too.
			if at+len(p.text) <= last || !p.at(text[at:]) {
				continue
			}
			if start, end := p.find(text, at); start < end && (p.text != "@" || start >= last) {
				all = append(all, found{start, end, p.mark, order})
				last = end
			}
		}
	}
	return all
}

// at reports whether text begins with the prefix.
func (p *prefix) at(text []byte) bool {
	begin := string(text[:min(len(text), len(p.text))])
	return begin == p.text || p.fold && strings.EqualFold(begin, p.text)
}

// find returns the find after the prefix that is at text[at:].
func (p *prefix) find(text []byte, at int) (start, end int) {
	start, end = at, at+len(p.text)
	if !p.fold && isWord(p.text[0]) && wordBefore(text, at) {
		return 0, 0
	}
	m := p.pattern.FindSubmatchIndex(window(text, end, p.window))
	if m == nil {
		return 0, 0
	}
	if len(m) > 2 {
		start = end + m[len(m)-2]
	}
	end += m[len(m)-1]
	if p.check == nil {
		return start, end
	}
	return p.check(text, start, end)
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

// credential accepts a value with a digit, up to its end.
func credential(text []byte, start, end int) (int, int) {
	if value := text[start:end]; !hasDigit(value) || placeholder(value) {
		return 0, 0
	}
	return start, start + len(until(text[start:], bareStops))
}

// basic accepts user:password in base64. Any word could follow Basic.
func basic(text []byte, start, end int) (int, int) {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(text[start:end]), "="))
	if err != nil || bytes.IndexByte(plain, ':') < 0 {
		return 0, 0
	}
	return start, end
}

// keyBody is what follows the line BEGIN of a private key. Line feeds may be spelled \n, as in JSON inside a string.
var keyBody = regexp.MustCompile(`^[ \\nr\r\n\t]*[A-Za-z0-9_+/=]{16,}[A-Za-z0-9_+/= \\\r\n\t]*`)

// privateKey finds a private key after its line BEGIN, with its line END. One that was cut goes as far as it looks
// like one.
func privateKey(text []byte, at, header int) (int, int) {
	rest := text[header:min(len(text), at+maxPrivateKey)]
	if i := bytes.Index(rest, []byte("-----END ")); i >= 0 {
		_, after, _ := bytes.Cut(rest[i+len("-----END "):], []byte("-----"))
		return at, header + len(rest) - len(after)
	}
	body := keyBody.Find(rest)
	if body == nil {
		return 0, 0 // only mentioned
	}
	return at, header + len(body)
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
	start = at - len(bytes.TrimLeft(text[start:at], ".-+"))
	if start >= at || text[at-1] == '.' || string(text[start:at]) == "git" || version.Match(text[host:end]) {
		return 0, 0
	}
	return start, end
}

func isWord(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z' || b == '_'
}

func isName(b byte) bool { return isWord(b) || b == '-' }

// wordBefore reports whether text[at:] continues a word, a hyphen included: task-... is no sk-... . The letter of an
// escape, which is in text that is JSON or source code itself, is no word.
func wordBefore(text []byte, at int) bool {
	return at > 0 && isName(text[at-1]) && !escapeBefore(text, at)
}

// escapeBefore reports whether an escape such as \n ends at at.
func escapeBefore(text []byte, at int) bool {
	return at >= 2 && text[at-2] == '\\' && strings.IndexByte("nrtbf", text[at-1]) >= 0
}

func hasDigit(text []byte) bool { return bytes.ContainsAny(text, "0123456789") }
