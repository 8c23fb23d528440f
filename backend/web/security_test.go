package web_test

import (
	"crypto/sha256"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/backend/web"
	"github.com/otelagent/otelagent/internal/must"
)

const token = "0123456789abcdef0123456789abcdef"

// A name that somebody points at this machine is not ours, however it is spelled (DNS rebinding).
func TestHosts(t *testing.T) {
	h := serve(t, web.Options{Store: memstore.New(), Hosts: []string{"Box.lan"}})
	withToken := serve(t, web.Options{Store: memstore.New(), Token: token})
	for _, c := range []struct {
		host string
		good bool
	}{
		{"127.0.0.1:8321", true}, {"127.0.0.1", true}, {"127.9.9.9:1", true}, {"localhost:8321", true}, {"localhost", true},
		{"[::1]:8321", true}, {"[::1]", true}, {"box.lan:8321", true}, {"box.lan", true},
		{"LocalHost:8321", true}, {"BOX.LAN", true},
		{"192.168.1.7:8321", false}, {"[2001:db8::1]:8321", false}, {"0.0.0.0:8321", false}, {"devbox:8321", false},
		{"evil.example", false}, {"evil.example:8321", false}, {"127.0.0.1.evil.example", false},
		{"localhost.evil.example", false},
		{"localhost.", false}, {"evil.box.lan", false}, {"", false}, {"127.1", false}, {"2130706433", false},
		{"[evil.example]:8321", false}, {"a@127.0.0.1", false}, {"127.0.0.1:8321:evil", false}, {"xn--localhost", false},
	} {
		ask := func(h *web.Handler, token string) int {
			return get(t, h, "/api/v1/ls", func(r *http.Request) {
				r.Host = c.host
				r.Header.Set("Authorization", "Bearer "+token)
			}).StatusCode
		}
		if got, want := ask(h, token), map[bool]int{true: 200, false: http.StatusMisdirectedRequest}[c.good]; got != want {
			t.Errorf("%q: %d, want %d", c.host, got, want)
		}
		if got := ask(withToken, token); got != http.StatusOK { // whoever has the token need not prove more
			t.Errorf("%q with the token: %d", c.host, got)
		}
	}
	for _, host := range []string{loopback, "devbox:8321", "evil.example"} {
		if r := get(t, withToken, "/api/v1/ls",
			func(r *http.Request) { r.Host = host }); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q without the token: %s", host, r.Status)
		}
	}
}

// What pages of other sites can make a browser ask is refused, but for following a link to a page.
func TestCrossSite(t *testing.T) {
	h := serve(t, web.Options{})
	for _, c := range []struct {
		path, site, mode, dest string
		want                   int
	}{
		{"/api/v1/ls", "", "", "", 403}, // a browser that omits the others, over plain HTTP
		{"/api/v1/events", "", "", "", 403}, {"/assets/none.js", "", "", "", 403},
		{"/api/v1/ls", "same-origin", "cors", "empty", 200},
		{"/api/v1/ls", "none", "navigate", "document", 200},
		{"/api/v1/ls", "cross-site", "cors", "empty", 403},
		{"/api/v1/ls", "cross-site", "no-cors", "script", 403},
		{"/api/v1/ls", "cross-site", "navigate", "document", 403},
		{"/api/v1/ls", "same-site", "cors", "empty", 403}, // another port of this machine
		{"/api/v1/events", "cross-site", "cors", "empty", 403},
		{"/assets/none.js", "cross-site", "no-cors", "script", 403},
		{"/", "cross-site", "navigate", "document", 200},
		{"/", "cross-site", "navigate", "iframe", 403},
		{"/", "cross-site", "no-cors", "image", 403},
		{"/s/x", "same-site", "navigate", "document", 200},
		{"/", "odd", "", "", 403},
	} {
		r := get(t, h, c.path, func(r *http.Request) {
			for name, v := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode,
				"Sec-Fetch-Dest": c.dest, "Origin": "http://evil.example"} {
				if v != "" {
					r.Header.Set(name, v)
				}
			}
		})
		if r.StatusCode != c.want {
			t.Errorf("%+v: %s", c, r.Status)
		}
		for name := range r.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: there is no CORS here", name)
			}
		}
	}
	for origin, want := range map[string]int{
		"": 200, "http://" + loopback: 200, "https://" + loopback: 200, "http://127.0.0.1:1": 403, "http://127.0.0.1": 403,
		"null": 403, "file://": 403,
		"http://" + loopback + ".evil.example": 403, "http://" + loopback + "@evil.example": 403, "ftp://" + loopback: 403,
		":": 403,
	} {
		if r := get(t, h, "/api/v1/ls", func(r *http.Request) { r.Header.Set("Origin", origin) }); r.StatusCode != want {
			t.Errorf("from %q: %s, want %d", origin, r.Status, want)
		}
	}
}

