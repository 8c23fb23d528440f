package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/diff"
)

// oracleRoots are the folders of recordings by dialect. Recordings are known by their path in this folder.
var oracleRoots = map[string]string{
	"phi-core":    "../../dialects/phi/testdata",
	"clark-agent": "../../dialects/clark/testdata",
	"acp":         "../../dialects/acp/testdata",
	"guide":       "../../dialects/guide/testdata",
	"otelagent":   "../../dialects/ndjson/testdata",
}

// oracleTables are the recordings of the guide whose lines are rows of its tables: they are read as a database too.
var oracleTables = []string{"session.jsonl", "ai-sdk/v6.jsonl", "ai-sdk/v7.jsonl"}

// oracleData holds for each group of recordings, which are those of one name, an index as plain text and the bodies
// that it names.
const oracleData = "testdata/oracle"

// oracleRecording is one recording: a file, or several that are read as one.
type oracleRecording struct {
	Name, From string
	Files      []string
}

// open returns the arguments and the standard input that read it.
func (r oracleRecording) open(t *testing.T) (files []string, stdin io.Reader) {
	t.Helper()
	if !strings.HasSuffix(r.Files[0], ".zst") {
		return r.Files, nil
	}
	f, err := os.Open(r.Files[0])
	must(t, err)
	unpacked, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	must(t, err)
	t.Cleanup(func() { unpacked.Close(); f.Close() })
	return []string{"-"}, unpacked
}

// oracleGroups finds the recordings of a dialect, by the name of what was recorded.
func oracleGroups(t *testing.T, dialect string) map[string][]oracleRecording {
	t.Helper()
	root, groups := oracleRoots[dialect], map[string][]oracleRecording{}
	together := map[string][]string{} // files that belong to one execution of a loop
	add := func(name string, files ...string) {
		group, _, _ := strings.Cut(filepath.Base(name), ".")
		groups[group] = append(groups[group], oracleRecording{name, dialect, files})
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case d.IsDir() && (name == "golden" || name == "fuzz"): // what tests expect, and what they found
			return filepath.SkipDir
		case d.IsDir() || strings.HasSuffix(name, ".tree.json"):
			return nil
		case !slices.Contains([]string{".json", ".jsonl", ".ndjson", ".zst"}, filepath.Ext(name)):
			return nil
		}
		add(name, path)
		if dialect == "clark-agent" && !strings.Contains(name, ".enveloped.") {
			base, _, _ := strings.Cut(filepath.Base(name), ".")
			key := filepath.Dir(name) + "/" + base + ".all"
			together[key] = append(together[key], path)
		}
		if dialect == "guide" && slices.Contains(oracleTables, name) {
			add(strings.TrimSuffix(name, ".jsonl")+".sqlite", oracleDatabase(t, path))
		}
		return nil
	})
	must(t, err)
	for _, name := range slices.Sorted(maps.Keys(together)) {
		if files := together[name]; len(files) > 1 {
			add(name, files...)
		}
	}
	return groups
}

