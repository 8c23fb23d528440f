package inspect

import (
	"io"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/store"
)

// Rejects writes a table of what was refused, one a line, in the order given.
func Rejects(w io.Writer, list []store.Reject, o Options) error {
	if o.Width < 40 {
		o.Width = 80
	}
	d := &drawer{w: w, width: o.Width, color: o.Color}
	zone := listZone(func(yield func(time.Time) bool) {
		for _, r := range list {
			if !yield(r.Time) {
				return
			}
		}
	}, o)
	text := func(most int, st style, f func(r store.Reject) string) func(int) (string, style) {
		return func(i int) (string, style) { return cut(Clean(f(list[i])), most), st }
	}
	// What a sender may call as it likes leaves room for the ids of sessions.
	room := max(12, (o.Width-52)/2)
	d.table([]field{
		{name: strings.TrimSuffix("TIME "+zone, " "), value: func(i int) (string, style) { return when(list[i].Time, zone, o), dim }},
		{name: "REASON", value: text(24, bold, func(r store.Reject) string { return r.Reason })},
		{name: "OF", value: text(8, plainText, func(r store.Reject) string { return r.Signal })},
		{name: "NAME", value: text(room, plainText, func(r store.Reject) string { return r.Name })},
		{name: "SERVICE", value: text(room, dim, func(r store.Reject) string { return r.Service })},
		{name: "SESSION", flex: true, value: text(o.Width, plainText, func(r store.Reject) string { return r.Session.ID })},
	}, len(list), []string{"OF", "SERVICE", "NAME"})
	return d.err
}
