package dialects_test

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// FuzzDecoder reads any bytes as each dialect, twice: without a panic, to the same events, with errors that name a
// reason and are counted. The content of each event is JSON where the input has none that is text.
func FuzzDecoder(f *testing.F) {
	all := dialects.All()
	for i, d := range all {
		met := map[string]bool{} // beginnings of lines
		for _, path := range fixtures(f)[d.Name] {
			text := must.Get(os.ReadFile(path))(f)
			if len(text) < 2<<10 {
				f.Add(uint8(i), text)
			}
			for line := range bytes.Lines(text) {
				if head := string(line[:min(len(line), 40)]); len(line) > 40 && !met[head] && len(met) < 40 {
					met[head] = true
					f.Add(uint8(i), line)
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, dialect uint8, in []byte) {
		d := all[int(dialect)%len(all)]
		if once, again := lined(t, d, in), lined(t, d, in); !bytes.Equal(once, again) {
			t.Fatalf("%s reads\n%s\nand then\n%s", d.Name, once, again)
		}
	})
}

// lined returns the events that a dialect reads from in, dumped.
func lined(t *testing.T, d dialects.Dialect, in []byte) (lines []byte) {
	t.Helper()
	decoder := d.New(input.Settings{MaxLine: 1 << 20})
	failed := int64(0)
	for ev, err := range decoder.Events(bytes.NewReader(in)) {
		var bad *input.LineError
		switch {
		case err != nil:
			if failed++; ev != nil || !errors.As(err, &bad) || bad.Reason == "" || bad.Dialect == "" {
				t.Fatalf("%s: %#v with %v", d.Name, err, ev)
			}
			continue
		}
		if !bytes.Contains(in, []byte("_text")) {
			content(t, reflect.ValueOf(ev).Elem())
		}
		lines = append(append(lines, agenttest.Dump(ev)...), '\n')
	}
	if got := decoder.Stats(); got.Rejected > failed || got.Rejected > 0 != (failed > 0) {
		t.Fatalf("%s: %+v, %d errors", d.Name, got, failed)
	}
	return lines
}

// content fails the test where a field of v holds content that is no JSON.
func content(t *testing.T, v reflect.Value) {
	t.Helper()
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		content(t, v.Elem())
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		if raw := v.Bytes(); raw != nil && rawjson.Valid(raw, object.MaxDepth+1) != nil {
			t.Fatalf("%q is no JSON", raw)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			content(t, v.Index(i))
		}
	case v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().PkgPath(), "github.com/otelagent"):
		for i := range v.NumField() {
			content(t, v.Field(i))
		}
	}
}

// FuzzRecognise looks at the beginning of any bytes, cut anywhere, without a panic.
func FuzzRecognise(f *testing.F) {
	for _, paths := range fixtures(f) {
		for _, path := range paths[:min(len(paths), 8)] {
			text := must.Get(os.ReadFile(path))(f)
			f.Add(text[:min(len(text), 1000)])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, why, err := dialects.Recognise(b); err == nil && (d.Name == "" || why == "") {
			t.Fatalf("%q, %q", d.Name, why)
		}
	})
}
