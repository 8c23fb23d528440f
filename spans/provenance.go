package spans

import (
	"encoding/json"
	"fmt"
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

var provenanceLong = func() map[string]ProvenanceKind {
	m := make(map[string]ProvenanceKind, len(provenanceShort))
	for k, s := range provenanceShort {
		m[s] = k
	}
	return m
}()

// Short forms of the roles of a loop turn.
var roleShort = map[string]string{
	"user-message": "u", "assistant-response": "a", "tool-call-request": "c", "tool-call-result": "r",
}

var roleLong = func() map[string]string {
	m := make(map[string]string, len(roleShort))
	for k, s := range roleShort {
		m[s] = k
	}
	return m
}()

// Encode returns the short form that stands in list items: fields parted by colons, each percent-encoded, such as
// `t:3:r:1` (turn 3, tool-call-result, message 1), `mt:long-term:mem-7`, `st`; `?` and percent-encoded JSON for what
// has no short form; empty for the zero value.
func (p Provenance) Encode() string {
	if p.Raw != "" {
		return "?" + url.QueryEscape(p.Raw)
	}
	short, known := provenanceShort[p.Kind]
	if !known {
		if p.Kind == "" {
			return ""
		}
		raw, _ := json.Marshal(map[string]string{"kind": string(p.Kind)})
		return "?" + url.QueryEscape(string(raw))
	}
	switch p.Kind {
	case ProvenanceIdentityBlock:
		return fmt.Sprintf("%s:%s:%d", short, url.QueryEscape(p.Name), p.Order)
	case ProvenanceMemoryTier:
		return fmt.Sprintf("%s:%s:%s", short, url.QueryEscape(p.Tier), url.QueryEscape(p.RecordID))
	case ProvenanceLoopTurn:
		role, known := roleShort[p.Role]
		if !known {
			role = "=" + url.QueryEscape(p.Role)
		}
		return short + ":" + strconv.FormatInt(p.TurnIndex, 10) + ":" + role + ":" + strconv.FormatInt(p.MessageIndex, 10)
	default:
		return short
	}
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
	switch p.Kind {
	case ProvenanceIdentityBlock:
		dst = rawjson.Quote(append(dst, `,"name":`...), p.Name)
		dst = strconv.AppendInt(append(dst, `,"order":`...), p.Order, 10)
	case ProvenanceMemoryTier:
		dst = rawjson.Quote(append(dst, `,"tier":`...), p.Tier)
		dst = rawjson.Quote(append(dst, `,"record_id":`...), p.RecordID)
	case ProvenanceLoopTurn:
		dst = strconv.AppendInt(append(dst, `,"turn_index":`...), p.TurnIndex, 10)
		dst = rawjson.Quote(append(dst, `,"role":`...), p.Role)
		dst = strconv.AppendInt(append(dst, `,"message_index":`...), p.MessageIndex, 10)
	}
	return append(dst, '}')
}

// ParseProvenance reads what Provenance.Encode wrote. Text that it does not know gives an error that wraps ErrEncoding;
// callers keep the text and show it.
func ParseProvenance(s string) (Provenance, error) {
	bad := func(err error) (Provenance, error) {
		if err == nil {
			return Provenance{}, fmt.Errorf("spans: provenance %q: %w", bounded(s), ErrEncoding)
		}
		return Provenance{}, fmt.Errorf("spans: provenance %q: %w: %w", bounded(s), ErrEncoding, err)
	}
	if s == "" {
		return Provenance{}, nil
	}
	if raw, ok := strings.CutPrefix(s, "?"); ok {
		raw, err := url.QueryUnescape(raw)
		if err != nil || raw == "" {
			return bad(err)
		}
		return Provenance{Raw: raw}, nil
	}
	fields := strings.Split(s, ":")
	kind, known := provenanceLong[fields[0]]
	if !known {
		return bad(nil)
	}
	want := 1
	switch kind {
	case ProvenanceIdentityBlock, ProvenanceMemoryTier:
		want = 3
	case ProvenanceLoopTurn:
		want = 4
	}
	if len(fields) != want {
		return bad(nil)
	}
	p := Provenance{Kind: kind}
	var err error
	number := func(s string) (n int64) {
		if err == nil {
			n, err = strconv.ParseInt(s, 10, 64)
		}
		return n
	}
	text := func(s string) (t string) {
		if err == nil {
			t, err = url.QueryUnescape(s)
		}
		return t
	}
	switch kind {
	case ProvenanceIdentityBlock:
		p.Name, p.Order = text(fields[1]), number(fields[2])
	case ProvenanceMemoryTier:
		p.Tier, p.RecordID = text(fields[1]), text(fields[2])
	case ProvenanceLoopTurn:
		p.TurnIndex, p.MessageIndex = number(fields[1]), number(fields[3])
		if role, ok := strings.CutPrefix(fields[2], "="); ok {
			p.Role = text(role)
		} else if p.Role, ok = roleLong[fields[2]]; !ok {
			return bad(nil)
		}
	}
	if err != nil {
		return bad(err)
	}
	return p, nil
}

// bounded cuts text from outside before it goes into an error.
func bounded(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most]
	}
	return s
}
