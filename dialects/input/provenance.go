package input

import (
	"bytes"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
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
	spelled, short := p.AppendJSON(nil), p.Encode()
	known := short != "" && short[0] != '?' // its kind has a short form
	if known && !bytes.Equal(spelled, value) {
		sorted, _ := rawjson.AppendCanonical(nil, spelled, nil)
		same, err := rawjson.AppendCanonical(nil, value, nil)
		known = err == nil && bytes.Equal(sorted, same)
	}
	if !known {
		return spans.Provenance{Raw: string(value)}
	}
	return p
}
