package writer

import "testing"

func TestWithoutUserinfo(t *testing.T) {
	for in, want := range map[string]string{
		`{"base_url":"https://u:p@h/v1?x=a@b"}`:         `{"base_url":"https://h/v1?x=a@b"}`,
		`{"base_url":"https://u:p@ss@h/v1"}`:            `{"base_url":"https://h/v1"}`,
		`{"base_url":"https:\/\/u:p@h\/v1"}`:            `{"base_url":"https://h/v1"}`,
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
