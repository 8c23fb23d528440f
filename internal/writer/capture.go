package writer

import (
	"unicode/utf8"

	"github.com/otelagent/otelagent/spans"
)

// Capture says how much of the content class (what a model, user, tool or provider wrote) the process may send.
// The zero value is CaptureNone.
type Capture uint8

// The levels of capture.
const (
	// CaptureNone lets ids, numbers, names and values of closed lists be sent, and no content.
	CaptureNone Capture = iota
	// CaptureContent lets everything be sent: requests, replies, arguments, results, error texts.
	CaptureContent
	// CaptureDigests lets the skeleton of requests and replies be sent: the order of their messages with provenance, and
	// of each piece its size and SHA-256, but no content. Mind that a short text can be guessed from its hash.
	CaptureDigests
)

// value returns the value of otelagent.capture.
func (c Capture) value() string {
	switch c {
	case CaptureContent:
		return string(spans.CaptureContent)
	case CaptureDigests:
		return string(spans.CaptureDigests)
	}
	return string(spans.CaptureNone)
}

// sound returns c, or CaptureNone when this version does not know it.
func (c Capture) sound() Capture {
	if c > CaptureDigests {
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
	return t.config.CaptureFor(*info).sound()
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
