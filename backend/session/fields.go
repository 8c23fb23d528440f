package session

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// A field of the tree that one attribute fills names the attribute in its tag attr; nothing else lists it. The tag
// holds keys, separated by commas. An attribute fills the field if it has the type of the field; of several, the last
// by key counts. Options are between the keys:
//
//   - header: turns repeat the attribute of their run.
//   - seconds: the attribute is in seconds, the field in nanoseconds.
//   - relative: the field names a run or call that belongs to this one. Another recording may fill it; see merge.go.
//   - genai: the counts also have the keys gen_ai.usage. with what their own tags hold.
//
// A key with a * is that of a struct of counts: * stands for the JSON name of the count. A field that is no count has
// the key without what follows the *. Fields with a tag list take the list of that name.

// fieldTable holds the fields of one kind of span.
type fieldTable struct {
	attrs map[string]*attrField
	lists []listField
}

// listField is a field of type *Refs that a list fills.
type listField struct {
	name string
	path []int
}

// of returns the field of a struct.
func (f *listField) of(dst reflect.Value) **Refs {
	return dst.FieldByIndex(f.path).Addr().Interface().(**Refs)
}

// attrField is a field that an attribute fills. Path is its path from the struct, or for a counter from counters;
// pointers on it are set when needed. It is nil where the attribute fills no field of this part.
type attrField struct {
	path      []int
	counter   bool
	elsewhere bool // the tree has the attribute in another place: in the run, in the kind of the span or in its address
	header    bool
	seconds   bool
	relative  bool
}

// fieldsOf returns the fields of a kind of span. Those of a run are in run where spans of this kind repeat its header.
func fieldsOf(typ reflect.Type, run *fieldTable) *fieldTable {
	t := &fieldTable{attrs: map[string]*attrField{}}
	t.read(reflect.TypeFor[counters](), nil)
	for _, f := range t.attrs {
		f.counter = true
	}
	t.read(typ, nil)
	elsewhere := []string{string(spans.AgentNameKey), string(spans.AgentIDKey), string(spans.OperationNameKey),
		string(spans.OrdinalKey), string(spans.FinishReasonsKey)}
	if run != nil {
		for key, f := range run.attrs {
			if f.header {
				elsewhere = append(elsewhere, key)
			}
		}
	}
	for _, key := range elsewhere {
		if t.attrs[key] == nil {
			t.attrs[key] = &attrField{}
		}
		t.attrs[key].elsewhere = true
	}
	return t
}

func (t *fieldTable) read(typ reflect.Type, path []int) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		at := append(slices.Clip(path), i)
		if f.Anonymous {
			t.read(f.Type, at)
		}
		if name := f.Tag.Get("list"); name != "" {
			t.lists = append(t.lists, listField{name, at})
		}
		if f.Tag.Get("attr") == "" {
			continue
		}
		keys := strings.Split(f.Tag.Get("attr"), ",")
		field := &attrField{path: at, header: slices.Contains(keys, "header"), seconds: slices.Contains(keys, "seconds"),
			relative: slices.Contains(keys, "relative")}
		for _, key := range keys {
			if prefix, suffix, counts := strings.Cut(key, "*"); counts {
				t.counts(f.Type, at, prefix, suffix, slices.Contains(keys, "genai"))
			} else if !slices.Contains([]string{"header", "seconds", "genai", "relative"}, key) {
				t.attrs[key] = field
			}
		}
	}
}

// counts adds the fields of a struct of counts whose keys are in the registry.
func (t *fieldTable) counts(typ reflect.Type, path []int, prefix, suffix string, genAI bool) {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	for i := range typ.NumField() {
		tag := typ.Field(i).Tag
		field := &attrField{path: append(slices.Clip(path), i)}
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		if typ.Field(i).Type.Kind() != reflect.Bool {
			name += suffix
		}
		key := prefix + name
		if _, isRegistered := spans.Lookup(attribute.Key(key)); isRegistered {
			t.attrs[key] = field
		}
		for key := range strings.SplitSeq(tag.Get("genai"), ",") {
			if genAI && key != "" {
				t.attrs["gen_ai.usage."+key] = field
			}
		}
	}
}

