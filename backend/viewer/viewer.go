// Package viewer serves sessions to browsers and programs: a page application in the binary, and beneath it a read-only API with the same
// JSON as the command line. docs/api.md tells the API, docs/security.md who may ask.
package viewer

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"golang.org/x/time/rate"

	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// DefaultAddr is where the viewer listens unless told otherwise.
const DefaultAddr = "127.0.0.1:8321"

// Options say what is served. Store is needed, everything else has a zero value that works.
type Options struct {
	// Store is read from and never written to. It stays the caller's to close, after the last request.
	Store store.Store
	// Name is what the database is called on pages, Version that of the program.
	Name, Version string
	// Tenant owns the sessions that are shown. Fixed says that it is the only one that may be asked for.
	Tenant string
	Fixed  bool
	// Refresh brings summaries up to date; it is called at most once a second. Nil: something else does.
	Refresh func(context.Context) error
	// Token must be shown by whoever asks; empty: nobody is asked for one, which is for loopback only (NeedsToken).
	Token string
	// Hosts are names of this server besides those of loopback, as they stand in the Host header, without port. With a Token any name is good.
	Hosts []string
	// Links are templates of addresses elsewhere by name, with {trace} and {span} in them.
	Links map[string]string
	// Log takes a line for each failure of the store or of ours; it holds no content. Nil: nothing is logged.
	Log func(string)
}

// Bounds on what clients may ask for. They are part of docs/security.md.
const (
	maxURL       = 8 << 10   // bytes of path and query
	maxHeader    = 16 << 10  // bytes of all headers
	maxParam     = 1 << 10   // bytes of one parameter or id
	maxBody      = 64 << 20  // bytes of one answer
	maxListeners = 32        // at once, on /events
	maxHeavy     = 4         // requests at once that read a whole session
	maxMaking    = 4         // answers at once that are put together, each some times its size
	maxLarge     = 256 << 20 // bytes of answers larger than smallBody that are being sent
	maxSmall     = 64 << 20  // and of the others, which the large ones do not keep out
	smallBody    = 1 << 20   // bytes
	maxSend      = time.Minute
	perSecond    = 100       // requests, all clients together
	burst        = 400       // requests
	badTokens    = 5         // a second
	cacheBytes   = 256 << 20 // of trees, more where one alone is larger
)

// Handler answers. It is safe for concurrent use.
type Handler struct {
	o         Options
	page      *page
	cache     *cache
	heavy     chan struct{}
	making    chan struct{}
	large     *budget
	small     *budget
	sendTime  time.Duration
	listeners chan struct{}
	rate, bad *rate.Limiter
	lastWrong atomic.Pointer[[sha256.Size]byte] // SHA-256 of the last wrong token
	mux       http.Handler
	proof     string // what the cookie of who showed the token holds: of this process alone

	refreshing sync.Mutex
	refreshed  time.Time
	closed     chan struct{}
	close      func()
}

// New returns a handler. Close ends what still listens for events.
func New(o Options) (*Handler, error) {
	if o.Store == nil {
		return nil, errors.New("viewer: no store")
	}
	p, err := newPage()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		o: o, page: p, cache: newCache(cacheBytes), heavy: make(chan struct{}, maxHeavy), listeners: make(chan struct{}, maxListeners),
		rate: rate.NewLimiter(perSecond, burst), bad: rate.NewLimiter(badTokens, badTokens), closed: make(chan struct{}),
		making: make(chan struct{}, maxMaking), large: newBudget(maxLarge), small: newBudget(maxSmall), sendTime: maxSend,
		proof: rand.Text(),
	}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	zip, err := compressed()
	if err != nil {
		return nil, err
	}
	h.mux = h.guard(h.routes(zip))
	return h, nil
}

