package otlprow

import "github.com/otelagent/otelagent/backend/session"

// Option is an option of Decode, DecodeLogs and DecodeProto.
type Option func(*config)

type config struct {
	fixed       string // tenant, where isFixed
	isFixed     bool
	listForeign bool
	limits      Limits
}

// WithTenant makes everything that of tenant, whatever the resource says; the resource attribute otelagent.tenant counts unless
// set. For receivers that know who sends. Of a tenant over 256 bytes it is the hash, as of any id.
func WithTenant(tenant string) Option { return func(c *config) { c.fixed, c.isFixed = tenant, true } }

// WithForeign lists foreign spans and records in Report.Rejections, with ReasonForeign; they are counted only unless set.
func WithForeign() Option { return func(c *config) { c.listForeign = true } }

// Limits bound what one span may bring, in bytes. Zero and negative fields are the defaults; a value above a default is the default.
// What a limit takes away is counted in Report.Cut.
type Limits struct {
	// Attribute bounds the value of a string attribute, which is cut at a rune, and the JSON text of a structured one, which is left
	// out. Values of up to 256 bytes always stay. Default 1 MiB.
	Attribute int
	// Block bounds a body. One above it is kept as withheld: by its id, with its size and no bytes. A list of more bytes than this, and
	// than 1 MiB, keeps its head and no items. Default 64 MiB.
	Block int
	// Turn bounds the bodies that come with one turn, or with what belongs to a run itself or to the session itself, in
	// one call; bodies beyond are kept as withheld. Default 256 MiB.
	Turn int
}

// WithLimits sets the limits.
func WithLimits(l Limits) Option { return func(c *config) { c.limits = l } }

// bounded returns the limits that count.
func (l Limits) bounded() Limits {
	set := func(n *int, most int) {
		if *n <= 0 || *n > most {
			*n = most
		}
	}
	set(&l.Attribute, maxValue)
	set(&l.Block, maxBody)
	set(&l.Turn, maxTurn)
	l.Attribute = max(l.Attribute, maxID)
	return l
}

// list returns the bound of a list.
func (l Limits) list() int { return max(l.Block, maxValue) }

// brought counts the bytes of bodies that rows bring. Which turn they belong to is only looked at once all of them together
// are more than one turn may bring, so it costs next to nothing before.
type brought struct {
	total, here int // of the call, and of the row at hand
	rows        []rowBytes
	turns       map[turnKey]int
}

type rowBytes struct{ row, bytes int }

type turnKey struct {
	session.RunKey
	turn int64
}

func turnOf(row *session.Row) turnKey { return turnKey{row.RunKey(), row.Turn} }

// begin begins the next row.
func (b *brought) begin() { b.here = 0 }

// forget takes back what the row at hand brought: it is not stored.
func (b *brought) forget() {
	b.total -= b.here
	b.here = 0
}

// end ends the row at hand, which will be rows[n].
func (b *brought) end(n int, row *session.Row) {
	switch {
	case b.here == 0:
	case b.turns != nil:
		b.turns[turnOf(row)] += b.here
	default:
		b.rows = append(b.rows, rowBytes{n, b.here})
	}
}

// affords reports whether the row at hand may bring n bytes more, and counts them if it may.
func (d *decoder) affords(row *session.Row, n int) bool {
	b, most := &d.brought, d.limits.Turn
	if b.total+n > most {
		if b.turns == nil {
			b.turns = map[turnKey]int{}
			for _, r := range b.rows {
				b.turns[turnOf(&d.batch.Rows[r.row])] += r.bytes
			}
			b.rows = nil
		}
		if b.turns[turnOf(row)]+b.here+n > most {
			return false
		}
	}
	b.total += n
	b.here += n
	return true
}
