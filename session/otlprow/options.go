package otlprow

// Option is an option of Decode, DecodeLogs and DecodeProto.
type Option func(*config)

type config struct {
	tenant  string
	fixed   bool
	foreign bool
	limits  Limits
}

// WithTenant makes everything that of tenant, whatever the resource says; the resource attribute otelagent.tenant counts unless
// set. For receivers that know who sends.
func WithTenant(tenant string) Option { return func(c *config) { c.tenant, c.fixed = tenant, true } }

// WithForeign lists foreign spans and records in Report.Rejections, with ReasonForeign; they are counted only unless set.
func WithForeign() Option { return func(c *config) { c.foreign = true } }

// Limits bound what one span may bring, in bytes. Zero fields are the defaults; a value above a default is the default.
type Limits struct {
	// Attribute bounds the value of a string attribute and the JSON text of a structured one; it is cut at a rune. Default 1 MiB.
	Attribute int
	// Block bounds a body, an item list and an event body. One above it is kept as withheld: with its size and no bytes. Default 64 MiB.
	Block int
	// Turn bounds the bodies that come with one turn in one call; those beyond are kept as withheld. Default 256 MiB.
	Turn int
}

// WithLimits sets the limits.
func WithLimits(l Limits) Option { return func(c *config) { c.limits = l } }