// compressed returns what compresses answers that are worth it, for clients that take that.
func compressed() (func(http.HandlerFunc) http.Handler, error) {
	gzip, err := gzhttp.NewWrapper(gzhttp.MinSize(1<<10), gzhttp.CompressionLevel(2), gzhttp.ContentTypes([]string{
		"application/json", "text/plain", "text/html", "text/css", "text/javascript", "image/svg+xml",
	}))
	return func(f http.HandlerFunc) http.Handler { return gzip(f) }, err
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close ends the answers of /events. It may be called more than once.
func (h *Handler) Close() { h.close() }

// Serve answers on l, which it closes, until ctx ends; then it waits a few seconds for what is being answered. It returns nil when ctx ended
// it.
func (h *Handler) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		Handler: h, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: nil,
	}
	s.RegisterOnShutdown(h.Close)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("viewer: %w", err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.Shutdown(wait) != nil {
		_ = s.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("viewer: %w", err)
	}
	return nil
}

// routes are all paths that there are.
func (h *Handler) routes(zip func(http.HandlerFunc) http.Handler) http.Handler {
	mux := http.NewServeMux()
	api := func(path string, f func(*http.Request) (*answer, error)) {
		mux.Handle("GET /api/v1/"+path, zip(h.api(f)))
	}
	api("about", h.about)
	api("ls", h.ls)
	api("status/{session}", h.status)
	for _, rest := range []string{"", "/{run}", "/{run}/{turn}"} {
		api("show/{session}"+rest, h.show)
	}
	api("outline/{session}", h.outline)
	api("turns/{session}", h.turns)
	api("turn/{session}/{run}/{turn}", h.turn)
	api("request/{session}/{run}/{turn}", h.request)
	api("request/{session}/{run}/{turn}/{attempt}", h.request)
	api("block/{session}/{block}", h.block)
	api("diff", h.diff)
	api("replay/{session}/{run}/{turn}", h.replay)
	api("grep", h.grep)
	api("stats", h.stats)
	mux.HandleFunc("GET /api/v1/events", h.events)
	mux.Handle("GET /api/", zip(h.api(func(*http.Request) (*answer, error) { return nil, errNoPath })))
	mux.Handle("GET /assets/", zip(h.page.asset))
	mux.Handle("GET /", zip(h.page.index))
	return mux
}

// reader returns what reads the tenant that a request asks for.
func (h *Handler) reader(r *http.Request) (*reader.Reader, error) {
	tenant := h.o.Tenant
	if q := r.URL.Query(); q.Has("tenant") {
		if tenant = q.Get("tenant"); h.o.Fixed && tenant != h.o.Tenant {
			return nil, &failure{http.StatusForbidden, "this viewer shows another tenant"}
		}
	}
	return &reader.Reader{Store: h.o.Store, Tenant: tenant, Name: "the database", Refresh: h.refresh}, nil
}

// refresh brings summaries up to date, once a second at most: one that was asked for meanwhile is content with that.
func (h *Handler) refresh(ctx context.Context) error {
	if h.o.Refresh == nil {
		return nil
	}
	h.refreshing.Lock()
	defer h.refreshing.Unlock()
	if time.Since(h.refreshed) < time.Second {
		return nil
	}
	err := h.o.Refresh(ctx)
	if err == nil {
		h.refreshed = time.Now()
	}
	return err
}

// NeedsToken reports whether a server at a TCP address must demand a token: whether others than this machine reach it.
func NeedsToken(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return !ok || !t.IP.IsLoopback()
}

// hostAllowed reports whether a Host header names this server. A name that anybody can point at this machine is none of ours (DNS
// rebinding). Where a token is demanded any is good: a page that got here by such a name has no cookie of ours, and shows no token.
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
	return host == "localhost" || slices.Contains(h.o.Hosts, host)
}

// CheckLink tells whether a template of links makes sense: an address of http or https with {trace} in it.
func CheckLink(template string) error {
	u, err := url.Parse(strings.NewReplacer("{trace}", "0", "{span}", "0").Replace(template))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !strings.Contains(template, "{trace}") {
		return errors.New("want an address of http or https with {trace} in it")
	}
	return nil
}
