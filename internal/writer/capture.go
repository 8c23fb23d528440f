package writer

import (
	"unicode/utf8"

	"github.com/otelagent/otelagent/spans"
)

// Capture says how much of the content class the process may send; see otelagent.Capture. Empty, and a level that this
// version does not know, is CaptureNone.
type Capture = spans.Capture

// The levels of capture.
const (
	CaptureNone    = spans.CaptureNone
	CaptureDigests = spans.CaptureDigests
	CaptureContent = spans.CaptureContent
)

func soundCapture(c Capture) Capture {
	if c != CaptureContent && c != CaptureDigests {
		return CaptureNone
	}
	return c
}

// captureOf returns the level of a run.
func (t *Tracer) captureOf(info *RunInfo) (level Capture) {
	if t.config.CaptureFor == nil {
		return t.config.Capture
	}
	defer func() {
		if recover() != nil {
			level = CaptureNone
		}
	}()
	return soundCapture(t.config.CaptureFor(*info))
}

// withheldByPanic stands for a piece at which the redactor failed.
const withheldByPanic = `"[redacted: the redactor failed]"`

// redact returns what may be sent of p, and in how many places it was changed.
func (c *Config) redact(p spans.Redactable) (body []byte, changed int) {
	if c.Redactor == nil {
		return p.Body, 0
	}
	defer func() {
		if recover() != nil {
			body, changed = []byte(withheldByPanic), 1
		}
	}()
	if !utf8.Valid(p.Body) {
		p.Body = validBytes(p.Body)
	}
	return c.Redactor.Redact(p)
}
