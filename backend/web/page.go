package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
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
type page struct {
	files map[string]pageFile // by path below page
}

type pageFile struct {
	body []byte
	etag string
	kind string
}

// kinds are the content types of the files of a page. They do not depend on the table of the machine.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon",
	".woff2": "font/woff2", ".json": "application/json", ".txt": "text/plain; charset=utf-8",
}

func newPage() (*page, error) {
	p := &page{files: map[string]pageFile{}}
	err := fs.WalkDir(files, "page", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(body)
		kind := kinds[path.Ext(name)]
		if kind == "" {
			if kind = mime.TypeByExtension(path.Ext(name)); kind == "" {
				kind = "application/octet-stream"
			}
		}
		p.files[strings.TrimPrefix(name, "page/")] = pageFile{body, `"` + hex.EncodeToString(sum[:12]) + `"`, kind}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	if _, ok := p.files["index.html"]; !ok {
		return nil, fmt.Errorf("web: the page has no index.html")
	}
	return p, nil
}

// index serves the document for every path of a page. The document reads its path.
func (p *page) index(w http.ResponseWriter, r *http.Request) {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "", "s", "diff", "stats", "grep":
		p.serve(w, r, p.files["index.html"])
	case "favicon.ico":
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, r, &failure{http.StatusNotFound, "there is no such page"})
	}
}

// asset serves /assets/NAME. A browser revalidates its copy each time, since a new program may serve other files.
func (p *page) asset(w http.ResponseWriter, r *http.Request) {
	f, ok := p.files[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		refuse(w, r, &failure{http.StatusNotFound, "there is no such asset"})
		return
	}
	p.serve(w, r, f)
}

func (p *page) serve(w http.ResponseWriter, r *http.Request, f pageFile) {
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.body))
}
