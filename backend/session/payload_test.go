package session

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/spans"
)

// asked makes requests as the adapter would send them.
type asked struct {
	s      synth
	blocks BlockSet
}

type askedItem struct{ body, provenance, envelope string }

func (a *asked) list(name string, attempt int64, items ...askedItem) List {
	l := List{Name: name, Attempt: attempt, Count: int64(len(items))}
	var c spans.Chain
	for _, i := range items {
		id := spans.BlockOfString(i.body)
		it := spans.Item{Block: id.Short(), Provenance: i.provenance, Envelope: i.envelope}
		l.Items = append(l.Items, it.Encode())
		c = c.Add(id, it)
		if !strings.HasPrefix(i.body, "lost") {
			a.blocks.Add(Block{Body: i.body})
		}
	}
	l.Digest = c.Short()
	return l
}

func (a *asked) turn(index int64, lists []List, kv ...any) *Request {
	a.s.add(KindTurn, "r", at(0), index, at(10*index), at(10*index+5), kv...).Lists = lists
	for _, t := range Assemble(a.s.rows).Runs[0].Turns {
		if t.Index == index {
			return t.Requests[len(t.Requests)-1]
		}
	}
	return nil
}

const (
	userBody  = `{"content":[{"text":"hi","type":"text"}],"role":"user"}`
	replyBody = `{"content":"<b>","role":"assistant"}`
	turnID    = `{"turnId":{"loopId":"r","turnIndex":0}}`
	frameBody = `{"keys":["model","system_prompt","messages","provenance","tools","x"],"system":"system_prompt","messages":"messages","provenance":"provenance","tools":"tools","shapes":[["type","text"],["role","content"],["role","content","turnId"]]}`
	framed    = `{"model":"m","system_prompt":"be brief","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]},{"role":"assistant","content":"<b>","turnId":{"loopId":"r","turnIndex":0}}],"provenance":[{"kind":"steering"},{"kind":"loop-turn","turn_index":0,"role":"assistant-response","message_index":1}],"tools":[{"name":"bash"}],"x":[1, 2]}`
	composed  = `{"system":"be brief","messages":[{"content":[{"text":"hi","type":"text"}],"role":"user"},{"content":"<b>","role":"assistant","turnId":{"loopId":"r","turnIndex":0}}],"tools":[{"name":"bash"}],"model":"m","x":[1, 2]}`
)

var (
	askedMessages = []askedItem{{userBody, "st", ""}, {replyBody, "t:0:a:1", turnID}}
	askedParams   = []askedItem{{`"be brief"`, "system", ""}, {`[{"name":"bash"}]`, "tools", ""}, {`{"model":"m","x":[1, 2]}`, "rest", ""}}
	askedFrame    = askedItem{frameBody, "frame", ""}
)

