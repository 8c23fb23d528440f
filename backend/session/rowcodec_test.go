package session

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

var update = flag.Bool("update", false, "rewrite golden files")

func fullRow() Row {
	return Row{
		Trace: TraceID{1, 2, 15: 3}, Span: SpanID{4, 7: 5}, Parent: SpanID{6, 7: 7},
		Session: Key{Tenant: "acme", ID: "sess-ü"}, Run: "sess.cfg.1", RunStart: 1_780_000_000_123_456_789,
		Turn: 3, Kind: KindTurn, Known: spans.KnownClosed,
		Start: 1_780_000_000_200_000_000, End: 1_780_000_001_200_000_001, Seq: 12, EndSeq: 40, Failed: true,
		Service: "coder",
		Attrs: []Attr{
			{"a.bool", BoolValue(true)},
			{"b.double", DoubleValue(0.7)},
			{"c.int", IntValue(-5)},
			{"d.strings", StringsValue([]string{"stop", "", "länge"})},
			{"e.string", StringValue("text\x00 with \xff bytes")},
			{"f.empty", StringValue("")},
			{"g.none", StringsValue(nil)},
		},
		Lists: []List{
			{Name: "request", Attempt: 1, Count: 3, Whole: "dig", Prefix: "1 dig", Items: []string{"AAAAAAAAAAA st",
				`BBBBBBBBBBB {"turnId":{}}`}},
			{Name: "params"},
		},
		Events: []Event{{Time: 1_780_000_000_300_000_000, Type: "Mystery", Body: "CCCCCCCCCCC", Seq: 13}, {}},
	}
}

// factsRow is a row that states facts.
func factsRow() Row {
	return Row{
		Trace: TraceID{1}, Span: SpanID{2}, Session: Key{ID: "s"}, Turn: NoTurn, Kind: KindPayload,
		Known: spans.KnownObserved,
		Start: 5, End: 6,
		Facts: []RowFact{{Time: 5, Subject: "message/msg_1", Key: "hidden_at", Value: "DDDDDDDDDDD", Seq: 3}, {}},
	}
}

func TestRowGolden(t *testing.T) {
	rows := []Row{fullRow(), {Turn: NoTurn, Known: spans.KnownObserved}, factsRow()}
	var got strings.Builder
	for i := range rows {
		got.WriteString(hex.Dump(rows[i].AppendCanonical(nil)))
		got.WriteByte('\n')
	}
	const name = "testdata/row.golden"
	if *update {
		must.Do(t, os.MkdirAll("testdata", 0o755))
		must.Do(t, os.WriteFile(name, []byte(got.String()), 0o644))
	}
	want := must.Get(os.ReadFile(name))(t)
	if got.String() != string(want) {
		t.Errorf("canonical bytes changed; stores hold rows in this form (-update rewrites the file):\n%s",
			got.String())
	}
	for i := range rows {
		back := must.Get(ParseRow(rows[i].AppendCanonical(nil)))(t)
		if !reflect.DeepEqual(back, rows[i]) {
			t.Errorf("row %d came back as\n%+v, want\n%+v", i, back, rows[i])
		}
	}
}

// A beginning of a row, a row with a byte after it, and one with unsorted attributes are none; of any other bytes see
// FuzzParseRow.
func TestParseRowIsStrict(t *testing.T) {
	r, unsorted := fullRow(), fullRow()
	good := r.AppendCanonical(nil)
	unsorted.Attrs[0], unsorted.Attrs[1] = unsorted.Attrs[1], unsorted.Attrs[0]
	bad := [][]byte{append(good[:len(good):len(good)], 0), unsorted.AppendCanonical(nil)}
	for n := range good {
		bad = append(bad, good[:n])
	}
	for _, b := range bad {
		if _, err := ParseRow(b); !errors.Is(err, ErrRow) {
			t.Errorf("%d of %d bytes: %v", len(b), len(good), err)
		}
	}
	for i := range good {
		for _, c := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			b := bytes.Clone(good)
			b[i] = c
			if row, err := ParseRow(b); err == nil && !bytes.Equal(row.AppendCanonical(nil), b) {
				t.Fatalf("byte %d as %#x: accepted but not canonical", i, c)
			}
		}
	}
}

func TestSupersedes(t *testing.T) {
	f := func(name string, better, worse func(*Row)) {
		t.Helper()
		a, b := fullRow(), fullRow()
		better(&a)
		worse(&b)
		if !Supersedes(&a, &b) || Supersedes(&b, &a) || Supersedes(&a, &a) || Supersedes(&b, &b) {
			t.Errorf("%s: not a strict order", name)
		}
	}
	known := func(k spans.Known, end int64) func(*Row) { return func(r *Row) { r.Known, r.End = k, end } }
	f("observed over closed", known(spans.KnownObserved, 1), known(spans.KnownClosed, 2))
	f("closed over live", known(spans.KnownClosed, 1), known(spans.KnownLive, 2))
	f("later end", known(spans.KnownLive, 3), known(spans.KnownLive, 2))
	f("greater bytes", func(r *Row) { r.Service = "d" }, func(r *Row) { r.Service = "c" })
	f("greater bytes in the last place", func(r *Row) { r.Events[1].Seq = 1 }, func(*Row) {})
}

func TestValue(t *testing.T) {
	for _, v := range []Value{IntValue(7), DoubleValue(7), StringValue("7")} {
		n, isInt := v.Int()
		if f, ok := v.Double(); !isInt || !ok || n != 7 || f != 7 {
			t.Errorf("%v: %d, %v", v, n, f)
		}
	}
	for _, v := range []Value{{}, DoubleValue(7.5), DoubleValue(math.NaN()), DoubleValue(1e300), StringValue("7.5"),
		BoolValue(true), StringsValue([]string{"7"})} {
		if n, ok := v.Int(); ok {
			t.Errorf("%v as int: %d", v, n)
		}
	}
	for v, want := range map[Value]bool{BoolValue(true): true, StringValue("true"): true, StringValue("false"): false} {
		if b, ok := v.Bool(); !ok || b != want {
			t.Errorf("%v as bool: %t, %t", v, b, ok)
		}
	}
	if StringsValue([]string{"a"}).Str() != "" || StringValue("a").Strings() != nil {
		t.Error("types mixed up")
	}
}

func FuzzParseRow(f *testing.F) {
	r := fullRow()
	f.Add(r.AppendCanonical(nil))
	f.Add((&Row{Turn: NoTurn}).AppendCanonical(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRow(b)
		if err != nil {
			if !errors.Is(err, ErrRow) {
				t.Fatalf("error without ErrRow: %v", err)
			}
			return
		}
		if got := r.AppendCanonical(nil); !bytes.Equal(got, b) {
			t.Fatalf("encoded again:\n%x, was\n%x", got, b)
		}
		if Supersedes(&r, &r) {
			t.Fatal("a row supersedes itself")
		}
	})
}
