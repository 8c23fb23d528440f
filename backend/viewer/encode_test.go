package viewer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
)

type inner struct {
	Begin time.Time `json:"begin,omitzero"`
	More  map[string]any
}

type odd struct{ session.RawJSON }

// everything has what answers have, and what encoding/json has rules for.
type everything struct {
	inner
	session.Span
	A       string            `json:"a"`
	Empty   string            `json:"empty,omitempty"`
	List    []*everything     `json:"list,omitempty"`
	Nil     []int             `json:"nil"`
	None    []int             `json:"none"`
	Map     map[string]any    `json:"map"`
	Numbers map[int]string    `json:"numbers"`
	Raw     session.RawJSON   `json:"raw,omitempty"`
	Refs    *session.Refs     `json:"refs,omitempty"`
	Value   session.Refs      `json:"value"`
	Bytes   []byte            `json:"bytes"`
	Any     any               `json:"any"`
	Float   float64           `json:"float"`
	Odd     odd               `json:"odd"`
	Names   map[string]string `json:"names,omitempty"`
	Times   [2]time.Time      `json:"times"`
	hidden  string
	Never   string `json:"-"`
	Plain   bool
	Pointer *string `json:"pointer,omitempty"`
}

func full() *everything {
	text := "é\"\\\x00\x1f\u2028\u202e<b>&\xff\xc3\x80\x80\x80\x80\x80世界😀" + strings.Repeat("\x80", 9)
	x := &everything{
		inner: inner{Begin: time.Unix(1, 2).UTC(), More: map[string]any{"z": []any{1, "x", nil, map[string]any{}}, "a": []any{}, "": 1.5}},
		Span:  session.Span{TraceID: "t", Start: time.Unix(3, 0).UTC(), Extra: map[string]any{"b": true, "a\n": text}},
		A:     text, None: []int{}, Map: map[string]any{text: text, "x": math.MaxInt64}, Numbers: map[int]string{2: "b", 1: "a"},
		Raw: `{ "a" : [ 1 , {} ] , "b":"<\u003c>" }`, Refs: session.NewRefs(session.Ref{Block: "one"}, session.Ref{Block: "two"}), Value: *session.NewRefs(session.Ref{Block: "x"}),
		Bytes: []byte(text), Any: &inner{}, Float: 1e21, Odd: odd{`[1, 2]`}, Names: map[string]string{"k": "v"}, hidden: "h", Never: "n", Pointer: &text,
	}
	y := *x
	x.List = []*everything{&y, nil, {Raw: "no JSON"}}
	return x
}

// What is written in pieces, however small, is what encoding/json writes.
func TestEncode(t *testing.T) {
	for _, v := range []any{nil, 1, "", "text", []string{}, map[string]int{}, struct{}{}, full(), *full(), []any{full(), 2}, (*everything)(nil), session.RawJSON(`{"a":1}`)} {
		for _, indent := range []string{"", "  "} {
			var want bytes.Buffer
			e := json.NewEncoder(&want)
			e.SetEscapeHTML(false)
			e.SetIndent("", indent)
			if err := e.Encode(v); err != nil {
				t.Fatal(err)
			}
			for _, most := range []int{1, 2, 3, 5, 100, 1000, pieceBytes} {
				var got bytes.Buffer
				if err := encodePieces(&got, v, indent, most); err != nil {
					t.Errorf("%T in pieces of %d: %v", v, most, err)
				} else if got.String() != want.String() {
					t.Errorf("%T in pieces of %d:\n%s", v, most, cmp.Diff(want.String(), got.String()))
				}
			}
		}
	}
}

// What cannot be JSON fails as it does there.
func TestEncodeFails(t *testing.T) {
	for _, most := range []int{1, pieceBytes} {
		var unsupported *json.UnsupportedValueError
		if err := encodePieces(io.Discard, []any{"x", math.NaN()}, "", most); !errors.As(err, &unsupported) {
			t.Errorf("in pieces of %d: %v", most, err)
		}
	}
}

// endless counts how often it was asked for.
type endless struct{ looked *int }

// MarshalJSON makes 64 KiB.
func (e endless) MarshalJSON() ([]byte, error) {
	*e.looked++
	return []byte(`"` + strings.Repeat("x", 64<<10-2) + `"`), nil
}

// An answer that is too large ends when it is, and not when all of it was made; a string of it too.
func TestEncodeStops(t *testing.T) {
	looked := 0
	list := make([]endless, 1<<14) // a GiB
	for i := range list {
		list[i] = endless{&looked}
	}
	b := &bounded{}
	if err := encode(b, map[string]any{"list": list}, "  "); !errors.Is(err, errTooLarge) {
		t.Fatal(err)
	}
	if least := maxBody / (64 << 10); looked > least || looked < least*9/10 {
		t.Errorf("%d of %d were made", looked, len(list))
	}
	if b.held() > maxBody {
		t.Errorf("holds %d bytes", b.held())
	}
	b = &bounded{}
	text := strings.Repeat("\x01", maxBody/5) // six characters each
	if err := encode(b, []string{text}, ""); !errors.Is(err, errTooLarge) {
		t.Fatal(err)
	}
	if b.size < maxBody*9/10 || b.held() > maxBody {
		t.Errorf("stopped at %d bytes, holds %d", b.size, b.held())
	}
}