// Every answer, refusals too, says what a browser must not do with it.
func TestHeaders(t *testing.T) {
	h := serve(t, web.Options{})
	for target, edit := range map[string]func(*http.Request){
		"/": nil, "/s/" + demoID: nil, "/nope": nil, "/assets/nope": nil, "/api/v1/ls": nil, "/api/v1/nope": nil,
		"/favicon.ico":           nil,
		"/api/v1/show/" + demoID: nil, "/api/v1/request/" + demoID + "/@1/2?raw=1": nil,
		"/diff":  func(r *http.Request) { r.Method = http.MethodPost },
		"/stats": func(r *http.Request) { r.Host = "evil.example" },
	} {
		if edit == nil {
			edit = func(*http.Request) {}
		}
		r := get(t, h, target, edit)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
				"font-src 'self'; connect-src 'self'; base-uri 'none'; " +
				"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", target, name, got)
			}
		}
		if kind := r.Header.Get("Content-Type"); strings.HasPrefix(kind, "text/html") && r.StatusCode != http.StatusOK {
			t.Errorf("%s: an error as HTML", target)
		}
	}
}

func TestMethods(t *testing.T) {
	h := serve(t, web.Options{})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"} {
		for _, target := range []string{"/", "/api/v1/ls", "/api/v1/show/" + demoID, "/assets/main.js"} {
			r := get(t, h, target, func(r *http.Request) { r.Method = method })
			if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %s", method, target, r.Status)
			}
		}
	}
	if r := get(t, h, "/api/v1/ls", func(r *http.Request) { r.Method = "HEAD" }); r.StatusCode != http.StatusOK {
		t.Errorf("HEAD: %s", r.Status)
	}
}

// Without its token nobody sees anything but the empty page.
func TestToken(t *testing.T) {
	h := serve(t, web.Options{Token: token})
	bearer := func(v string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", v) }
	}
	for name, c := range map[string]struct {
		target string
		edit   func(*http.Request)
		want   int
	}{
		"none":              {"/api/v1/ls", func(*http.Request) {}, 401},
		"none, a page":      {"/s/" + demoID, func(*http.Request) {}, 200}, // which asks for it, and holds nothing
		"none, an asset":    {"/assets/main.js", func(*http.Request) {}, 200},
		"none, events":      {"/api/v1/events", func(*http.Request) {}, 401},
		"bearer":            {"/api/v1/ls", bearer("Bearer " + token), 200},
		"basic":             {"/api/v1/ls", bearer("Basic " + token), 401},
		"wrong":             {"/api/v1/ls", bearer("Bearer " + token[1:]), 401},
		"empty":             {"/api/v1/ls", bearer("Bearer "), 401},
		"in an API address": {"/api/v1/ls?token=" + token, func(*http.Request) {}, 401},
		"the token itself as a cookie": {"/api/v1/ls", func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: "otelagent_viewer_8321", Value: token})
		}, 401},
	} {
		r := get(t, h, c.target, c.edit)
		if r.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", name, r.Status, c.want)
		}
		if text := body(t, r); c.want == 401 && r.Header.Get("WWW-Authenticate") == "" ||
			strings.Contains(c.target, "/s/") && strings.Contains(text, demoID) ||
			c.want == 401 && (strings.Contains(text, demoID) || strings.Contains(text, token)) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A token in the address of a page becomes a cookie, and the address loses it.
func TestLogin(t *testing.T) {
	h := serve(t, web.Options{Token: token})
	r := get(t, h, "/s/x%2Fy/@1/2?tab=a&token="+token+"&zoom=3")
	cookies := r.Cookies()
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/s/x%2Fy/@1/2?tab=a&zoom=3" ||
		len(cookies) != 1 {
		t.Fatalf("%s to %q, %v", r.Status, r.Header.Get("Location"), cookies)
	}
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || strings.Contains(c.Value, token) {
		t.Errorf("%+v", c)
	}
	with := func(r *http.Request) { r.AddCookie(c) }
	for _, target := range []string{"/", "/api/v1/ls", "/api/v1/show/" + demoID} {
		if r := get(t, h, target, with); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", target, r.Status)
		}
	}
	if r := get(t, h, "/?token="+token, with); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/" {
		t.Errorf("again: %s to %q", r.Status, r.Header.Get("Location"))
	}
	if r := get(t, h, "/?token=wrong"); r.StatusCode != http.StatusSeeOther || len(r.Cookies()) != 0 {
		t.Errorf("a wrong one: %s, %v", r.Status, r.Cookies())
	}
	if c.Name != "otelagent_viewer_8321" {
		t.Errorf("%s: browsers send a cookie to all ports", c.Name)
	}
	if r := get(t, serve(t, web.Options{Token: token}), "/api/v1/ls", with); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the cookie of another process: %s", r.Status)
	}
	elsewhere := get(t, h, "/?token="+token, func(r *http.Request) { r.Host = "127.0.0.1:9" }).Cookies()
	if len(elsewhere) != 1 || elsewhere[0].Name != "otelagent_viewer_9" {
		t.Errorf("at another port: %v", elsewhere)
	}
	for _, target := range []string{"//evil.example/?token=" + token,
		"/\\evil.example?token=" + token} { // the redirect stays here
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.RequestURI = loopback, target
		r.URL = &url.URL{Path: strings.SplitN(target, "?", 2)[0], RawQuery: "token=" + token}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); strings.HasPrefix(to, "//") || strings.HasPrefix(to, "/\\") ||
			!strings.HasPrefix(to, "/") {
			t.Errorf("%s leads to %q", target, to)
		}
	}
}

