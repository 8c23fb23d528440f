package export

import (
	"crypto/sha256"
	"fmt"
	"strconv"

	"github.com/otelagent/otelagent/backend/session"
)

// Ids have the form of the guide's: a prefix, 12 hexadecimal digits that grow with time, 14 characters that differ.
// Where the guide takes random ones, these are made of the address, so that an export made again has the same ids.

const (
	// stampsPerMS is how many ids of one millisecond the digits can order.
	stampsPerMS = 4096
	idTail      = 14
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// newID returns the id of the item at an address. counter orders ids of one millisecond and is less than stampsPerMS.
func newID(prefix string, ms, counter int64, address string) string {
	sum := sha256.Sum256([]byte(address))
	var tail [idTail]byte
	for i := range tail {
		tail[i] = base62[int(sum[i])%len(base62)]
	}
	return fmt.Sprintf("%s_%012x%s", prefix, uint64(ms*stampsPerMS+counter)&(1<<48-1), tail[:])
}

// addressOf returns the address of an item of a run, as one text.
func addressOf(s *session.Session, r *session.Run, item string) string {
	return s.Tenant + "\x00" + s.ID + "\x00" + r.ID + "\x00" + strconv.FormatInt(r.Start.UnixNano(), 10) + "\x00" + item
}

// namer gives ids to messages in their order, so that (created_at, id) is that order.
type namer struct {
	used    map[string]bool
	at      int64 // of the last one
	counter int64
	id      string
}

// name returns the id and created_at of the next message, which was made at or after ms. own is the id that it has
// itself; one that another message has already gives way.
func (n *namer) name(ms int64, own, address string) (id string, at int64) {
	if n.used == nil {
		n.used = map[string]bool{}
		n.at = ms - 1
	}
	at, counter := max(ms, n.at), int64(0)
	if at == n.at {
		counter = n.counter + 1
	}
	for {
		if counter >= stampsPerMS {
			at, counter = at+1, 0
		}
		if id = own; own == "" || n.used[own] {
			id = newID("msg", at, counter, address)
		}
		switch {
		case at == n.at && id <= n.id:
			at, counter = at+1, 0
		case n.used[id]: // of an address that occurs twice
			address += "'"
		default:
			n.used[id] = true
			n.at, n.counter, n.id = at, counter, id
			return id, at
		}
	}
}
