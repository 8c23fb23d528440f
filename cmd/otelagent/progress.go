package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/otelagent/otelagent/backend/inspect"
	storecopy "github.com/otelagent/otelagent/backend/store/copy"
)

// progress is a bar on a terminal; the nil progress shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// progressLeast is how many things there must be for a bar to be worth it.
const progressLeast = 200

// bar returns a bar on standard error, nil when that is no terminal or there is not much to do.
func (a *app) bar(total int, what string) *progress {
	if total < progressLeast {
		return nil
	}
	return a.newBar(total, what, 30)
}

func (a *app) newBar(total int, what string, width int) *progress {
	f, ok := a.stderr.(*os.File)
	if !ok || !isTerminal(f) {
		return nil
	}
	return &progress{bar: progressbar.NewOptions(total,
		progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(width), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionUseANSICodes(true))}
}

func (p *progress) add(n int) {
	if p != nil {
		_ = p.bar.Add(n)
	}
}

func (p *progress) to(n int) {
	if p != nil {
		_ = p.bar.Set(n)
	}
}

func (p *progress) end() {
	if p != nil {
		_ = p.bar.Finish()
	}
}

// copyBar shows how far a copy is: a bar for copying, and then one for comparing.
type copyBar struct {
	app       *app
	bar       *progress
	comparing bool
}

func (b *copyBar) show(now storecopy.Progress) {
	if b.bar == nil || now.Verifying != b.comparing {
		b.end()
		b.comparing = now.Verifying
		what := "sessions"
		if b.comparing {
			what = "comparing sessions"
		}
		b.bar = b.app.newBar(max(now.Total, 1), what, 10) // with counts of any size in 80 columns
	}
	if b.bar == nil {
		return
	}
	b.bar.bar.ChangeMax(max(now.Total, 1))
	if !now.Verifying {
		b.bar.bar.Describe(fmt.Sprintf("sessions (%s rows, %s)", inspect.Count(now.Rows), inspect.Bytes(now.Bytes)))
	}
	b.bar.to(now.Done)
}

func (b *copyBar) end() {
	b.bar.end()
	b.bar = nil
}
