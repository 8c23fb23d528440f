package web_test

import (
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/web"
	"github.com/otelagent/otelagent/internal/must"
)

func document(t *testing.T) string {
	t.Helper()
	b := must.Get(os.ReadFile("../../docs/api.md"))(t)
	return string(b)
}

// Every path of docs/api.md answers, and every path that TestPaths asks with success is there.
func TestDocumentedPaths(t *testing.T) {
	text := document(t)
	shapes := regexp.MustCompile("`/api/v1/([^`]*)`").FindAllStringSubmatch(text, -1)
	named := map[string]bool{}
	h := serve(t, web.Options{})
	turn := read[web.Turns](t, h, "/api/v1/turns/"+demoID+"?from=1&count=1").Turns[0]
	block := turn.ToolCalls[0].Output.Block
	fill := strings.NewReplacer("SESSION", demoID, "RUN", "@1", "TURN", "2", "ATTEMPT", "0", "BLOCK", block)
	query := map[string]string{"diff": "?a=0b5c/@1/1&b=0b5c/@1/2", "grep": "?q=add"}
	for _, s := range shapes {
		shape := s[1]
		verb, _, _ := strings.Cut(shape, "/")
		verb, _, _ = strings.Cut(verb, "?")
		if strings.HasSuffix(shape, "/") || strings.Contains(shape, "?") { // in words
			continue
		}
		named[verb] = true
		if verb == "events" {
			continue // TestEvents
		}
		if r := get(t, h, "/api/v1/"+fill.Replace(shape)+query[verb]); r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", shape, r.Status, body(t, r))
		}
	}
	for path, status := range paths() {
		verb, _, _ := strings.Cut(path, "/")
		verb, _, _ = strings.Cut(verb, "?")
		if status == 200 && !named[verb] {
			t.Errorf("%s stands not in docs/api.md", verb)
		}
	}
	for _, name := range store.Filters() {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("filter %s stands not in docs/api.md", name)
		}
	}
	if len(named) < 14 {
		t.Errorf("only %v", named)
	}
}

// Every field of the shapes is in docs/api.md.
func TestDocumentedFields(t *testing.T) {
	text := document(t)
	seen := map[reflect.Type]bool{}
	var walk func(of reflect.Type)
	walk = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] ||
			!slices.Contains(
				[]string{"github.com/otelagent/otelagent/backend/inspect", "github.com/otelagent/otelagent/backend/web"},
				of.PkgPath(),
			) {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`"+name+"[]`") {
				t.Errorf("%s.%s (%s) stands not in docs/api.md", of.Name(), f.Name, name)
			}
			walk(f.Type)
		}
	}
	for _, v := range []any{inspect.Outline{}, web.Turns{}, web.About{}} {
		walk(reflect.TypeOf(v))
	}
	if len(seen) < 15 {
		t.Errorf("only %d shapes", len(seen))
	}
}
