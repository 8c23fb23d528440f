package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long the browser may take for one step. docs/hotpaths.md has the bounds of speed.
const patience = 20 * time.Second

// browser is one Chromium for all tests; it ends with the process.
var browser = sync.OnceValues(func() (context.Context, error) {
	path := os.Getenv("CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path == "" {
			path, _ = exec.LookPath(name)
		}
	}
	if path == "" {
		return nil, errors.New("no Chromium: install Debian's package chromium, or name one in CHROMIUM")
	}
	ctx, _ := chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("font-render-hinting", "none")))
	return ctx, chromedp.Do(ctx)
})

// look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
}

var (
	desk  = look{width: 1280, height: 900}
	night = look{width: 1280, height: 900, dark: true}
	phone = look{width: 400, height: 860}
)

// tab is one page that is looked at. Whatever a visitor's console would complain of fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	host string

	mu               sync.Mutex
	faults, forgiven []string
}

// open opens a page of the server.
func open(t *testing.T, server, path string, as look) *tab {
	t.Helper()
	parent, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(parent)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	b := &tab{t: t, ctx: ctx, host: u.Host}
	heard := b.hear()
	t.Cleanup(func() {
		cancel()
		heard.Wait()
		if faults := b.complaints(); len(faults) > 0 {
			t.Errorf("%s: the browser complains:\n%s", path, strings.Join(faults, "\n"))
		}
	})
	scheme := "light"
	if as.dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}
	b.run("open "+path,
		chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media)
			return err
		}),
		chromedp.EmulateViewport(as.width, as.height),
		chromedp.Navigate(server+path))
	return b
}

// hear takes the events of the browser, until its context ends.
func (b *tab) hear() *sync.WaitGroup {
	var heard sync.WaitGroup
	console := chromedp.Console(b.ctx) // violations of the content security policy among it
	requests := chromedp.Events(b.ctx, network.RequestWillBeSent)
	dialogs := chromedp.Events(b.ctx, page.JavascriptDialogOpening)
	heard.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning {
				b.fault("%s %s", m, m.URL)
			}
		}
	})
	heard.Go(func() {
		for e, err := range requests {
			if err != nil {
				return
			}
			own := []string{"data", "about", "blob"}
			if u, err := url.Parse(e.Request.URL); err != nil || u.Host != b.host && !slices.Contains(own, u.Scheme) {
				b.fault("asked another host: %s", e.Request.URL)
			}
		}
	})
	heard.Go(func() {
		for e, err := range dialogs {
			if err != nil {
				return
			}
			b.fault("a dialog opens: %s", e.Message)
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
		}
	})
	return &heard
}

func (b *tab) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

// forgive takes complaints that hold a text for wanted.
func (b *tab) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgiven = append(b.forgiven, text)
}

// complaints are those that nobody forgave.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.faults), func(fault string) bool {
		return slices.ContainsFunc(b.forgiven, func(f string) bool { return strings.Contains(fault, f) })
	})
}

// awaits waits for a complaint that holds a text.
func (b *tab) awaits(text string) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		b.mu.Lock()
		heard := slices.ContainsFunc(b.faults, func(f string) bool { return strings.Contains(f, text) })
		b.mu.Unlock()
		if heard {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("no complaint about %q: %q", text, b.faults)
		}
	}
}

// run does something with the page, in time.
func (b *tab) run(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	done := make(chan error, 1)
	go func() { done <- chromedp.Do(b.ctx, actions...) }() // a context with a deadline might close the tab
	select {
	case err := <-done:
		if err != nil {
			b.t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(patience):
		b.failed(what)
	}
}

// failed takes a picture of a page that was too slow, and ends the test.
func (b *tab) failed(what string) {
	b.t.Helper()
	b.snap("failed-" + strings.Map(plain, b.t.Name()))
	b.t.Fatalf("%s: not after %s; see screenshots/failed-*.png. The page says:\n%.3000s", what, patience, b.text())
}

func plain(r rune) rune {
	if r == '/' || r == ' ' {
		return '-'
	}
	return r
}

// js evaluates an expression, and a promise to what it comes to.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// until waits for an expression to be true.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	for end := time.Now().Add(patience); !js[bool](b, "Boolean("+expression+")"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.failed(what + ": " + expression)
		}
	}
}

// shows waits until the page shows a text.
func (b *tab) shows(text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	b.until(fmt.Sprintf("the page shows %q", text), "document.body.innerText.includes("+string(quoted)+")")
}

func (b *tab) text() string { return js[string](b, "document.body.innerText") }

// click clicks on what a selector finds.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.run("click "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// press presses keys.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.run("press "+keys, chromedp.KeyEvent(keys))
}

const (
	enter  = kb.Enter
	escape = kb.Escape
	tabKey = kb.Tab
)

var reload = chromedp.Reload()

// snap takes a picture of the page.
func (b *tab) snap(name string) {
	b.t.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.t.Errorf("picture %s: %v", name, err)
		return
	}
	if err := os.MkdirAll("screenshots", 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("screenshots", name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

var axe = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	return string(b), err
})

// accessible lets axe-core judge the page, but for what the selectors find.
func (b *tab) accessible(but ...string) {
	b.t.Helper()
	for _, v := range violations(b, but...) {
		b.t.Error(v)
	}
}

// violations are what axe-core finds against WCAG 2.2, levels A and AA.
func violations(b *tab, but ...string) (found []string) {
	b.t.Helper()
	exclude, err := json.Marshal(append([]string{}, but...))
	if err != nil {
		b.t.Fatal(err)
	}
	code, err := axe()
	if err != nil {
		b.t.Fatal(err)
	}
	js[bool](b, code+"; true")
	for _, v := range js[[]struct {
		ID     string `json:"id"`
		Impact string `json:"impact"`
		Help   string `json:"help"`
		Nodes  []struct {
			HTML    string `json:"html"`
			Summary string `json:"failureSummary"`
		} `json:"nodes"`
	}](b, `axe.run({include: ["html"], exclude: `+string(exclude)+`}, {
		runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then(r => r.violations)`) {
		text := fmt.Sprintf("axe: %s (%s): %s", v.ID, v.Impact, v.Help)
		for i, n := range v.Nodes {
			if i == 5 {
				text += fmt.Sprintf("\n    and %d more", len(v.Nodes)-i)
				break
			}
			text += fmt.Sprintf("\n    %.200s\n      %s", n.HTML, strings.ReplaceAll(n.Summary, "\n", " "))
		}
		found = append(found, text)
	}
	return found
}