func TestPayload(t *testing.T) {
	with := func(l []askedItem, more ...askedItem) []askedItem {
		return append(append([]askedItem{}, l...), more...)
	}
	swap := func(l []askedItem, i int, it askedItem) []askedItem {
		l = with(l)
		l[i] = it
		return l
	}
	short := func(body string) string { return refOf(body).Block }
	for _, c := range []struct {
		name             string
		messages, params []askedItem
		attrs            []any
		spoil            func(lists []List)
		want             Payload
		bytes            string
	}{
		{name: "framed", messages: askedMessages, params: with(askedParams, askedFrame), want: Payload{Exact: true}, bytes: framed},
		{name: "framed, of its size", messages: askedMessages, params: with(askedParams, askedFrame), attrs: []any{"otelagent.request.bytes", len(framed)},
			want: Payload{Exact: true, Stated: int64(len(framed))}, bytes: framed},
		{name: "another size", messages: askedMessages, params: with(askedParams, askedFrame), attrs: []any{"otelagent.request.bytes", 9},
			want: Payload{Redacted: true, Stated: 9}, bytes: framed},
		{name: "redacted", messages: askedMessages, params: with(askedParams, askedFrame), attrs: []any{"otelagent.redacted", 1},
			want: Payload{Redacted: true}, bytes: framed},
		{name: "composed", messages: askedMessages, params: askedParams, attrs: []any{"otelagent.request.bytes", 9}, want: Payload{Stated: 9}, bytes: composed},
		{name: "composed of odd things", messages: []askedItem{{"no json", "", ""}}, params: []askedItem{{"be brief", "system", ""}, {"[1]", "rest", ""}},
			bytes: `{"system":"be brief","messages":["no json"],"rest":[1]}`},
		{name: "whole", messages: askedMessages, params: with(askedParams, askedItem{`{ "as": "it came" }`, "payload", ""}), want: Payload{Exact: true}, bytes: `{ "as": "it came" }`},
		{name: "frame without messages", params: []askedItem{{`{"keys":["a","b"]}`, "frame", ""}, {`{"b":2,"a":{}}`, "rest", ""}}, want: Payload{Exact: true}, bytes: `{"a":{},"b":2}`},

		{name: "nothing", want: Payload{Missing: []MissingPart{{Part: "message", Position: -1}}}},
		{name: "lost", messages: swap(askedMessages, 1, askedItem{"lost", "", ""}), params: with(askedParams, askedFrame),
			want: Payload{Missing: []MissingPart{{Part: "message", Position: 1, Block: short("lost")}}}},
		{name: "lost params", messages: askedMessages, params: swap(with(askedParams, askedFrame), 0, askedItem{"lost", "system", ""}),
			want: Payload{Missing: []MissingPart{{Part: "system", Block: short("lost")}}}},
		{name: "lost frame", messages: askedMessages, params: with(askedParams, askedItem{"lost", "frame", ""}),
			want: Payload{Missing: []MissingPart{{Part: "frame", Block: short("lost")}}}},
		{name: "no system", messages: askedMessages, params: with(askedParams[1:], askedFrame), want: Payload{Missing: []MissingPart{{Part: "system"}}}},
		{name: "no rest", messages: askedMessages, params: with(askedParams[:2], askedFrame), want: Payload{Missing: []MissingPart{{Part: "rest"}}}},
		{name: "bad frame", messages: askedMessages, params: with(askedParams, askedItem{"no frame", "frame", ""}), want: Payload{Missing: []MissingPart{{Part: "frame"}}}},
		{name: "bad provenance", messages: swap(askedMessages, 0, askedItem{userBody, "nonsense", ""}), params: with(askedParams, askedFrame),
			want: Payload{Missing: []MissingPart{{Part: "provenance", Block: short(userBody)}}}},
		{name: "withheld", messages: swap(askedMessages, 0, askedItem{"lost and withheld", "", ""}), params: askedParams,
			want: Payload{Missing: []MissingPart{{Part: "message", Block: short("lost and withheld"), Withheld: true}}}},
		{name: "broken", messages: askedMessages, params: askedParams, spoil: func(l []List) { l[0].Digest = l[1].Digest },
			want: Payload{Defects: []Defect{{spans.DefectListBroken, "request: digest"}}}},
		{name: "unresolved", messages: askedMessages, params: askedParams, spoil: func(l []List) { l[0].Prefix = "1 AAAAAAAAAAB"[:12] + "A" },
			want: Payload{Defects: []Defect{{spans.DefectListUnresolved, "request"}}}},
		{name: "too few", messages: askedMessages, params: askedParams, spoil: func(l []List) { l[0].Count = 9 },
			want: Payload{Defects: []Defect{{spans.DefectListBroken, "request"}}}},
	} {
		a := &asked{s: synth{session: Key{ID: "s"}}}
		a.blocks.Add(recipeFor("lost and withheld", true))
		lists := []List{a.list("params", 0, c.params...)}
		if c.messages != nil {
			lists = []List{a.list("request", 0, c.messages...), lists[0]}
		}
		if c.spoil != nil {
			c.spoil(lists)
		}
		got := a.turn(0, lists, c.attrs...).Payload(&a.blocks)
		if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Payload{}, "Bytes")); diff != "" || string(got.Bytes) != c.bytes || (got.Bytes == nil) != (c.bytes == "") {
			t.Errorf("%s: %s\n%s (-want +got)", c.name, got.Bytes, diff)
		}
	}
	if got := (&Request{}).Payload(nil); len(got.Missing) != 1 || got.Bytes != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestReadMessages(t *testing.T) {
	a := &asked{s: synth{session: Key{ID: "s"}}}
	a.turn(0, []List{a.list("request", 0, askedMessages...)})
	a.blocks.Add(recipeFor("lost and withheld", true))
	q := a.turn(1, []List{a.list("request", 0, append(askedMessages[1:2:2], askedItem{"lost", "?%7B%7D", ""}, askedItem{"lost and withheld", "nonsense", ""})...)})
	want := []Message{
		{Ref: Ref{Block: refOf(replyBody).Block, Provenance: "t:0:a:1", Envelope: turnID}, Role: "assistant", Bytes: int64(len(replyBody)), Body: replyBody,
			Source: spans.Provenance{Kind: spans.ProvenanceLoopTurn, Role: "assistant-response", MessageIndex: 1}},
		{Ref: Ref{Block: refOf("lost").Block, Provenance: "?%7B%7D"}, Position: 1, New: true, Missing: true, Source: spans.Provenance{Raw: "{}"}},
		{Ref: Ref{Block: refOf("lost and withheld").Block, Provenance: "nonsense"}, Position: 2, Bytes: 17, New: true, Withheld: true},
	}
	if diff := cmp.Diff(want, q.ReadMessages(&a.blocks)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if q.Before() == nil || q.Before().Before() != nil || (&Request{}).ReadMessages(nil) != nil {
		t.Error("requests before")
	}
	// Of a list that is not complete the end is known.
	l := a.list("request", 0, askedMessages...)
	l.Items, l.Prefix = l.Items[1:], "1 "+spans.Mark{1}.String()
	if got := a.turn(2, []List{l}).ReadMessages(&a.blocks); len(got) != 1 || got[0].Position != 1 {
		t.Errorf("%+v", got)
	}
}

func TestDiffRequests(t *testing.T) {
	a := &asked{s: synth{session: Key{ID: "s"}}}
	message := func(text, provenance string) askedItem {
		return askedItem{`{"content":"` + text + `","role":"user"}`, provenance, ""}
	}
	params := func(system, tools, rest string) List {
		var l []askedItem
		for i, body := range []string{system, tools, rest} {
			if body != "" {
				l = append(l, askedItem{body, []string{"system", "tools", "rest"}[i], ""})
			}
		}
		return a.list("params", 0, l...)
	}
	sections := func(names ...string) List {
		var l []askedItem
		for i := 0; i < len(names); i += 2 {
			l = append(l, askedItem{names[i+1], "section:" + names[i], ""})
		}
		return a.list("sections", 0, l...)
	}
	requests := func(lists ...[]List) (*Session, []*Request) {
		for i, l := range lists {
			a.s.add(KindTurn, "r", at(0), int64(i), at(int64(10*i)), at(int64(10*i+5))).Lists = l
		}
		tree := Assemble(a.s.rows)
		var out []*Request
		for _, t := range tree.Runs[0].Turns {
			out = append(out, t.Requests...)
		}
		return tree, out
	}
	a.s.add(KindCompaction, "r", at(0), 1, at(11), at(12), "otelagent.compaction.kind", "summary")
	a.s.add(KindCompaction, "r", at(0), 1, at(12), at(13), "otelagent.compaction.kind", "prune", "otelagent.compaction.applied", false)
	tree, q := requests(
		[]List{
			a.list("request", 0, message("0", "sp"), message("1", "st"), message("2", "t:0:u:0"), message("3", "t:0:a:1"), message("4", "t:0:u:2"), message("5", "fu")),
			params(`"one\ntwo"`, `[{"name":"bash"},{"name":"read","v":1},{"function":{"name":"gone"}}]`, `{"model":"m","t":1,"old":[]}`),
			sections("role", `one\n`, "rules", `two`),
		},
		[]List{
			a.list("request", 0, message("0", "sp"), message("4", "t:0:u:2"), message("3", "t:0:a:1"), message("2!", "t:0:u:0"), message("5", "st"), message("6", "")),
			params(`"one\nthree"`, `[{"name":"read","v":2},{"name":"bash"},{"name":"new"}]`, `{"t":2,"model":"m","new":null}`),
			sections("role", `one\n`, "rules", `three`),
		},
		[]List{
			a.list("request", 0, message("0", "sp"), message("4", "t:0:u:2"), message("3", "t:0:a:1"), message("2!", "t:0:u:0"), message("5", "st"), message("6", "")),
			params(`"one\nthree"`, "lost", `{"t":2,"model":"m","new":null}`),
		},
	)
	type change struct{ Before, After int }
	type outcome struct {
		Same           int64
		Added, Removed []int
		Changed, Moved []change
		Compactions    []spans.CompactionKind
		System, Tools  []string
		Params         []ParamChange
		Unknown        []string
	}
	summary := func(d RequestDiff) (o outcome) {
		o.Same, o.Params, o.Unknown = d.Same, d.Params, d.Unknown
		for _, m := range d.Added {
			o.Added = append(o.Added, m.Position)
		}
		for _, m := range d.Removed {
			o.Removed = append(o.Removed, m.Position)
		}
		for _, c := range d.Changed {
			o.Changed = append(o.Changed, change{c.Before.Position, c.After.Position})
		}
		for _, c := range d.Moved {
			o.Moved = append(o.Moved, change{c.Before.Position, c.After.Position})
		}
		for _, c := range d.Compactions {
			o.Compactions = append(o.Compactions, c.Kind)
		}
		for _, c := range d.System {
			o.System = append(o.System, c.Name+" "+c.Change+"\n"+c.Lines)
		}
		for _, c := range d.Tools {
			o.Tools = append(o.Tools, c.Name+" "+c.Change)
		}
		return o
	}
	const lines = "--- before\n+++ after\n@@ -1 +1 @@\n-two\n+three\n"
	got := summary(tree.DiffRequests(q[0], q[1], &a.blocks))
	want := outcome{
		Same: 1, Added: []int{5}, Removed: []int{1},
		Changed:     []change{{2, 3}, {5, 4}},
		Moved:       []change{{3, 2}},
		Compactions: []spans.CompactionKind{spans.CompactionKindSummary},
		System:      []string{"rules changed\n" + lines},
		Tools:       []string{"read changed", "new added", "gone removed"},
		Params:      []ParamChange{{Key: "t", Before: "1", After: "2"}, {Key: "old", Before: "[]"}, {Key: "new", After: "null"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got = summary(tree.DiffRequests(q[1], q[2], &a.blocks))
	if diff := cmp.Diff(outcome{Same: 6, Unknown: []string{"tools"}}, got); diff != "" {
		t.Errorf("of one with parts missing, -want +got:\n%s", diff)
	}
	got = summary(tree.DiffRequests(q[2], q[0], &a.blocks))
	if len(got.Compactions) > 0 || len(got.System) != 1 || !strings.Contains(got.System[0], "-three\n+two\n") {
		t.Errorf("backwards and without sections: %+v", got)
	}
	got = summary(tree.DiffRequests(&Request{}, q[0], nil))
	if diff := cmp.Diff(outcome{Unknown: []string{"messages", "system", "tools", "rest"}}, got); diff != "" {
		t.Errorf("of nothing, -want +got:\n%s", diff)
	}
}
