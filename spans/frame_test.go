package spans

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// The JSON of a frame is a format: it must never change.
func TestFrame(t *testing.T) {
	f := &Frame{
		Keys: []string{"model", "sys\\u0074em", "messages", "<tools>"}, System: "sys\\u0074em", Messages: "messages", Tools: "<tools>",
		Shapes: Shapes{{"role", "content"}, {"type", "text"}},
	}
	const want = `{"keys":["model","sys\\u0074em","messages","\u003ctools\u003e"],"system":"sys\\u0074em","messages":"messages","tools":"\u003ctools\u003e","shapes":[["role","content"],["type","text"]]}`
	if got := string(f.Encode()); got != want {
		t.Errorf("written as\n%s\nwant\n%s", got, want)
	}
	if got, err := ParseFrame(want); err != nil || !cmp.Equal(got, f) {
		t.Errorf("reads as %+v: %v", got, err)
	}
	many := Shapes{}
	for i := range maxShapes + 1 {
		many = append(many, []string{fmt.Sprint("b", i), "a"})
	}
	for _, bad := range []string{
		"", "x", "[]", `{"keys":"a"}`, `{"keys":["a","b","a"]}`, `{"shapes":[["b","a","b"]]}`, `{"shapes":[["b\\u0061","a"]]}`,
		`{"keys":["` + strings.Repeat("x", maxFrame) + `"]}`, string((&Frame{Shapes: many}).Encode()),
		string((&Frame{Keys: strings.Split(strings.Repeat("x", MaxFrameKeys)+"y", "")}).Encode()),
	} {
		if got, err := ParseFrame(bad); !errors.Is(err, ErrEncoding) {
			t.Errorf("ParseFrame(%.40q) = %+v, %v", bad, got, err)
		}
	}
}

func TestShapesLearn(t *testing.T) {
	var s Shapes
	for _, step := range []struct {
		raw  string
		want Shapes
	}{
		{`{"a":1,"b":[{"y":1,"x":{"q":1,"p":2}}]}`, Shapes{{"q", "p"}, {"y", "x"}}},
		{`{"x":1,"y":2}`, nil},                                // known in another order
		{`[{"q":1,"p":2},{"c":1,"a":2}]`, Shapes{{"c", "a"}}}, // one of them known
		{`{"b":1,"a":2,"b":3}`, nil},                          // twice
		{`{"b":1,"\u0061":3}`, nil},                           // an escape
		{`"text"`, nil}, {``, nil}, {`{`, nil}, {`{"z"`, nil}, {`{5:1}`, nil}, {`[{"z":}]`, nil},
	} {
		before := len(s)
		if grew := s.Learn([]byte(step.raw)); grew != (step.want != nil) || !cmp.Equal(s[before:], step.want) && grew {
			t.Errorf("%s teaches %v, want %v", step.raw, s[before:], step.want)
		}
	}
	for i := range 2 * maxShapes {
		s.Learn(fmt.Appendf(nil, `{"b%d":1,"a":2}`, i))
	}
	if len(s) != maxShapes {
		t.Errorf("%d shapes", len(s))
	}
	var wide bytes.Buffer
	for i := range maxShapeKeys + 1 {
		fmt.Fprintf(&wide, `,"k%d":1`, maxShapeKeys-i)
	}
	if s = nil; s.Learn([]byte("{" + wide.String()[1:] + "}")) {
		t.Errorf("learned %d keys", len(s[0]))
	}
}

func TestAppendSpelled(t *testing.T) {
	s := Shapes{{"role", "content"}, {"type", "text"}, {"role", "content", "turnId"}, {"loopId", "turnIndex"}}
	for _, c := range []struct{ body, envelope, want string }{
		{`{"content":[{"text":"x","type":"text"},1,null],"role":"user"}`, ``, `{"role":"user","content":[{"type":"text","text":"x"},1,null]}`},
		{`{"content":"x","role":"user"}`, `{"turnId":{"loopId":"r","turnIndex":1}}`, `{"role":"user","content":"x","turnId":{"loopId":"r","turnIndex":1}}`},
		{`{"content":"x","role":"user","z":1}`, `{"nodeId":"n"}`, `{"content":"x","nodeId":"n","role":"user","z":1}`},
		{`[{"content":1,"role":2},[]]`, ``, `[{"role":2,"content":1},[]]`},
		{`{}`, `{}`, `{}`}, {`{}`, `[1]`, `{}`}, {`5`, `{"a":1}`, `5`},
		{`no json`, `{"a":1}`, `no json`}, {`{"a":1}`, `{`, `{"a":1}`}, {``, ``, ``},
	} {
		if got := s.AppendSpelled([]byte("+"), []byte(c.body), []byte(c.envelope)); string(got) != "+"+c.want {
			t.Errorf("%s with %q is spelled %s, want %s", c.body, c.envelope, got, c.want)
		}
	}
}

