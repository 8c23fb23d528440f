package spans

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// ProvenanceKind says where a block of a request came from.
type ProvenanceKind string

// The kinds of provenance. The values are phi-core's (src/types/provenance.rs), except the first four. Those are for
// what a request holds in addition to its messages.
const (
	// ProvenanceSystem is the system prompt as a part of the params list.
	ProvenanceSystem ProvenanceKind = "system"
	// ProvenanceTools is the tool catalogue as a part of the params list.
	ProvenanceTools ProvenanceKind = "tools"
	// ProvenanceRest is, in the params list, every other parameter of a request, and how the request is put together.
	ProvenanceRest ProvenanceKind = "rest"
	// ProvenanceComposed takes the place of ProvenanceRest in a request of which the loop gave no bytes.
	ProvenanceComposed ProvenanceKind = "composed"
	// ProvenanceSystemPrompt is a message that carries a system prompt.
	ProvenanceSystemPrompt ProvenanceKind = "system-prompt"
	// ProvenanceIdentityBlock is a message stamped by an identity loader: Name, Order.
	ProvenanceIdentityBlock ProvenanceKind = "identity-block"
	// ProvenanceMemoryTier is a message stamped by a memory store: Tier, RecordID.
	ProvenanceMemoryTier ProvenanceKind = "memory-tier"
	// ProvenanceLoopTurn is a message of a turn: TurnIndex, Role, MessageIndex.
	ProvenanceLoopTurn ProvenanceKind = "loop-turn"
	// ProvenanceSteering is a message given while the loop ran; phi-core says so of the first prompt too.
	ProvenanceSteering ProvenanceKind = "steering"
	// ProvenanceFollowUp is a message given after the loop would have stopped.
	ProvenanceFollowUp ProvenanceKind = "follow-up"
	// ProvenanceUnknown is a message of which the loop does not know where it came from.
	ProvenanceUnknown ProvenanceKind = "unknown"
)

// Provenance says where a block of a request came from. The zero value means that nothing is known.
type Provenance struct {
	Kind ProvenanceKind
	// Name and Order belong to an identity block.
	Name  string
	Order int64
	// Tier and RecordID belong to a memory tier.
	Tier, RecordID string
	// TurnIndex, Role and MessageIndex belong to a loop turn.
	TurnIndex, MessageIndex int64
	Role                    string
	// Raw is the loop's own JSON where none of the kinds above says all of it. Kind is empty then.
	Raw string
}

var provenanceShort = map[ProvenanceKind]string{
	ProvenanceSystem:        "system",
	ProvenanceTools:         "tools",
	ProvenanceRest:          "rest",
	ProvenanceComposed:      "composed",
	ProvenanceSystemPrompt:  "sp",
	ProvenanceIdentityBlock: "ib",
	ProvenanceMemoryTier:    "mt",
	ProvenanceLoopTurn:      "t",
	ProvenanceSteering:      "st",
	ProvenanceFollowUp:      "fu",
	ProvenanceUnknown:       "un",
}

// Short forms of the roles of a loop turn.
var roleShort = map[string]string{
	"user-message": "u", "assistant-response": "a", "tool-call-request": "c", "tool-call-result": "r",
}

// longOf returns the key of a short form; the zero value where there is none.
func longOf[K ~string](forms map[K]string, short string) (long K) {
	for k, s := range forms {
		if s == short {
			long = k
		}
	}
	return long
}

// provenanceField is a field that a kind of provenance has: a text, the role of a loop turn, or a number.
type provenanceField struct {
	key        string // in the JSON of phi-core
	text, role *string
	number     *int64
}

// fields returns the fields of p's kind in their order.
func (p *Provenance) fields() []provenanceField {
	switch p.Kind {
	case ProvenanceIdentityBlock:
		return []provenanceField{{key: "name", text: &p.Name}, {key: "order", number: &p.Order}}
	case ProvenanceMemoryTier:
		return []provenanceField{{key: "tier", text: &p.Tier}, {key: "record_id", text: &p.RecordID}}
	case ProvenanceLoopTurn:
		return []provenanceField{{key: "turn_index", number: &p.TurnIndex}, {key: "role", role: &p.Role},
			{key: "message_index", number: &p.MessageIndex}}
	}
	return nil
}

// Encode returns the short form that is in list items: fields parted by colons, each percent-encoded, such as
// `t:3:r:1` (turn 3, tool-call-result, message 1), `mt:long-term:mem-7`, `st`; `?` and percent-encoded JSON for what
// has no short form; empty for the zero value.
func (p Provenance) Encode() string {
	short, known := provenanceShort[p.Kind]
	switch {
	case p.Raw == "" && p.Kind == "":
		return ""
	case p.Raw != "" || !known:
		return "?" + url.QueryEscape(string(p.AppendJSON(nil)))
	}
	for _, f := range p.fields() {
		switch {
		case f.number != nil:
			short += ":" + strconv.FormatInt(*f.number, 10)
		case f.text != nil:
			short += ":" + url.QueryEscape(*f.text)
		default:
			short += ":" + cmp.Or(roleShort[*f.role], "="+url.QueryEscape(*f.role))
		}
	}
	return short
}

// AppendJSON appends p as the JSON value that phi-core writes of it (src/types/provenance.rs: the kind first, then its
// fields in order), or Raw where it is set; null for the zero value. What p was read from may be spelled otherwise: who
// promises bytes compares.
func (p Provenance) AppendJSON(dst []byte) []byte {
	switch {
	case p.Raw != "":
		return append(dst, p.Raw...)
	case p.Kind == "":
		return append(dst, "null"...)
	}
	dst = rawjson.Quote(append(dst, `{"kind":`...), string(p.Kind))
	for _, f := range p.fields() {
		dst = append(rawjson.Quote(append(dst, ','), f.key), ':')
		if f.number != nil {
			dst = strconv.AppendInt(dst, *f.number, 10)
		} else {
			dst = rawjson.Quote(dst, *cmp.Or(f.text, f.role))
		}
	}
	return append(dst, '}')
}

// ParseProvenance reads what Provenance.Encode wrote. Text that it does not know gives ErrEncoding; callers keep the
// text and show it.
func ParseProvenance(s string) (Provenance, error) {
	var p Provenance
	var err error
	if s == "" {
		return p, nil
	}
	if raw, ok := strings.CutPrefix(s, "?"); ok {
		if p.Raw, err = url.QueryUnescape(raw); err != nil || p.Raw == "" {
			return Provenance{}, ErrEncoding
		}
		return p, nil
	}
	texts := strings.Split(s, ":")
	p.Kind = longOf(provenanceShort, texts[0])
	fields := p.fields()
	if p.Kind == "" || len(texts) != len(fields)+1 {
		return Provenance{}, ErrEncoding
	}
	for i, f := range fields {
		text := texts[i+1]
		role, spelled := strings.CutPrefix(text, "=")
		switch {
		case f.number != nil:
			*f.number, err = strconv.ParseInt(text, 10, 64)
		case f.text != nil:
			*f.text, err = url.QueryUnescape(text)
		case spelled:
			*f.role, err = url.QueryUnescape(role)
		default:
			if *f.role = longOf(roleShort, text); *f.role == "" {
				err = ErrEncoding
			}
		}
		if err != nil {
			return Provenance{}, ErrEncoding
		}
	}
	return p, nil
}
