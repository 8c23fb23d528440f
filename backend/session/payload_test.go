package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

// A request comes back byte for byte, or what is missing of it is named.
func TestPayload(t *testing.T) {
	text := func(body string) string { return spans.BlockOfString(body).Short().String() }
	const long = `"a text that is long enough to be a block of its own, and is one"`
	const framed = `{"model":"m","system":"s","messages":[{"content":` + long +
		`}, {"content":"y"}],"provenance":[{"kind":"steering"},{"kind":"follow-up"}],"tools":[{"name":"bash"}]}`
	first, second := "{\"content\":\x01"+text(long)+"}", `{"content":"y"}`
	const rest = "{\"model\":\"m\",\"system\":\x02s,\"messages\":[\x02m, \x02],\"provenance\":[\x02p],\"tools\":\x02t}"
	all := []string{long, first, second, rest, `"s"`, `[{"name":"bash"}]`}
	for _, test := range []struct {
		name string
		lost string
		want []MissingPart
	}{
		{name: "whole"},
		{name: "a text", lost: long, want: []MissingPart{{Part: "message", Block: text(long)}}},
		{name: "a message", lost: second, want: []MissingPart{{Part: "message", Position: 1, Block: text(second)}}},
		{name: "rest", lost: rest, want: []MissingPart{{Part: "rest", Block: text(rest)}}},
		{name: "system", lost: `"s"`, want: []MissingPart{{Part: "system", Block: text(`"s"`)}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := synth{session: Key{ID: "s"}}
			var blocks BlockSet
			for _, body := range all {
				if body != test.lost {
					blocks.Add(Block{Body: body})
				}
			}
			row := s.add(KindTurn, "r", at(0), 0, at(1), at(2), string(spans.RequestBytesKey), int64(len(framed)))
			row.Lists = []List{
				{Name: spans.ListRequest, Count: 2, Items: []string{text(first) + " st", text(second) + " fu"}},
				{Name: spans.ListParams, Count: 3, Whole: wholeOf(framed), Items: []string{text(`"s"`) + " system",
					text(`[{"name":"bash"}]`) + " tools", text(rest) + " rest"}},
			}
			q := Assemble(s.rows).Runs[0].Turns[0].Requests[0]
			p := q.Payload(&blocks)
			if diff := cmp.Diff(test.want, p.Missing); diff != "" {
				t.Errorf("missing (-want +got):\n%s", diff)
			}
			if whole := test.want == nil; whole && string(p.Bytes) != framed || p.Exact != whole {
				t.Errorf("exact %t, %v: %s", p.Exact, p.Defects, p.Bytes)
			}
			if body, ok := blocks.Body(q.Params.Items()[2]); test.want == nil && (!ok || body != `{"model":"m"}`) {
				t.Errorf("rest says %s", body)
			}
			row.Lists[1].Count, row.Lists[1].Items = 4, append([]string{text(first) + " tools"}, row.Lists[1].Items...)
			q = Assemble(s.rows).Runs[0].Turns[0].Requests[0] // with another catalogue, which the last one replaces
			if p := q.Payload(&blocks); test.want == nil && (!p.Exact || q.Param(spans.ProvenanceTools) != q.Params.Items()[2]) {
				t.Errorf("of two catalogues %v counts: %v", q.Param(spans.ProvenanceTools), p.Defects)
			}
			row.Lists[1].Count, row.Lists[1].Items = 3, row.Lists[1].Items[1:]
			row.Lists[1].Whole = wholeOf("other bytes")
			if p := Assemble(s.rows).Runs[0].Turns[0].Requests[0].Payload(&blocks); p.Bytes != nil {
				t.Errorf("wrong bytes: %s", p.Bytes)
			}
			row.Lists[1] = List{Name: spans.ListParams, Count: 2, Items: row.Lists[1].Items[:2]}
			p = Assemble(s.rows).Runs[0].Turns[0].Requests[0].Payload(&blocks)
			if test.want == nil && (len(p.Missing) != 1 || p.Missing[0] != MissingPart{Part: "rest"} || p.Defects != nil) {
				t.Errorf("of a request that states no rest are missing %v, and %v", p.Missing, p.Defects)
			}
		})
	}
}