// oracleDatabase makes an SQLite file of the guide's tables from the same rows as lines of JSON.
func oracleDatabase(t *testing.T, lines string) string {
	t.Helper()
	text, err := os.ReadFile(lines)
	must(t, err)
	path := filepath.Join(t.TempDir(), "sessions.sqlite")
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer db.Close()
	exec := func(query string, args ...any) {
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE chat_sessions(id TEXT PRIMARY KEY, agent TEXT, workspace_root TEXT, model_json TEXT, parent_id TEXT,
	parent_message_id TEXT, permissions_json TEXT, metadata_json TEXT, prompt_tokens INTEGER, completion_tokens INTEGER,
	reasoning_tokens INTEGER, cache_read INTEGER, cache_write INTEGER, total_tokens INTEGER, cost_usd REAL,` +
		` created_at INTEGER,
	updated_at INTEGER, archived_at INTEGER);
CREATE TABLE chat_messages(id TEXT PRIMARY KEY, session_id TEXT, role TEXT, metadata_json TEXT, created_at INTEGER,
	updated_at INTEGER);
CREATE TABLE chat_parts(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, "index" INTEGER, type TEXT,` +
		` data_json TEXT,
	tool_call_id TEXT, tool_state TEXT, created_at INTEGER, updated_at INTEGER);
CREATE TABLE system_prompts(digest TEXT PRIMARY KEY, body TEXT NOT NULL);`)
	tables := map[string]string{
		"session": "chat_sessions", "message": "chat_messages", "part": "chat_parts", "system_prompt": "system_prompts",
	}
	for line := range bytes.Lines(text) {
		var row struct {
			Type string
			Data map[string]any
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		if d.Decode(&row) != nil || tables[row.Type] == "" {
			continue
		}
		var names, marks []string
		var values []any
		for _, name := range slices.Sorted(maps.Keys(row.Data)) {
			value := row.Data[name]
			if n, ok := value.(json.Number); ok {
				value = n.String()
			}
			names, marks, values = append(names, `"`+name+`"`), append(marks, "?"), append(values, value)
		}
		exec(fmt.Sprintf("INSERT OR REPLACE INTO %s (%s) VALUES (%s)", tables[row.Type], strings.Join(names, ","),
			strings.Join(marks, ",")), values...)
	}
	return path
}

// TestOracle sends each recording of each dialect through the whole pipeline, with all its content, and compares with
// what came out when it was frozen: the tree of each session, the exact bytes of each request, and each export.
// `-update` freezes it again; do that only for a change that users are meant to see.
//
// The data knows nothing of the wire, of spans, of blocks or of packages. So it omits from the tree: the ids of traces
// and spans, the sequence numbers of events, the service's name, what capture cost, and the digests of requests and
// tools, whose bytes are there anyway. Content is in place of the names of blocks; its numbers are spelled in one way.
// Other digests, ids that the recording lacks, and times of arrival are numbered or replaced, in exports too. Of
// defects, of refused exports and of messages of the reader the code, the numbers and the place are kept: their texts
// may improve. Texts of more than 1 MiB are not normalised: those recordings have ids and times of their own. Parts of
// more than 256 KiB are kept as hashes of 50 lines each, and the requests of a session that come to more than 1 MiB as
// a size and a SHA-256 each. Equal bodies are stored once: an index shows which recordings give the same.
func TestOracle(t *testing.T) {
	for _, dialect := range slices.Sorted(maps.Keys(oracleRoots)) {
		groups := oracleGroups(t, dialect)
		dir := filepath.Join(filepath.FromSlash(oracleData), dialect)
		stored, err := filepath.Glob(filepath.Join(dir, "*.index"))
		must(t, err)
		for _, path := range stored {
			if name := strings.TrimSuffix(filepath.Base(path), ".index"); groups[name] == nil {
				t.Errorf("%s: there is no recording of this name", path)
			}
		}
		for i, name := range slices.Sorted(maps.Keys(groups)) {
			if testing.Short() && (i%20 != 0 || strings.HasPrefix(name, "long-")) {
				continue
			}
			t.Run(dialect+"/"+name, func(t *testing.T) {
				t.Parallel()
				oracleGroup(t, filepath.Join(dir, name), groups[name])
			})
		}
	}
}

func oracleGroup(t *testing.T, path string, recordings []oracleRecording) {
	now := oracleStore{bodies: map[string]string{}}
	for _, r := range recordings {
		said, sessions := oracleRead(t, r)
		now.add(r.Name, "reader", said+"\n")
		for i, s := range sessions {
			where := fmt.Sprintf("%s session %d (%s)", r.Name, i+1, s.ID)
			for _, part := range slices.Sorted(maps.Keys(s.Parts)) {
				now.add(where, part, s.Parts[part])
			}
		}
	}
	if *update {
		now.write(t, path)
		return
	}
	then := oracleLoad(t, path)
	old := map[string]string{}
	for _, e := range then.index {
		old[e.where+"\t"+e.part] = e.hash
	}
	for _, e := range now.index {
		key := e.where + "\t" + e.part
		hash, ok := old[key]
		delete(old, key)
		switch {
		case !ok:
			t.Errorf("%s: %s is new:\n%s", e.where, e.part, oracleClip(now.bodies[e.hash]))
		case hash != e.hash:
			t.Errorf("%s: %s differs:\n%s", e.where, e.part, oracleDiff(then.bodies[hash], now.bodies[e.hash]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(old)) {
		t.Errorf("%s is gone", strings.ReplaceAll(key, "\t", ": "))
	}
}

// oracleStore is what is stored of one group.
type oracleStore struct {
	index  []oracleEntry
	order  []string          // hashes, as they were first seen
	bodies map[string]string // by hash
}

// oracleEntry is one part of one recording.
type oracleEntry struct{ where, part, hash string }

func (s *oracleStore) add(where, part, body string) {
	if len(body) > oracleWhole {
		body = oracleOutline(body)
	}
	hash := fmt.Sprintf("%.16x", sha256.Sum256([]byte(body)))[:16]
	s.index = append(s.index, oracleEntry{where, part, hash})
	if _, ok := s.bodies[hash]; ok {
		return
	}
	s.order = append(s.order, hash)
	s.bodies[hash] = body
}

const (
	oracleWhole = 256 << 10 // bytes of a body that is stored whole
	oracleLines = 50        // lines of a stretch of any other
)

// oracleOutline is what is stored of a long body: a hash of each stretch of lines, so that a difference has a place.
func oracleOutline(body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "outline of %d bytes, sha256 %x\n", len(body), sha256.Sum256([]byte(body)))
	lines := oracleSplit(body)
	for i := 0; i < len(lines); i += oracleLines {
		stretch := strings.Join(lines[i:min(i+oracleLines, len(lines))], "")
		fmt.Fprintf(&b, "lines from %d: %.6x\n", i+1, sha256.Sum256([]byte(stretch)))
	}
	return b.String()
}

// oracleSplit returns the lines of a body, those that are JSON in indented form.
func oracleSplit(body string) []string {
	var out []string
	for line := range strings.Lines(body) {
		var indented bytes.Buffer
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "{") && json.Indent(&indented, []byte(text), "",
			"  ") == nil {
			indented.WriteByte('\n')
			line = indented.String()
		}
		out = append(out, slices.Collect(strings.Lines(line))...)
	}
	return out
}

// oracleDiff shows where two bodies differ, by lines.
func oracleDiff(then, now string) string {
	d := string(diff.Diff("frozen", []byte(strings.Join(oracleSplit(then), "")), "now",
		[]byte(strings.Join(oracleSplit(now), ""))))
	if d == "" {
		d = fmt.Sprintf("the spacing of JSON differs: %q, now %q", oracleClip(then), oracleClip(now))
	}
	return oracleClip(d)
}

// oracleClip cuts what a failure prints.
func oracleClip(text string) string {
	const most = 60
	lines := strings.SplitAfterN(text, "\n", most+1)
	for i := range lines[:min(len(lines), most)] {
		if len(lines[i]) > 400 {
			lines[i] = lines[i][:400] + "…\n"
		}
	}
	if len(lines) > most {
		lines[most] = "…\n"
	}
	return strings.Join(lines, "")
}

// write stores the index as text, and the bodies by their hash in an archive.
func (s *oracleStore) write(t *testing.T, path string) {
	t.Helper()
	var index, packed bytes.Buffer
	where := ""
	for _, e := range s.index {
		if e.where != where {
			where = e.where
			fmt.Fprintln(&index, where)
		}
		fmt.Fprintf(&index, "\t%s\t%s\n", e.part, e.hash)
	}
	z, err := zstd.NewWriter(&packed, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	must(t, err)
	w := tar.NewWriter(z)
	for _, hash := range s.order {
		body := s.bodies[hash]
		err := w.WriteHeader(&tar.Header{Name: hash, Mode: 0o644, Size: int64(len(body)), Format: tar.FormatUSTAR})
		if err == nil {
			_, err = io.WriteString(w, body)
		}
		must(t, err)
	}
	must(t, errors.Join(w.Close(), z.Close(), os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path+".index", index.Bytes(), 0o644), os.WriteFile(path+".tar.zst", packed.Bytes(), 0o644)))
}

// oracleLoad reads what write stored.
func oracleLoad(t *testing.T, path string) oracleStore {
	t.Helper()
	s := oracleStore{bodies: map[string]string{}}
	index, err := os.ReadFile(path + ".index")
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	where := ""
	for line := range strings.Lines(string(index)) {
		line = strings.TrimSuffix(line, "\n")
		if fields := strings.Split(line, "\t"); len(fields) == 3 {
			s.index = append(s.index, oracleEntry{where, fields[1], fields[2]})
		} else {
			where = line
		}
	}
	f, err := os.Open(path + ".tar.zst")
	must(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	must(t, err)
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s
		}
		must(t, err)
		body, err := io.ReadAll(r)
		must(t, err)
		s.bodies[h.Name] = string(body)
	}
}