// A spelling says the same: made canonical again it is the body, and in the shapes of an object that is alone in its shape it
// is the object.
func FuzzFrame(f *testing.F) {
	f.Add([]byte(`{"role":"user","content":[{"type":"text","text":"x"}]}`), []byte(`{"b":{"z":1,"y":2},"a":[]}`), `{"keys":["b"],"shapes":[["b","a"]]}`)
	f.Add([]byte(`{"b":1,"\u0061":2,"a":3}`), []byte(`[{"a":1,"b":2},{"b":1,"a":2}]`), `{}`)
	f.Fuzz(func(t *testing.T, raw, other []byte, frame string) {
		var s Shapes
		if fr, err := ParseFrame(frame); err == nil {
			if again, err := ParseFrame(string(fr.Encode())); err == nil && !cmp.Equal(again, fr, cmpopts.EquateEmpty()) {
				t.Fatalf("%+v, then %+v", fr, again)
			}
			s = fr.Shapes
		}
		s.Learn(other)
		s.Learn(raw)
		s.AppendSpelled(nil, raw, other)
		body, _, err := rawjson.AppendCanonical(nil, raw, nil)
		if err != nil {
			return
		}
		spelled := s.AppendSpelled(nil, body, nil)
		again, _, err := rawjson.AppendCanonical(nil, spelled, nil)
		if err != nil || !bytes.Equal(again, body) {
			t.Fatalf("%s is spelled %s, which says %s: %v", body, spelled, again, err)
		}
		stripped, envelope, err := rawjson.AppendCanonical(nil, raw, []string{"turnId", "tags"})
		if err != nil || envelope == nil {
			return
		}
		spelled = s.AppendSpelled(nil, stripped, envelope)
		again, e, err := rawjson.AppendCanonical(nil, spelled, []string{"turnId", "tags"})
		if err != nil || !bytes.Equal(again, stripped) || !bytes.Equal(e, envelope) {
			t.Fatalf("%s with %s is spelled %s, which says %s with %s: %v", stripped, envelope, spelled, again, e, err)
		}
	})
}

// What hostile JSON costs grows with its size and nothing else: neither with the number of shapes that are nearly its own, nor with
// its depth.
func TestShapesOfHostileJSON(t *testing.T) {
	object := func(n int) string { // one key of 64 tells them apart, the last in order
		var b strings.Builder
		b.WriteByte('{')
		for k := range maxShapeKeys - 1 {
			fmt.Fprintf(&b, `"k%02d":0,`, maxShapeKeys-k)
		}
		fmt.Fprintf(&b, `"a%d":0}`, n)
		return b.String()
	}
	objects, newlines := 20_000, 5<<20
	if testing.Short() { // the race detector is slow, and the bound a time
		objects, newlines = objects/8, newlines/8
	}
	var many []string
	for n := range objects {
		many = append(many, object(n))
	}
	deep := strings.Repeat("[", rawjson.MaxDepth) + `"` + strings.Repeat(`\n`, newlines) + `"` + strings.Repeat("]", rawjson.MaxDepth)
	for name, raw := range map[string]string{"many": "[" + strings.Join(many, ",") + "]", "deep": deep} {
		var s Shapes
		began := time.Now()
		s.Learn([]byte(raw))
		if got := s.AppendSpelled(nil, []byte(raw), nil); len(got) != len(raw) {
			t.Errorf("%s: %d bytes of %d", name, len(got), len(raw))
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%s: %v for %d bytes", name, d, len(raw))
		}
	}
}
