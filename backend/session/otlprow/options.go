package otlprow

import (
	"cmp"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session"
)

// Option is an option of Decode, DecodeLogs and DecodeProto.
type Option func(*config)

type config struct {
	fixed          string // tenant, where isFixed
	isFixed        bool
	limits         Limits
	table          *foreign.Table
	withoutContent bool
	redactor       func(string) string
}

// WithTenant sets the tenant of everything, for receivers that know the sender. The default is the resource attribute
// otelagent.tenant. The hash replaces a tenant of more than 256 bytes.
func WithTenant(tenant string) Option { return func(c *config) { c.fixed, c.isFixed = tenant, true } }

// WithSources sets the rules for spans and records of other programs. The default is foreign.Default.
func WithSources(t *foreign.Table) Option { return func(c *config) { c.table = t } }

// WithoutContent keeps no content of spans and records of other programs.
func WithoutContent() Option { return func(c *config) { c.withoutContent = true } }

// WithRedactor replaces each piece of content of other programs by what f returns for it, before it gets a name.
func WithRedactor(f func(string) string) Option { return func(c *config) { c.redactor = f } }

// Limits bound the size of what one span carries, in bytes. A field that is not positive, or above the default, is the
// default. Report.Cut counts what a limit removed.
type Limits struct {
	// Attribute bounds the value of a string attribute, which is cut at a rune, and the JSON text of a structured one,
	// which is left out. Values of up to 256 bytes always stay. Default 1 MiB.
	Attribute int
	// Block bounds a body. The decoder keeps a longer one as withheld: its id and size without its bytes. A list of
	// more bytes than this, and than 1 MiB, keeps its head and no items. Default 64 MiB.
	Block int
	// Turn bounds all bodies of one turn, of a run outside its turns, or of the session itself, in one call. The
	// decoder keeps bodies beyond it as withheld. Default 256 MiB.
	Turn int
}

// WithLimits sets the limits.
func WithLimits(l Limits) Option { return func(c *config) { c.limits = l } }

// bounded returns the limits within their defaults.
func (l Limits) bounded() Limits {
	within := func(n, most int) int { return min(cmp.Or(max(n, 0), most), most) }
	return Limits{max(within(l.Attribute, maxValue), maxID), within(l.Block, maxBody), within(l.Turn, maxTurn)}
}

// turnKey names a turn, or what belongs to a run or to the session itself.
type turnKey struct {
	session.RunKey
	turn int64
}

func turnOf(row *session.Row) turnKey { return turnKey{row.RunKey(), row.Turn} }

// affords reports whether the turn of the row may have n bytes more of bodies, and counts them if it may.
func (d *decoder) affords(row *session.Row, n int) bool {
	key := turnOf(row)
	if d.turns[key]+n > d.limits.Turn {
		return false
	}
	d.turns[key] += n
	return true
}
