package writer

import (
	"unicode/utf8"

	"github.com/otelagent/otelagent/spans"
)

// soundCapture returns c, or CaptureNone for a level that this version does not know.
func soundCapture(c spans.Capture) spans.Capture {
	if c != spans.CaptureContent && c != spans.CaptureDigests {
		return spans.CaptureNone
	}
	return c
}

// captureOf returns the level of a run.
func (t *Tracer) captureOf(info *RunInfo) (level spans.Capture) {
	if t.config.CaptureFor == nil {
		return t.config.Capture
	}
	defer func() {
		if recover() != nil {
			level = spans.CaptureNone
		}
	}()
	return soundCapture(t.config.CaptureFor(*info))
}

// withheldByPanic stands for a piece at which the redactor failed.
const withheldByPanic = `"[redacted: the redactor failed]"`

// redact returns what may be sent of p, and in how many places it was changed.
func (c *Config) redact(p spans.Redactable) (body []byte, changed int) {
	if c.Redactor == nil || p.Body == nil {
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
