package otelagent

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	phi := []string{"turnId", "nodeId"}
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for _, tt := range []struct {
		name, in       string
		strip          []string
		body, envelope string
		bad            bool
	}{
		{name: "sorts at every depth", in: `{"b":{"d":1,"c":[{"z":1,"a":2}]},"a":2}`, body: `{"a":2,"b":{"c":[{"a":2,"z":1}],"d":1}}`},
		{name: "drops blanks between tokens only", in: " { \"a b\" : [ 1 , \" x \" ] }\n", body: `{"a b":[1," x "]}`},
		{name: "keeps the spelling of numbers", in: `[1.0, 1e5,-0, 12345678901234567890]`, body: `[1.0,1e5,-0,12345678901234567890]`},
		{name: "keeps the spelling of strings", in: `"\u00e9\/é"`, body: `"\u00e9\/é"`},
		{name: "takes the envelope off", in: `{"role":"user","turnId":{"t":1,"l":"x"},"nodeId":3}`, strip: phi,
			body: `{"role":"user"}`, envelope: `{"nodeId":3,"turnId":{"l":"x","t":1}}`},
		{name: "only from the top", in: `{"a":{"turnId":1}}`, strip: phi, body: `{"a":{"turnId":1}}`},
		{name: "all of it", in: `{"turnId":1}`, strip: phi, body: `{}`, envelope: `{"turnId":1}`},
		{name: "keeps both of equal keys, in order", in: `{"b":1,"a":2,"a":1}`, body: `{"a":2,"a":1,"b":1}`},
		{name: "words", in: `[true,false,null,{}]`, body: `[true,false,null,{}]`},
		{name: "as deep as allowed", in: deep, body: deep},
		{name: "deeper", in: "[[" + deep + "]]", bad: true},
		{name: "cut", in: `{"a":`, bad: true},
		{name: "more than one", in: `1 2`, bad: true},
		{name: "trailing comma", in: `[1,]`, bad: true},
		{name: "leading comma", in: `{,}`, bad: true},
		{name: "raw control character", in: "\"\n\"", bad: true},
		{name: "bad escape", in: `"\x"`, bad: true},
		{name: "bad number", in: `01`, bad: true},
		{name: "nothing", in: ``, bad: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, envelope, ok := canonical([]byte(tt.in), tt.strip)
			if ok == tt.bad || string(body) != tt.body || string(envelope) != tt.envelope {
				t.Errorf("canonical = %s, %s, %t; want %s, %s, %t", body, envelope, ok, tt.body, tt.envelope, !tt.bad)
			}
		})
	}
}

// FuzzCanonical checks what must hold of any input: it accepts what encoding/json accepts, within its depth; the result means the
// same, is a fixed point, and does not depend on the order of keys.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":{"d":[1,2,{"y":1,"x":2}],"c":"\u00e9"}}`, `[]`, `{"turnId":1,"a":2}`, `{"a":1,"a":2}`, `-1.5e+3`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		body, envelope, ok := canonical(in, nil)
		if !bytes.Equal(in, before) {
			t.Fatal("the input was changed")
		}
		if ok != json.Valid(in) && bytes.Count(in, []byte("["))+bytes.Count(in, []byte("{")) <= maxDepth {
			t.Fatalf("canonical says %t, encoding/json %t", ok, !ok)
		}
		if !ok {
			return
		}
		if len(envelope) != 0 {
			t.Fatalf("envelope %s without keys to strip", envelope)
		}
		again, _, ok := canonical(body, nil)
		if !ok || !bytes.Equal(again, body) {
			t.Fatalf("not a fixed point: %s becomes %s", body, again)
		}
		if a, b := decode(t, in), decode(t, body); !reflect.DeepEqual(a, b) {
			t.Fatalf("%s means something else than %s", body, in)
		}
	})
}

func decode(t *testing.T, b []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
