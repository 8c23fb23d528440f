// Package phifixtures gives tests the recordings of the real phi-core crate (interop/phi-core wrote them) and compares
// ledgers with what phi-core's own recorder saved, but for the differences that dialects/phi/README.md lists.
package phifixtures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Fixture is one scenario as one release of phi-core recorded it.
type Fixture struct {
	// Release is the crate's version, Name the scenario.
	Release, Name string
	// Events is the event stream, one AgentEvent a line.
	Events []byte
	// Sessions is what the crate's SessionRecorder saved for it, by session id.
	Sessions map[string]any
}

// String returns release and name.
func (f Fixture) String() string { return f.Release + "/" + f.Name }

// Lines returns the lines of the stream, without their ends.
func (f Fixture) Lines() [][]byte {
	return bytes.Split(bytes.TrimSuffix(f.Events, []byte("\n")), []byte("\n"))
}

// All returns every fixture below root, the repository's own folder. It fails the test when there are none.
func All(tb testing.TB, root string) []Fixture {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(root, "dialects", "phi", "testdata", "phi-core-*", "*.events.ndjson"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no recordings of phi-core below %s: %v", root, err)
	}
	var all []Fixture
	for _, file := range files {
		f := Fixture{
			Release: strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "phi-core-"),
			Name:    strings.TrimSuffix(filepath.Base(file), ".events.ndjson"),
		}
		if f.Events, err = os.ReadFile(file); err != nil {
			tb.Fatal(err)
		}
		raw, err := os.ReadFile(strings.TrimSuffix(file, ".events.ndjson") + ".sessions.json")
		if err != nil {
			tb.Fatal(err)
		}
		var sessions []map[string]any
		if err := decode(raw, &sessions); err != nil {
			tb.Fatalf("%s: %v", f, err)
		}
		f.Sessions = make(map[string]any, len(sessions))
		for _, s := range sessions {
			f.Sessions[s["session_id"].(string)] = s
		}
		all = append(all, f)
	}
	return all
}

// decode keeps the spelling of numbers: 1.0 and 1 are different values here.
func decode(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

// Difference is one place where our ledger is not the recorder's.
type Difference struct {
	// Path is where, such as loops[0].turns[1].usage.input; session is the session's id.
	Session, Path string
	Got, Want     any
}

// String shows both values, cut to one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s %s: ours %s, phi-core's %s", d.Session, d.Path, short(d.Got), short(d.Want))
}

func short(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	const most = 120
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// absent stands for a key, element or session that one side does not have.
const absent = "(absent)"

// Compare returns every difference between the ledgers that we wrote, by session id, and those of the fixture. The
// events of a loop are left out on both sides: phi-core stores them up to 0.13, we never do.
func Compare(f Fixture, ours map[string][]byte) ([]Difference, error) {
	var diffs []Difference
	for id, raw := range ours {
		var got map[string]any
		if err := decode(raw, &got); err != nil {
			return nil, fmt.Errorf("%s: our ledger of session %s: %w", f, id, err)
		}
		want, ok := f.Sessions[id]
		if !ok {
			diffs = append(diffs, Difference{Session: id, Path: "session", Got: "a ledger", Want: absent})
			continue
		}
		dropEvents(got)
		dropEvents(want)
		diffs = append(diffs, walk(id, "", got, want)...)
	}
	for id := range f.Sessions {
		if _, ok := ours[id]; !ok {
			diffs = append(diffs, Difference{Session: id, Path: "session", Got: absent, Want: "a ledger"})
		}
	}
	slices.SortFunc(diffs, func(a, b Difference) int {
		return strings.Compare(a.Session+" "+a.Path,
			b.Session+" "+b.Path)
	})
	return diffs, nil
}

// Differences returns every difference between two JSON texts, with session as that of each.
func Differences(session string, got, want []byte) ([]Difference, error) {
	var g, w any
	if err := decode(got, &g); err != nil {
		return nil, err
	}
	if err := decode(want, &w); err != nil {
		return nil, err
	}
	diffs := walk(session, "", g, w)
	slices.SortFunc(diffs, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return diffs, nil
}

func dropEvents(session any) {
	s, _ := session.(map[string]any)
	loops, _ := s["loops"].([]any)
	for _, l := range loops {
		if l, ok := l.(map[string]any); ok {
			delete(l, "events")
		}
	}
}

func walk(id, at string, got, want any) []Difference {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := make(map[string]bool)
		for k := range g {
			keys[k] = true
		}
		for k := range w {
			keys[k] = true
		}
		var diffs []Difference
		for k := range keys {
			gv, gok := g[k]
			wv, wok := w[k]
			if !gok {
				gv = absent
			}
			if !wok {
				wv = absent
			}
			diffs = append(diffs, walk(id, strings.TrimPrefix(at+"."+k, "."), gv, wv)...)
		}
		return diffs
	case []any:
		g, ok := got.([]any)
		if !ok {
			break
		}
		if len(g) != len(w) {
			return []Difference{{Session: id, Path: at + ".length", Got: len(g), Want: len(w)}}
		}
		var diffs []Difference
		for i := range w {
			diffs = append(diffs, walk(id, fmt.Sprintf("%s[%d]", at, i), g[i], w[i])...)
		}
		return diffs
	}
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return []Difference{{Session: id, Path: at, Got: got, Want: want}}
}

// Known is one row of a table of differences in dialects/phi/README.md.
type Known struct {
	// Scenario and Path are patterns as in path.Match; brackets of paths stand for themselves.
	Scenario, Path, Reason string
	// Used says that a difference matched.
	Used bool
}

// KnownIn reads the table of differences after the marker of that name in dialects/phi/README.md.
func KnownIn(tb testing.TB, root, name string) []*Known {
	tb.Helper()
	var known []*Known
	for _, cells := range Table(tb, filepath.Join(root, "dialects", "phi", "README.md"), name) {
		known = append(known, &Known{Scenario: code(cells[0]), Path: code(cells[1]), Reason: cells[2]})
	}
	return known
}

// Table returns the cells of the table that follows the HTML comment `<!-- table: NAME -->` in the document path. It
// fails the test when there is none, or when a row lacks a reason.
func Table(tb testing.TB, path, name string) [][]string {
	tb.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, found := strings.Cut(string(raw), "<!-- table: "+name+" -->\n")
	if !found {
		tb.Fatalf("%s has no table %q", path, name)
	}
	var rows [][]string
	for i, line := range strings.Split(rest, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i < 2 { // heading and rule
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j := range cells {
			cells[j] = strings.TrimSpace(cells[j])
		}
		if cells[len(cells)-1] == "" {
			tb.Fatalf("%s, table %q: row %q has no reason", path, name, line)
		}
		rows = append(rows, cells)
	}
	return rows
}

func code(cell string) string { return strings.Trim(cell, "`") }

// Unknown returns the differences that no row of known explains, and marks the rows that explain one.
func Unknown(f Fixture, diffs []Difference, known []*Known) []Difference {
	return slices.DeleteFunc(slices.Clone(diffs), func(d Difference) bool {
		for _, k := range known {
			if match(k.Scenario, f.Name) && match(k.Path, d.Path) {
				k.Used = true
				return true
			}
		}
		return false
	})
}

// plain takes off what path.Match would read as more than itself.
var plain = strings.NewReplacer("[", "(", "]", ")", "/", ":")

// match reports whether name matches pattern, in which brackets stand for themselves.
func match(pattern, name string) bool {
	ok, err := path.Match(plain.Replace(pattern), plain.Replace(name))
	return err == nil && ok
}
