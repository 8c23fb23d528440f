package session

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// Every field of the tree's JSON is in README.md.
func TestTreeIsDocumented(t *testing.T) {
	raw := must.Get(os.ReadFile("README.md"))(t)
	_, text, _ := strings.Cut(string(raw), "## JSON, format 1")
	text, _, _ = strings.Cut(text, "\n## Requests")
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || typ.PkgPath() == "time" {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && name != "-" && !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%s.%s: `%s` is not in README.md", typ.Name(), f.Name, name)
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[Session]())
}

// Every key in a tag attr is in the registry, but for the one that no span has.
func TestTagsAreRegistered(t *testing.T) {
	for _, table := range tables {
		for key := range table.attrs {
			if _, ok := spans.Lookup(attribute.Key(key)); !ok && key != PartialOutputKey {
				t.Errorf("no attribute %s", key)
			}
		}
	}
}
