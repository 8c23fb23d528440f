package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// policy lets a page load files of this server only, and refuses frames. HTML in model output cannot run: scripts come
// from files, and Trusted Types refuse strings as HTML.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// cookieFor names the cookie that stands for the token. Browsers send cookies to all ports of a host, so the name has
// the port: two servers on one machine do not log each other out.
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

// guard refuses forbidden requests before any handler reads them.
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
			refuse(w, r, &failure{http.StatusMisdirectedRequest,
				"this server does not go by that name: ask by address, or by the name it was given"})
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

// foreign reports whether a page of another site sends the request. It permits following a link to a page: the other
// site cannot read it. Browsers omit Sec-Fetch-Site over plain HTTP to other machines; requests whose answers scripts
// can read then still have an Origin.
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

// sameOrigin reports whether the Origin of a browser is this server, by its name in Host. A proxy with TLS makes it
// https.
func sameOrigin(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
}

func isPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasPrefix(r.URL.Path, "/assets/")
}

// login reports whether r may continue; else it answered r. The page and its assets hold no session and need no
// token, so that the page can ask for it. A token in the address of a page becomes a cookie, and the browser goes to
// the address without it.
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
			http.SetCookie(w, &http.Cookie{
				Name: cookieFor(r), Value: h.proof, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
			})
		}
		h.withoutToken(w, r, q)
		return false
	}
	if c, err := r.Cookie(cookieFor(r)); err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(h.proof)) == 1 {
		return true
	}
	wrong := &failure{http.StatusUnauthorized,
		"a token is needed: open /?token=TOKEN, or send it as Authorization: Bearer TOKEN"}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		if wrong = h.try(token); wrong == nil {
			return true
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="otelagent"`)
	refuse(w, r, wrong)
	return false
}

// try returns what is wrong with a token, nil for the right one. It bounds the rate of tries. The last wrong token is
// no new try: a page sends it with several requests.
func (h *Handler) try(token string) *failure {
	wrong := &failure{http.StatusUnauthorized, "that is not the token"}
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(h.o.Token)) // of one length, for constant time
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

// withoutToken redirects a browser to the same page, so that no history keeps the token.
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

// hostAllowed reports whether a Host header names this server: a foreign name may be DNS rebinding. With a token every
// name is allowed: a page that got here by such a name has neither the cookie nor the token.
func (h *Handler) hostAllowed(host string) bool {
	if h.o.Token != "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return slices.ContainsFunc(append([]string{"localhost"}, h.o.Hosts...), func(name string) bool {
		return strings.EqualFold(name, host) // browsers write names in small letters
	})
}
