package writer

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCleanText(t *testing.T) {
	for in, want := range map[string]string{
		"":               "",
		"né":             "né",
		"a\xffb\xfe\xfd": "a\uFFFDb\uFFFD\uFFFD", // each bad byte, not each run of them
		"\xe2\x82":       "\uFFFD\uFFFD",
	} {
		if got := cleanText(in); got != want {
			t.Errorf("cleanText(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLongIDsAreHashedAndNamesCut(t *testing.T) {
	long := strings.Repeat("é", 200)
	if got := cleanID(long); len(got) != len("sha256:")+64 || !strings.HasPrefix(got, "sha256:") {
		t.Errorf("cleanID of 400 bytes = %q", got)
	}
	if got := cleanID(long[:256]); got != long[:256] {
		t.Errorf("cleanID of 256 bytes = %q", got)
	}
	if got := cleanName("x" + long); len(got) != 255 || !utf8.ValidString(got) {
		t.Errorf("cleanName of 401 bytes = %d bytes, valid %t", len(got), utf8.ValidString(got))
	}
}

func TestWithoutUserinfo(t *testing.T) {
	for in, want := range map[string]string{
		`{"base_url":"https://u:p@h/v1?x=a@b"}`:         `{"base_url":"https://h/v1?x=a@b"}`,
		`{"base_url":"https://u:p@ss@h/v1"}`:            `{"base_url":"https://h/v1"}`,
		`{"base_url":"https:\/\/u:p@h\/v1"}`:            `{"base_url":"https:\/\/h\/v1"}`,
		`{"base_url":"u:p@h/v1"}`:                       `{"base_url":"h/v1"}`,
		`{"a":[{"proxy":"http://u:p\u0040h"}],"n":1.0}`: `{"a":[{"proxy":"http://h"}],"n":1.0}`,
		`{"a":"mail@example.org", "b":"x\n"}`:           `{"a":"mail@example.org", "b":"x\n"}`,
		`{"a":"http://u@h http://v@i"}`:                 `{"a":"http://h http://i"}`,
		`{"base_url":"https://h"}`:                      `{"base_url":"https://h"}`,
		`url = https://u:p@h/`:                          `url = https://h/`,
		`{"url":"https://u:p@h/"`:                       `{"url":"https://h/"`,
	} {
		if got := string(withoutUserinfo([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}
