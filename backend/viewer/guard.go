package viewer

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// policy lets a page load what this server has and nothing else, and lets nobody frame it. Model output that were taken for HTML could not
// run: scripts come from files only, and Trusted Types refuse strings where HTML is made.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// cookieFor names the cookie that holds the proof that a token was shown. Browsers send cookies to all ports of a host, so the port is in
// the name: two viewers of one machine do not log each other out.
func cookieFor(r *http.Request) string {
	port := ""
	if _, p, err := net.SplitHostPort(r.Host); err == nil {
		port = p
	}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		return "otelagent_viewer_" + strconv.FormatUint(n, 10)
	}
	return "otelagent_viewer"
}

// guard refuses what nobody should ask, before anything looks at it.
func (h *Handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("Content-Security-Policy", policy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cross-Origin-Opener-Policy", "same-origin")
		head.Set("Cross-Origin-Resource-Policy", "same-origin")
		head.Set("Cross-Origin-Embedder-Policy", "require-corp")
		head.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			head.Set("Allow", "GET, HEAD")
			refuse(w, r, &failure{http.StatusMethodNotAllowed, "this server is read only: GET and HEAD"})
		case !h.hostAllowed(r.Host):
			refuse(w, r, &failure{http.StatusMisdirectedRequest, "this server does not go by that name: ask by address, or by the name it was given"})
		case foreign(r):
			refuse(w, r, &failure{http.StatusForbidden, "other sites may not read this"})
		case len(r.RequestURI) > maxURL:
			refuse(w, r, &failure{http.StatusRequestURITooLong, "the address is too long"})
		case !h.rate.Allow():
			refuse(w, r, &failure{http.StatusTooManyRequests, "too many requests: wait a moment"})
		default:
			if h.login(w, r) {
				next.ServeHTTP(w, r)
			}
		}
	})
}

// foreign reports whether a page of another site asks. Following a link to a page of ours is fine: whoever linked reads nothing of it.
// Browsers leave Sec-Fetch-Site out over plain HTTP to other machines; what can be read by scripts then still tells its Origin.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "":
		return r.Header.Get("Origin") != "" && !sameOrigin(r)
	case "none", "same-origin":
		return false
	}
	link := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !link || !isPage(r)
}

// sameOrigin reports whether the Origin that a browser tells is this server, by the name it was asked by. A proxy with TLS in front makes
// https of it.
func sameOrigin(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
}

func isPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasPrefix(r.URL.Path, "/assets/")
}

// login reports whether r may go on; if not it was answered. The page and its assets hold no session and need no token, so that the page can
// ask for it. A token in the address of a page is traded for a cookie, and the address without it.
func (h *Handler) login(w http.ResponseWriter, r *http.Request) bool {
	if h.o.Token == "" {
		return true
	}
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		q := r.URL.Query()
		if !isPage(r) || !q.Has("token") {
			return true
		}
		if h.try(q.Get("token")) == nil {
			http.SetCookie(w, &http.Cookie{Name: cookieFor(r), Value: h.proof, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		}
		h.withoutToken(w, r, q)
		return false
	}
	if c, err := r.Cookie(cookieFor(r)); err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(h.proof)) == 1 {
		return true
	}
	wrong := &failure{http.StatusUnauthorized, "a token is needed: open /?token=TOKEN, or send it as Authorization: Bearer TOKEN"}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if wrong = h.try(token); wrong == nil {
			return true
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="otelagent"`)
	refuse(w, r, wrong)
	return false
}

// try says what is wrong with a token; nil where it is the right one. Nobody tries many. The wrong token that came last
// is no new try: a page sends it with several requests at once.
func (h *Handler) try(token string) *failure {
	wrong := &failure{http.StatusUnauthorized, "that is not the token"}
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(h.o.Token)) // of one length, which is what is compared in constant time
	if last := h.lastWrong.Load(); last != nil && *last == got {
		return wrong
	}
	if h.bad.Tokens() < 1 {
		return &failure{http.StatusTooManyRequests, "too many wrong tokens: wait a moment"}
	}
	if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
		return nil
	}
	h.bad.Allow()
	h.lastWrong.Store(&got)
	return wrong
}

// withoutToken sends a browser to the same page, so that the token stays in no history.
func (h *Handler) withoutToken(w http.ResponseWriter, r *http.Request, q url.Values) {
	q.Del("token")
	to := "/" + strings.TrimLeft(r.URL.EscapedPath(), "/\\") // of this server, whatever the path looks like
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
