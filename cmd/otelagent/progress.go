package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/otelagent/otelagent/inspect"
	storecopy "github.com/otelagent/otelagent/store/copy"
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
	return a.newBar(total, what)
}

func (a *app) newBar(total int, what string) *progress {
	f, ok := a.stderr.(*os.File)
	if !ok || !isTerminal(f) {
		return nil
	}
	return &progress{bar: progressbar.NewOptions(total,
		progressbar.OptionSetWriter(f), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(20), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
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

// copied shows how far a copy is.
func (p *progress) copied(now storecopy.Progress) {
	if p == nil {
		return
	}
	p.bar.ChangeMax(max(now.Total, 1))
	what := "comparing sessions"
	if !now.Verifying {
		what = fmt.Sprintf("sessions (%s rows, %s)", inspect.Count(now.Rows), inspect.Bytes(now.Bytes))
	}
	p.bar.Describe(what)
	_ = p.bar.Set(now.Done)
}
