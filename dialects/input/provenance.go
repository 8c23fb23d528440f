package input

import (
	"bytes"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// Provenance reads where a message came from, as [spans.Provenance.AppendJSON] writes it, its members in any order.
// A value that has other members, or spells one otherwise, is kept as it is in Provenance.Raw; null is the zero value.
func Provenance(value []byte) spans.Provenance {
	if string(value) == "null" {
		return spans.Provenance{}
	}
	var o object.Object
	o.Reset("", value)
	number := func(key string) int64 {
		if n := o.Count(key); n != nil {
			return *n
		}
		return 0
	}
	p := spans.Provenance{
		Kind: spans.ProvenanceKind(o.String("kind")), Name: o.String("name"), Order: number("order"),
		Tier: o.String("tier"), RecordID: o.String("record_id"), TurnIndex: number("turn_index"),
		Role: o.String("role"), MessageIndex: number("message_index"),
	}
	spelled := p.AppendJSON(nil)
	if bytes.Equal(spelled, value) && known(p) {
		return p
	}
	said := object.Of("", spelled)
	same := len(o.Keys()) == len(said.Keys()) && known(p)
	for key, spelled := range said.All() {
		same = same && bytes.Equal(o.Spelled(key), spelled)
	}
	if !same {
		return spans.Provenance{Raw: string(value)}
	}
	return p
}

// known reports whether p is of a kind that has a short form.
func known(p spans.Provenance) bool {
	short := p.Encode()
	return short != "" && short[0] != '?'
}