// set fills the field of dst. It reports false if there is none, or if the value has not its type.
func (f *attrField) set(dst reflect.Value, v Value) bool {
	if f.path == nil {
		return false
	}
	if f.seconds {
		s, ok := v.Double()
		if !ok || s < 0 || s >= math.MaxInt64/1e9 {
			return false
		}
		v = IntValue(int64(math.Round(s * 1e9)))
	}
	for _, i := range f.path {
		if dst.Kind() == reflect.Pointer {
			if dst.IsNil() {
				dst.Set(reflect.New(dst.Type().Elem()))
			}
			dst = dst.Elem()
		}
		dst = dst.Field(i)
	}
	if dst.Kind() == reflect.String {
		dst.SetString(v.Text())
		return true
	}
	switch p := dst.Addr().Interface().(type) {
	case *int64:
		n, ok := v.Int()
		return assign(p, n, ok)
	case **int64:
		n, ok := v.Int()
		return point(p, n, ok)
	case *bool:
		b, ok := v.Bool()
		return assign(p, b, ok)
	case **bool:
		b, ok := v.Bool()
		return point(p, b, ok)
	case **float64:
		n, ok := v.Double()
		return point(p, n, ok && math.Abs(n) < 1e15) // sums of them stay finite
	case *time.Time:
		n, ok := v.Int()
		return assign(p, nsTime(n), ok)
	case *[]string:
		l, ok := v.list()
		return assign(p, l, ok)
	case *[]Defect:
		l, ok := v.list()
		for _, text := range l[:min(len(l), 64)] {
			code, detail, _ := strings.Cut(text, " ")
			*p = append(*p, Defect{Code: spans.DefectCode(code), Detail: detail})
		}
		return ok
	case **Refs:
		*p = inRow(v.Strings())
		return true
	}
	panic("session: no attribute can fill a field of type " + dst.Type().String())
}

func assign[T any](dst *T, v T, ok bool) bool {
	if ok {
		*dst = v
	}
	return ok
}

func point[T any](dst **T, v T, ok bool) bool {
	if ok {
		*dst = &v
	}
	return ok
}

// list returns a list of strings, also one string as a list.
func (v Value) list() (l []string, ok bool) {
	if v.Type() == TypeString {
		return []string{v.Str()}, true
	}
	return v.Strings(), v.Type() == TypeStrings
}

// list returns the field of dst for lists of a name, nil if there is none.
func (t *fieldTable) list(dst reflect.Value, name string) **Refs {
	for i := range t.lists {
		if t.lists[i].name == name {
			return t.lists[i].of(dst)
		}
	}
	return nil
}

// counters are attributes that Assemble uses and the tree does not show.
type counters struct {
	// The numbers of children that the source counted; -1 if it did not.
	Turns       int64 `attr:"otelagent.count.turns"`
	ToolCalls   int64 `attr:"otelagent.count.tool_calls"`
	Compactions int64 `attr:"otelagent.count.compactions"`
	Permissions int64 `attr:"otelagent.count.permissions"`
	Inferred    bool  `attr:"otelagent.run.inferred"`
	MadeUp      bool  `attr:"otelagent.session.made_up"`
	Schema      int64 `attr:"otelagent.schema"`

	final bool // the span ended, so the numbers are final
}

// check adds a defect for each kind of child of which fewer arrived than the source counted. Permission evaluations are
// counted by their turn or run and by the tool call that they belong to; each counts its own.
func (c *counters) check(s *Remarks, got *children) {
	short := func(code spans.DefectCode, got int, want int64) {
		if c.final && int64(got) < want {
			s.defect(code, strconv.Itoa(got)+" of "+strconv.FormatInt(want, 10)+" arrived")
		}
	}
	short(spans.DefectToolCallMissing, len(got.tools), c.ToolCalls)
	short(spans.DefectCompactionMissing, len(got.compactions), c.Compactions)
	short(spans.DefectPermissionMissing, len(got.permissions), plus(max(0, c.Permissions), got.counted))
}

// need returns *p, which it sets if it is nil.
func need[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}
