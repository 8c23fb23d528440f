package viewer

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The checks that all tests of pages make notice what they are there for.
func TestChecksNotice(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Security-Policy", "script-src 'self'")
			_, _ = w.Write([]byte(`<title>x</title><link rel=icon href=data:,><p>Hello<script>inline()</script>
				<script src=/thrown></script><img src="` + other.URL + `/x">`))
		case "/thrown":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(`console.warn("careful"); alert("ho"); throw new Error("thrown")`))
		}
	}))
	defer s.Close()
	b := open(t, s.URL, "/", night)
	b.shows("Hello")
	want := []string{"script-src", "careful", "a dialog opens: ho", "thrown", "another host"}
	for _, w := range want {
		b.forgive(w)
	}
	for _, w := range want {
		b.awaits(w)
	}
	if found := violations(b); !strings.Contains(strings.Join(found, "\n"), "image-alt") {
		t.Errorf("axe finds %v", found)
	}
	if !js[bool](b, `matchMedia("(prefers-color-scheme: dark)").matches`) {
		t.Error("it is not dark")
	}
}
