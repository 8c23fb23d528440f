// Package web serves sessions to browsers and programs: a page application in the binary, and below it a read-only API
// with the JSON of the command line. docs/api.md describes the API, docs/security.md who may read it.
package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/otelagent/otelagent/backend/store"
)

// DefaultAddr is the default listen address.
const DefaultAddr = "127.0.0.1:8321"

// Options configure a Handler. Store is required; every other zero value works.
type Options struct {
	// Store is read and never written. The caller closes it after the last request.
	Store store.Store
	// Name is the name of the database on pages, Version that of the program.
	Name, Version string
	// Tenant owns the sessions that are shown. Fixed refuses requests for another one.
	Tenant string
	Fixed  bool
	// Refresh brings summaries up to date. It is called at most once a second; nil when another process does that.
	Refresh func(context.Context) error
	// Token is required of every client. Empty: none, which is for loopback only (NeedsToken).
	Token string
	// Hosts are additional values of the Host header, without port. With a Token every Host is accepted.
	Hosts []string
	// Links are templates of external addresses by name, with {trace} and {span} in them.
	Links map[string]string
	// Log receives a line for each internal failure, without content. Nil: nothing is logged.
	Log func(string)
}

// Bounds on client requests. docs/security.md lists them.
const (
	maxURL       = 8 << 10   // bytes of path and query
	maxHeader    = 16 << 10  // bytes of all headers
	maxParam     = 1 << 10   // bytes of one parameter or id
	maxBody      = 64 << 20  // bytes of one answer
	maxListeners = 32        // concurrent requests of /events
	maxHeavy     = 4         // concurrent reads of a whole session
	maxMaking    = 4         // concurrent encodings, each takes some times its size
	maxLarge     = 256 << 20 // bytes being sent of answers larger than smallBody
	maxSmall     = 64 << 20  // bytes being sent of other answers
	smallBody    = 1 << 20   // bytes
	maxSend      = time.Minute
	perSecond    = 100       // requests of all clients
	burst        = 400       // requests
	badTokens    = 5         // wrong tokens a second
	cacheBytes   = 256 << 20 // of trees; a larger one is kept alone
)

// Handler serves the pages and the API. It is safe for concurrent use.
type Handler struct {
	o             Options
	page          *page
	cache         *cache
	heavy, making *semaphore.Weighted
	large, small  *semaphore.Weighted // bytes
	sendTime      time.Duration
	listeners     *semaphore.Weighted
	rate, bad     *rate.Limiter
	lastWrong     atomic.Pointer[[sha256.Size]byte] // SHA-256 of the last wrong token
	mux           http.Handler
	proof         string // value of the cookie that stands for the token, of this process alone

	refreshing sync.Mutex
	refreshed  time.Time
	closed     chan struct{}
	close      func()
}

// New returns a handler. Close ends its event streams.
func New(o Options) (*Handler, error) {
	if o.Store == nil {
		return nil, errors.New("web: no store")
	}
	p, err := newPage()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		o: o, page: p, cache: newCache(cacheBytes),
		heavy: semaphore.NewWeighted(maxHeavy), making: semaphore.NewWeighted(maxMaking),
		large: semaphore.NewWeighted(maxLarge), small: semaphore.NewWeighted(maxSmall), sendTime: maxSend,
		listeners: semaphore.NewWeighted(maxListeners),
		rate:      rate.NewLimiter(perSecond, burst), bad: rate.NewLimiter(badTokens, badTokens),
		closed: make(chan struct{}), proof: rand.Text(),
	}
	h.close = sync.OnceFunc(func() { close(h.closed) })
	zip, err := compressed()
	if err != nil {
		return nil, err
	}
	h.mux = h.guard(h.routes(zip))
	return h, nil
}

// compressed returns a wrapper that compresses answers of text for clients that accept gzip.
func compressed() (func(http.HandlerFunc) http.Handler, error) {
	types := []string{
		"application/json", "text/plain", "text/html", "text/css", "text/javascript", "image/svg+xml",
	}
	gzip, err := gzhttp.NewWrapper(gzhttp.MinSize(1<<10), gzhttp.CompressionLevel(2), gzhttp.ContentTypes(types))
	return func(f http.HandlerFunc) http.Handler { return gzip(f) }, err
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close ends the answers of /events. Further calls do nothing.
func (h *Handler) Close() { h.close() }

// Serve answers on l, which it closes, until ctx ends; then it waits a few seconds for open requests. It returns nil
// when ctx ended it.
func (h *Handler) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		Handler: h, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
	}
	s.RegisterOnShutdown(h.Close)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("web: %w", err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.Shutdown(wait) != nil {
		_ = s.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("web: %w", err)
	}
	return nil
}

func (h *Handler) routes(zip func(http.HandlerFunc) http.Handler) http.Handler {
	mux := http.NewServeMux()
	for path, f := range map[string]func(*query) (any, error){
		"about": h.about, "ls": h.ls, "status/{session}": h.status,
		"show/{session}": h.show, "show/{session}/{run}": h.show, "show/{session}/{run}/{turn}": h.show,
		"outline/{session}": h.outline, "turns/{session}": h.turns, "turn/{session}/{run}/{turn}": h.turn,
		"request/{session}/{run}/{turn}": h.request, "request/{session}/{run}/{turn}/{attempt}": h.request,
		"block/{session}/{block}": h.block, "diff": h.diff, "replay/{session}/{run}/{turn}": h.replay,
		"grep": h.grep, "stats": h.stats,
	} {
		mux.Handle("GET /api/v1/"+path, zip(h.api(f)))
	}
	mux.HandleFunc("GET /api/v1/events", h.events)
	mux.Handle("GET /api/", zip(h.api(func(*query) (any, error) { return nil, errNoPath })))
	mux.Handle("GET /assets/", zip(h.page.asset))
	mux.Handle("GET /", zip(h.page.index))
	return mux
}

// refresh brings summaries up to date, at most once a second.
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

func (h *Handler) log(err error) {
	if h.o.Log != nil {
		h.o.Log(err.Error())
	}
}

// NeedsToken reports whether a server at a TCP address must require a token: whether other machines reach it.
func NeedsToken(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return !ok || !t.IP.IsLoopback()
}

// CheckLink reports whether a template of links is usable: an address of http or https with {trace} in it.
func CheckLink(template string) error {
	u, err := url.Parse(strings.NewReplacer("{trace}", "0", "{span}", "0").Replace(template))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || !strings.Contains(template, "{trace}") {
		return errors.New("want an address of http or https with {trace} in it")
	}
	return nil
}
