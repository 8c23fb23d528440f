package redact

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// spell puts a secret of these tests together from pieces, so that no scanner takes this file for a leak.
func spell(pieces ...string) string { return strings.Join(pieces, "") }

const (
	alnum   = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6a7B8c9D0e1F2"
	upper32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// find is a text with a secret, which becomes the mark of name.
type find struct{ name, before, secret, after string }

func TestDefaultsFind(t *testing.T) {
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nabcd+/==\n-----END RSA PRIVATE KEY-----"
	list := []find{
		{"api-key", "key ", spell("sk-", alnum[:48]), " here"},
		{"api-key", "", spell("sk-", "or-v1-", strings.Repeat("0a", 32)), "."},
		{"api-key", "", spell("sk-", "lf-", "550e8400-e29b-41d4-a716-446655440000"), ""},
		{"api-key", "(", spell("sk_", "live_", alnum[:24]), ")"},
		{"api-key", "id ", spell("AKIA", upper32[:16]), ","},
		{"api-key", "", spell("ASIA", upper32[:16]), ""},
		{"api-key", "?key=", spell("AIza", "Sy", alnum[:33]), "&x=1"},
		{"api-key", "", spell("SG.", alnum[:22], ".", alnum[:43]), ""},
		{"api-key", "", spell("dop_", "v1_", strings.Repeat("0a", 32)), ""},
		{"api-key", "", spell("AGE-", "SECRET-KEY-1", strings.ToUpper(alnum[:58])), ""},
		{"api-key", `a = "x\n`, spell("sk-", alnum[:48]), `\n"`}, // source code, where \n is no word before the key

		{"authorization", "Authorization: Bearer ", alnum[:32], "\n"},
		{"authorization", "curl -H 'authorization: bearer ", alnum[:32], "' https://x"},
		{"authorization", "bearer%20", alnum[:32], "&x"},
		{"authorization", "Authorization: Basic ", base64.StdEncoding.EncodeToString([]byte("aladdin:open sesame")), "\n"},
		{"authorization", `{\"Authorization\": \"`, alnum[:32], `\"}`},
		{"authorization", "Proxy-Authorization: Digest ", alnum[:32], ""},

		{"jwt", "jwt ", spell("eyJ", "hbGciOiJIUzI1NiJ9", ".", "eyJ", "zdWIiOiIxMjM0NTY3ODkwIn0", ".", alnum[:43]), "."},
		{"jwt", "jwe ", spell("eyJ", "hbGciOiJkaXIiLCJlbmMi", "..", alnum[:16], ".", alnum[:20], ".", alnum[:22]), ""},

		{"private-key", "cat id_rsa\n", pem, "\n$"},
		{"private-key", `"key": "`, strings.ReplaceAll(pem, "\n", `\n`), `"`},
		{"private-key", "", strings.ReplaceAll(pem, "RSA ", "OPENSSH "), ""},
		{"private-key", "", strings.NewReplacer("RSA ", "PGP ", "KEY-", "KEY BLOCK-").Replace(pem), ""},
		{"private-key", "cut: ", "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA7abcdefgh", "... (truncated)"},

		{"url-userinfo", "psql postgres://", "admin:s3cr3t", "@db.example.com:5432/x"},
		{"url-userinfo", "redis://", ":p@ss", "@localhost/0"},
		{"url-userinfo", "git clone https://", "oauth2:abcdef", "@git.example.com/a.git"},

		{"secret", "DB_PASSWORD=", "hunter2", "\nA=b"},
		{"secret", "export MYSQL_PASSWORD=", "correcthorse", ""},
		{"secret", "mysql --password=", "hunter2", " -u root"},
		{"secret", "password: ", "hunter2", ""},
		{"secret", "password = \"", "abcd", "\""},
		{"secret", "'passwd' => '", "it\"s", "',"},
		{"secret", `{"password":"`, "hunter2", `"}`},
		{"secret", `{\"password\": \"`, "hunter2", `\"}`},
		{"secret", "client_secret: '", "abcdefgh", "'"},
		{"secret", "AWS_SECRET_ACCESS_KEY=", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "\n"},
		{"secret", "aws_secret_access_key = ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "\n"},
		{"secret", "OPENAI_API_KEY=\"", "0123456789abcdef", "\""},
		{"secret", "X-Api-Key: ", "0123456789abcdef", "\r\n"},
		{"secret", "?access_token=", "0123456789abcdef", "&a=b"},
		{"secret", "AccountKey=", "abcdefgh12345678==", ";Endpoint"},
		{"secret", "session_token: \"", "0a1b2c3d", "\""},

		{"email", "To: ", "jane.doe+news@mail.example.co.uk", ", x"},
		{"email", "<", "a@b.org", ">"},
		{"email", `"line\n`, "bob@example.com", `\n"`},
		{"email", "write to ", "bob@example.com", "."},
	}
	for prefix := range strings.FieldsSeq("sk- sk-proj- sk-ant-api03- sk_live_ sk_test_ rk_live_ " +
		"rk_test_ whsec_ ya29. GOCSPX- " +
		"ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- xoxb-123456789012- xoxa-2- xoxp-1- xoxr-1- xoxs-1- " +
		"xapp-1-A0123- npm_ pypi-AgEIcHlwaS5vcmc hf_ gsk_ xai- nvapi- dckr_pat_") {
		list = append(list, find{"api-key", "", spell(prefix, alnum), "\n"})
	}
	for _, tt := range list {
		text := tt.before + tt.secret + tt.after
		want := tt.before + "[redacted:" + tt.name + "]" + tt.after
		got, n := apply(Defaults(), "text", "", "", false, []byte(text))
		if diff := cmp.Diff(want, string(got)); diff != "" || n != 1 {
			t.Errorf("%s: %d places (-want +got):\n%s", tt.name, n, diff)
		}
		again, n := apply(Defaults(), "text", "", "", false, got)
		if diff := cmp.Diff(want, string(again)); diff != "" || n != 0 {
			t.Errorf("%s, once more: %d places (-want +got):\n%s", tt.name, n, diff)
		}
	}
}

func TestDefaultsLeave(t *testing.T) {
	for _, text := range []string{
		// ids and hashes
		"commit 3ad224d1f0a5be6b6a7cf9ed488b81f60a9c1e2d\nAuthor: nobody",
		"550e8400-e29b-41d4-a716-446655440000",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"h1:c+QPwzAOdrWvzycuc9HFsIZcxKIaWcNpC+xhOW9rJxU=",
		"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
		"call_0123456789abcdef toolu_01A09q90qw90lq917835lq9 msg_0123456789abcdef",
		// words like prefixes of keys
		"pip install sk-learn sk-learn-contrib-something-long",
		`<div class="sk-estimator-doc-link sk-toggleable__label sk-container-id-1 sk-top-container">`,
		"task-0123456789abcdefghij0123456789 risk-abcdefghijklmnopqrst0 disk-0123456789abcdefghij0",
		"npm_config_registry=x npm_lifecycle_event hf_hub_download hf_transfer ghp_ gsk_ AKIA AIza xoxb-",
		"ASIAPACIFICANDOTHERREGIONS SG.tm glpat-x whsec_x",
		// words about authorization
		"Basic authentication, Bearer authentication and bearer token-based-authorization-flow",
		"Basic understanding of basic arithmetic", "Authorization: Bearer $TOKEN", "Authorization: Bearer <token>",
		"the Authorization: header is required", "eyJ is how a JWT begins", "eyJhbGciOiJIUzI1NiJ9 is only its header",
		"-----BEGIN PRIVATE KEY----- is how it begins",
		"-----BEGIN CERTIFICATE-----\nMIIB0123456789abcdef\n-----END CERTIFICATE-----",
		"-----BEGIN PUBLIC KEY-----\nMIIB0123456789abcdef\n-----END PUBLIC KEY-----",
		// URLs
		"https://example.com:8080/path?q=a:b", "http://user@localhost/", "ssh://git@github.com/a/b",
		"postgres://$USER:$PASS@host/db",
		"https://user:{password}@host", "https://medium.com/@someone/a:b", "file:///a@b", "s3://bucket/key:1@2",
		// source code
		"password = getpass.getpass()", "password = config.password1", "token = tokens[0]", "token := parser.Next2()",
		"let token: String = x;",
		"password: string;", "token: u64, secret: float64", "def f(token=None, password=\"\"):",
		"password=password, token=token",
		"if token == 12345678 {", "max_tokens: 4096, \"total_tokens\": 12345678901234567890",
		"tokenizer: cl100k_base_tokenizer",
		`{"token": "hello", "logprob": -0.1}`, `"next_page_token": "0123456789abcdefgh"`,
		`"nextPageToken": "0123456789abcdefgh"`,
		"eos_token: <|endoftext|>", "export TOKEN=$(cat token)", "PASSWORD=${PASSWORD}", "password: ********",
		"API_KEY=your-api-key-2",
		"password: required", "apiKey: process.env.API_KEY_2", "secret: sha256",
		"Enter the password: then press return", "password",
		"the token is 0123456789abcdefgh", "secretary: jane0123456789abc", "passwords: 123456789",
		// not e-mail addresses
		"git@github.com:owner/repo.git", "react@18.2.0 @types/node@20.1.0", "golang.org/x/net@v0.61.0", "mod@v1.2.3-rc.beta",
		"icon@2x.png", "user@localhost", "@app.route('/')", "a @ b.c", "name@", "x@y", "@@@@", "foo.@bar.com",
	} {
		got, n := apply(Defaults(), "text", "", "", false, []byte(text))
		if diff := cmp.Diff(text, string(got)); diff != "" || n != 0 {
			t.Errorf("%d places (-want +got):\n%s", n, diff)
		}
	}
}

func TestDefaultsMembers(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"password":"correct horse battery staple"}`, `{"password":"[redacted:secret]"}`},
		{`{"dbPassword": "x" , "a":1}`, `{"dbPassword": "[redacted:secret]" , "a":1}`},
		{`{"PASSPHRASE":"x"}`, `{"PASSPHRASE":"[redacted:secret]"}`},
		{`{"client-secret":"x"}`, `{"client-secret":"[redacted:secret]"}`},
		{`{"secretAccessKey":"x"}`, `{"secretAccessKey":"[redacted:secret]"}`},
		{`{"pin_password":12345}`, `{"pin_password":"[redacted:secret]"}`},
		{`{"accessToken":"0123456789abcdef"}`, `{"accessToken":"[redacted:secret]"}`},
		{`{"x_api_key":"0123456789abcdef"}`, `{"x_api_key":"[redacted:secret]"}`},
		{`{"authorization":"0123456789abcdef"}`, `{"authorization":"[redacted:secret]"}`},
		{`{"authorization":"Bearer 0123456789abcdef"}`, `{"authorization":"Bearer [redacted:authorization]"}`},
		{`[{"a":{"apiKey":"a\u0062cdef0123456"}}]`, `[{"a":{"apiKey":"[redacted:secret]"}}]`},

		{`{"password":{"type":"string"},"required":["password"],"token":true,"secret":null}`, ""},
		{`{"password":"","secret":"${SECRET}","token":"{{token}}"}`, ""},
		{`{"token":"internationalization","max_tokens":4096,"token_type":"bearer"}`, ""},
		{`{"token":12345678901234567,"next_page_token":"0123456789abcdef","tokens":["0123456789abcdef"]}`, ""},
		{`{"password":"[redacted:secret]"}`, ""},
	} {
		want, places := tt.want, 1
		if want == "" {
			want, places = tt.in, 0
		}
		got, n := apply(Defaults(), "args", "", "", true, []byte(tt.in))
		if diff := cmp.Diff(want, string(got)); diff != "" || n != places {
			t.Errorf("%s: %d places (-want +got):\n%s", tt.in, n, diff)
		}
	}
}

// Text that is made of beginnings of secrets takes time in proportion to its length.
func TestDefaultsBounded(t *testing.T) {
	for _, piece := range []string{"@", "a@", "eyJ-", "eyJa.", "://", "a://a", "token", "token=", "token='",
		"bearer ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----",
		"sk-", "authorization:", "basic a", "password \\\"", "aaaaaaaa@a.a.", strings.Repeat("a-", 100)} {
		text := []byte(strings.Repeat(piece, 1<<17/len(piece)))
		start := time.Now()
		apply(Defaults(), "text", "", "", false, text)
		// The slowest take 40 ms. What goes on to the end of the text each time takes minutes.
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%q: %v", piece, took)
		}
	}
}
