package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// files are the page application in the folder page.
//
//go:embed page/index.html page/assets
var files embed.FS

// page serves the application: one document for all its paths, and assets.
type page struct{ etag string } // of all files together

const plainType = "text/plain; charset=utf-8"

// kinds are the content types of files that are no plain text. They do not depend on the table of the machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

func newPage() (*page, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		fmt.Fprintf(sum, "%q %q", name, body)
		return err
	})
	return &page{`"` + hex.EncodeToString(sum.Sum(nil)[:12]) + `"`}, err
}

// index serves the document for every path of a page. The document reads its path.
func (p *page) index(w http.ResponseWriter, r *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "", "s", "diff", "stats", "grep":
		p.serve(w, r, "page/index.html")
	case "favicon.ico":
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, r, &failure{http.StatusNotFound, "there is no such page"})
	}
}

// asset serves /assets/NAME. A browser revalidates its copy each time, since a new program may serve other files.
func (p *page) asset(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "page"+r.URL.Path) }

func (p *page) serve(w http.ResponseWriter, r *http.Request, name string) {
	body, err := files.ReadFile(name)
	if err != nil {
		refuse(w, r, &failure{http.StatusNotFound, "there is no such asset"})
		return
	}
	w.Header().Set("Content-Type", cmp.Or(kinds[path.Ext(name)], plainType))
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", p.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
