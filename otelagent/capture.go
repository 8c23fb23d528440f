package otelagent

import (
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/genaijson"
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

// BlockScope says for how long a block that was sent is not sent again. The zero value is BlockScopeSession.
type BlockScope uint8

// The scopes of blocks.
const (
	// BlockScopeSession sends a block once for a session in this process: least is sent.
	BlockScopeSession BlockScope = iota
	// BlockScopeRun sends a block once for each run, which so can be read without the others: for pipelines that keep or
	// drop whole traces. Where every prompt is a run it costs a multiple, up to the history of the session with each run.
	BlockScopeRun
)

// Piece is content that the process is about to send.
type Piece struct {
	// Body must be neither changed nor kept.
	Body []byte
	// JSON says that Body is JSON; else it is text.
	JSON bool
	// Place says what it is: one of the values below, or the name of the list that it is alone in (spans.ListArgs,
	// ListResult, ListSummary, ListMetadata, ListRules).
	Place string
	// Role is that of a message: user, assistant, toolResult, or what the loop says.
	Role string
	// Provenance says where a message of a request came from. The same message outside a request has none.
	Provenance spans.ProvenanceKind
}

// Values of Piece.Place that are not names of lists.
const (
	PlaceMessage = "message" // of a request, a reply or an input
	PlaceSystem  = "system"  // the system prompt
	PlaceTools   = "tools"   // the tool catalogue
	PlaceRest    = "rest"    // of a request
	PlaceEvent   = "event"   // what an event without a place of its own carried
	PlaceFact    = "fact"    // the value of a fact
	PlaceConfig  = "config"  // of a run
	PlaceText    = "text"    // error texts, reasons, patterns
)

// Redactor takes out of content what the process must not send. It sees every piece before it is hashed, from any
// goroutine, and not again as long as the piece is remembered; when it is new it may see it several times. It must not
// use this package: calls for the same session wait for it. otelagent/redact has one that works by rules.
type Redactor interface {
	// Redact returns what may be sent, and the number of places where that differs from p.Body; p.Body itself when it is
	// none. It gives the same for the same piece, and of JSON JSON. A panic withholds the piece.
	Redact(p Piece) (body []byte, changed int)
}

// WithCapture sets how much content the process sends. Default: CaptureNone. An unknown level is CaptureNone.
func WithCapture(level Capture) Option {
	return optionFunc(func(c config) config { c.capture = level.sound(); return c })
}

// WithCaptureFor sets for each run how much content the process sends. The tracer calls decide as the run starts, with
// the session filled in. The answer holds for everything in the run. Default, and with nil: the level of WithCapture. A
// panic of decide is CaptureNone.
func WithCaptureFor(decide func(RunInfo) Capture) Option {
	return optionFunc(func(c config) config { c.captureFor = decide; return c })
}

// captureOf returns the level of a run.
func (t *Tracer) captureOf(info *RunInfo) (level Capture) {
	if t.config.captureFor == nil {
		return t.config.capture
	}
	defer func() {
		if recover() != nil {
			level = CaptureNone
		}
	}()
	return t.config.captureFor(*info).sound()
}

// WithRedactor lets r see every piece of content before it is sent, and before it is hashed. Default, and with nil:
// none.
func WithRedactor(r Redactor) Option {
	return optionFunc(func(c config) config { c.redactor = r; return c })
}

// WithBlockScope sets for how long a block is not sent again. Default: BlockScopeSession.
func WithBlockScope(s BlockScope) Option {
	return optionFunc(func(c config) config { c.scope = s; return c })
}

// WithMaxBlockBytes cuts every body over n bytes: its first n bytes (at most 512 KiB) are sent, with its size and
// SHA-256, and readers show the cut. A request with such a body cannot be given back byte for byte. Default, and below
// 1: no bound.
func WithMaxBlockBytes(n int) Option {
	return optionFunc(func(c config) config { c.maxBlock = max(n, 0); return c })
}

// WithMaxTurnBytes bounds the new content that one span (of a turn, a tool call, a run) brings: of bodies beyond only
// size and SHA-256 are sent, also later. Default, and below 1: no bound.
func WithMaxTurnBytes(n int) Option {
	return optionFunc(func(c config) config { c.maxTurn = max(n, 0); return c })
}

// DefaultMaxSpanBytes bounds the content of one span unless WithMaxSpanBytes says otherwise.
const DefaultMaxSpanBytes = 1 << 20

// WithMaxSpanBytes bounds the content that one span carries, in bytes; what is beyond goes on in zero-length children,
// spans named session.payload. Default, and below 64 KiB: DefaultMaxSpanBytes, a quarter of what receivers over gRPC
// take.
func WithMaxSpanBytes(n int) Option {
	return optionFunc(func(c config) config {
		if n < 64<<10 {
			n = DefaultMaxSpanBytes
		}
		c.maxSpan = n
		return c
	})
}

// DefaultPreviewBytes bounds a preview unless WithPreviewBytes says otherwise. Tempo cuts attributes at 2,048 bytes.
const DefaultPreviewBytes = 1200

// WithPreviewBytes bounds the previews that spans carry as attributes with CaptureContent, for views that read nothing
// else: gen_ai.system_instructions (where it is not that of the request before), gen_ai.input.messages (the new ones
// that no other span shows) and gen_ai.output.messages on turns, gen_ai.tool.call.arguments and gen_ai.tool.call.result
// on tool calls. Each is valid JSON of at most n bytes that says what was cut. Default: DefaultPreviewBytes; 0 or less turns previews off, below 320 is 320.
func WithPreviewBytes(n int) Option {
	return optionFunc(func(c config) config {
		if n > 0 {
			n = max(n, genaijson.Min)
		}
		c.preview = max(n, 0)
		return c
	})
}

// Delivery reports content that could not be delivered. The Providers and the Exporter of otelsetup do.
type Delivery interface {
	// OnLost registers f, which is then called with the id of a session of which content was lost.
	OnLost(f func(session string))
}

// WithDelivery sends the next request of a session whole, and its content again, when d reports a loss. Default, and
// with nil: all content that left the tracer counts as sent.
func WithDelivery(d Delivery) Option {
	return optionFunc(func(c config) config { c.delivery = d; return c })
}

// withheldByPanic stands for a piece at which the redactor failed.
const withheldByPanic = `"[redacted: the redactor failed]"`

// redact returns what may be sent of p, and in how many places it was changed.
func (c *config) redact(p Piece) (body []byte, changed int) {
	if c.redactor == nil {
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
	return c.redactor.Redact(p)
}