// Nobody tries many tokens, and whoever has the right one waits no longer than the others.
func TestTokenGuessing(t *testing.T) {
	h := serve(t, web.Options{Token: token})
	for range 50 { // a page sends the same wrong token again and again
		r := get(t, h, "/api/v1/ls", func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") })
		if r.StatusCode != http.StatusUnauthorized {
			t.Fatal(r.Status)
		}
	}
	refused := 0
	for i := range 50 {
		r := get(t, h, "/api/v1/ls", func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong"+strconv.Itoa(i)) })
		if r.StatusCode == http.StatusTooManyRequests {
			refused++
		} else if r.StatusCode != http.StatusUnauthorized {
			t.Fatal(r.Status)
		}
	}
	if refused < 30 {
		t.Errorf("%d of 50 were refused", refused)
	}
}

func TestRate(t *testing.T) {
	h := serve(t, web.Options{Store: memstore.New()})
	refused := 0
	for range 1000 {
		if r := get(t, h, "/api/v1/about"); r.StatusCode == http.StatusTooManyRequests {
			if refused++; r.Header.Get("Retry-After") == "" {
				t.Fatal("no Retry-After")
			}
		}
	}
	if refused == 0 || refused > 650 {
		t.Errorf("%d of 1000 were refused", refused)
	}
}

// Bounds on what a request may be.
func TestHugeRequests(t *testing.T) {
	h := serve(t, web.Options{Store: memstore.New()})
	long := strings.Repeat("x", 2000)
	for target, want := range map[string]int{
		"/api/v1/ls?q=" + strings.Repeat("x", 9000):          http.StatusRequestURITooLong,
		"/api/v1/ls?q=" + long:                               400,
		"/api/v1/ls?" + long + "=1":                          400,
		"/api/v1/show/" + long:                               400,
		"/api/v1/ls?" + strings.Repeat("a=1&", 100):          400,
		"/api/v1/request/x/y/1/" + long:                      400,
		"/s/" + strings.Repeat("x", 9000):                    http.StatusRequestURITooLong,
		"/api/v1/ls?limit=99999999999999999999":              400,
		"/api/v1/ls?status=idle&status=error":                400,
		"/api/v1/grep?q=a&q=b":                               400,
		"/api/v1/turns/x?from=9223372036854775808":           400,
		"/api/v1/events?session=" + strings.Repeat("x", 2e3): 400,
	} {
		if r := get(t, h, target); r.StatusCode != want {
			t.Errorf("%.60s: %s, want %d", target, r.Status, want)
		}
	}
}

// Nothing but the page's own files can be had, whatever the path.
func TestTraversal(t *testing.T) {
	h := serve(t, web.Options{Store: memstore.New()})
	index := body(t, get(t, h, "/"))
	if !strings.Contains(strings.ToLower(index), "<!doctype html") {
		t.Fatalf("the page is %.100s", index)
	}
	for _, target := range []string{
		"/assets/../viewer.go", "/assets/..%2f..%2fviewer.go", "/assets/%2e%2e/viewer.go", "/assets//etc/passwd",
		"/assets/", "/assets", "/assets/.", "/assets/..",
		"/types.d.ts", "/page/index.html", "/assets/..\\viewer.go", "/assets/\x00", "/etc/passwd", "/../../etc/passwd",
		"/index.html", "/.git/config", "/S/x",
	} {
		u := &url.URL{Path: target}
		if p, err := url.PathUnescape(target); err == nil {
			u = &url.URL{Path: p, RawPath: target}
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.URL = loopback, u
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == 200 || strings.Contains(w.Body.String(), "package viewer") ||
			strings.Contains(w.Body.String(), "root:") {
			t.Errorf("%q: %d %.100s", target, w.Code, w.Body)
		}
	}
	for _, target := range []string{"/", "/s/x", "/s/x/@1/2", "/s/x/@1/2/request", "/s/..%2F..%2Fetc", "/diff?a=1&b=2",
		"/stats", "/grep?q=<script>"} {
		if r := get(t, h, target); r.StatusCode != http.StatusOK || body(t, r) != index {
			t.Errorf("%s is not the page: %s", target, r.Status)
		}
	}
}

// Assets are those of the folder, with the types that scripts and styles must have, and a browser that has one is not
// sent it again.
func TestAssets(t *testing.T) {
	h := serve(t, web.Options{Store: memstore.New()})
	files, err := os.ReadDir("page/assets")
	if err != nil || len(files) == 0 {
		t.Fatal("no assets", err)
	}
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		want := must.Get(os.ReadFile("page/assets/" + f.Name()))(t)
		r := get(t, h, "/assets/"+f.Name())
		if got := body(t, r); r.StatusCode != http.StatusOK || sha256.Sum256([]byte(got)) != sha256.Sum256(want) {
			t.Errorf("%s: %s, another file", f.Name(), r.Status)
		}
		if kind := map[string]string{".js": "text/javascript; charset=utf-8",
			".css": "text/css; charset=utf-8"}[path.Ext(f.Name())]; kind != "" &&
			r.Header.Get("Content-Type") != kind {
			t.Errorf("%s is %s", f.Name(), r.Header.Get("Content-Type"))
		}
		again := get(t, h, "/assets/"+f.Name(), func(q *http.Request) { q.Header.Set("If-None-Match", r.Header.Get("ETag")) })
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %s", f.Name(), again.Status)
		}
	}
}

func TestFixedTenant(t *testing.T) {
	h := serve(t, web.Options{Fixed: true})
	for target, want := range map[string]int{"/api/v1/ls": 200, "/api/v1/ls?tenant=": 200, "/api/v1/ls?tenant=x": 403,
		"/api/v1/show/" + demoID + "?tenant=x": 403, "/api/v1/events?tenant=x": 403} {
		if r := get(t, h, target); r.StatusCode != want {
			t.Errorf("%s: %s, want %d", target, r.Status, want)
		}
	}
}

func TestNeedsToken(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false, "127.8.8.8:1": false,
		"0.0.0.0:1": true, "[::]:1": true, "10.0.0.1:1": true, ":1": true} {
		a := must.Get(net.ResolveTCPAddr("tcp", addr))(t)
		if got := web.NeedsToken(a); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if !web.NeedsToken(&net.UnixAddr{Name: "/x"}) {
		t.Error("what is not known to be loopback needs one")
	}
}

// Whatever is asked, the server answers, with JSON where the path is of the API, and with nothing that is not the
// page's elsewhere.
func FuzzPaths(f *testing.F) {
	for p := range paths() {
		f.Add("/api/v1/" + p)
	}
	for _, p := range []string{"/", "/s/a%2Fb", "/assets/main.js", "/%", "/api/v1/show/%zz", "/api/v1/show/%00", "//x",
		"/api/v1/ls?limit=%f0"} {
		f.Add(p)
	}
	st := sample(f)
	index := ""
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") || strings.HasPrefix(u.Path, "/api/v1/events") {
			return
		}
		h := serve(t, web.Options{Store: st}) // a new one each time: its rate is bounded
		if index == "" {
			index = body(t, get(t, h, "/"))
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.URL, r.RequestURI = loopback, u, target
		w := httptest.NewRecorder()
		from := time.Now()
		h.ServeHTTP(w, r)
		text := w.Body.String()
		switch {
		case time.Since(from) > 10*time.Second:
			t.Errorf("%q took %s", target, time.Since(from))
		case w.Code == 500 || w.Code < 200:
			t.Errorf("%q: %d %s", target, w.Code, text)
		case w.Header().Get("Content-Type") == "application/json" && !json.Valid([]byte(text)):
			t.Errorf("%q: %d, no JSON: %.200s", target, w.Code, text)
		case strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") && w.Code == 200 && text != index:
			t.Errorf("%q: HTML that is not the page", target)
		}
	})
}

// Ids that browsers take for folders have a name in paths that they leave alone.
func TestDots(t *testing.T) {
	st := memstore.New()
	for _, id := range []string{"..", "~..", "."} {
		record(t, st, demo, id)
	}
	h := serve(t, web.Options{Store: st})
	for written, id := range map[string]string{"~..": "..", "~~..": "~..", "~.": ".", "%7E..": ".."} {
		if s := read[struct{ ID string }](t, h, "/api/v1/show/"+written+"/@1/1"); s.ID != id {
			t.Errorf("%s gives %q, want %q", written, s.ID, id)
		}
	}
}
