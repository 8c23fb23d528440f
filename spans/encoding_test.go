package spans

import (
	"errors"
	"reflect"
	"testing"
)

func TestBlockID(t *testing.T) {
	id := BlockOf([]byte("a body"))
	if id != BlockOfString("a body") || id.IsZero() || !(BlockID{}).IsZero() {
		t.Fatal("a block's id is the hash of its body")
	}
	if short, err := ParseShortID(id.Short().String()); err != nil || short != id.Short() {
		t.Errorf("short id %s reads back as %s: %v", id.Short(), short, err)
	}
	for _, bad := range []string{"", "AAAAAAAAAA", "AAAAAAAAAAAA", "AAAAAAAAAA*", "AAAAAAAAAAB"} {
		if _, err := ParseShortID(bad); !errors.Is(err, ErrEncoding) {
			t.Errorf("ParseShortID(%q) = %v", bad, err)
		}
	}
}

func TestItem(t *testing.T) {
	id := BlockOfString("x").Short()
	for _, it := range []Item{
		{Block: id},
		{Block: id, Provenance: "st"},
		{Block: id, Provenance: "t:1:u:0"},
	} {
		got, err := ParseItem(it.Encode())
		if err != nil || got != it {
			t.Errorf("%q reads back as %+v: %v", it.Encode(), got, err)
		}
	}
	for _, bad := range []string{"", "short", id.String() + "  {}", id.String() + " st x", id.String() + " "} {
		if it, err := ParseItem(bad); !errors.Is(err, ErrEncoding) {
			t.Errorf("ParseItem(%q) = %+v, %v", bad, it, err)
		}
	}
}

func TestProvenance(t *testing.T) {
	for want, p := range map[string]Provenance{
		"":                      {},
		"st":                    {Kind: ProvenanceSteering},
		"fu":                    {Kind: ProvenanceFollowUp},
		"un":                    {Kind: ProvenanceUnknown},
		"sp":                    {Kind: ProvenanceSystemPrompt},
		"system":                {Kind: ProvenanceSystem},
		"tools":                 {Kind: ProvenanceTools},
		"rest":                  {Kind: ProvenanceRest},
		"t:3:r:1":               {Kind: ProvenanceLoopTurn, TurnIndex: 3, Role: "tool-call-result", MessageIndex: 1},
		"t:0:=odd%3A+role:-1":   {Kind: ProvenanceLoopTurn, Role: "odd: role", MessageIndex: -1},
		"ib:The+Agent:-2":       {Kind: ProvenanceIdentityBlock, Name: "The Agent", Order: -2},
		"mt:long-term:mem%2F7":  {Kind: ProvenanceMemoryTier, Tier: "long-term", RecordID: "mem/7"},
		"?%7B%22kind%22%3A1%7D": {Raw: `{"kind":1}`},
	} {
		if got := p.Encode(); got != want {
			t.Errorf("%+v encodes as %q, want %q", p, got, want)
		}
		if got, err := ParseProvenance(want); err != nil || got != p {
			t.Errorf("%q reads as %+v: %v", want, got, err)
		}
	}
	if got := (Provenance{Kind: "new-kind"}).Encode(); got != "?%7B%22kind%22%3A%22new-kind%22%7D" {
		t.Errorf("a kind of its own encodes as %q", got)
	}
	for _, bad := range []string{"nope", "t:1", "t:x:u:0", "t:1:zz:0", "ib:%zz:1", "?", "?%zz", "st:1"} {
		if p, err := ParseProvenance(bad); !errors.Is(err, ErrEncoding) {
			t.Errorf("ParseProvenance(%q) = %+v, %v", bad, p, err)
		}
	}
}

func TestList(t *testing.T) {
	whole := WholeOf(3, BlockOfString("abc"))
	prefix := EncodePrefix(1, Mark{}.Add("AAAAAAAAAAE st"))
	for _, l := range []List{
		{Name: "input"},
		{Name: "request", Attempt: 2, Count: 2, Prefix: prefix, Items: []string{"AAAAAAAAAAI fu"}},
		{Name: "params", Count: 3, Whole: whole,
			Items: []string{"AAAAAAAAAAE system", "AAAAAAAAAAI tools", "AAAAAAAAAAM rest"}},
		{Name: "params", Count: 1, Prefix: prefix, Whole: whole},
	} {
		got, err := ParseList(l.Encode())
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%q reads back as %+v: %v", l.Encode(), got, err)
		}
	}
	for _, s := range []string{
		"", "input", "input x", "input -1", " 1", "input.x 1", "input 1 x y", "input 1 2 AAAAAAAAAAE 3:x more",
	} {
		if l, err := ParseList(s); !errors.Is(err, ErrEncoding) {
			t.Errorf("%q reads as %+v: %v", s, l, err)
		}
	}
}
