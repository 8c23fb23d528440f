package codex

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
)

// Layout says where Codex keeps its rollouts.
var Layout = transcript.Layout{Dialect: Dialect, Env: "CODEX_HOME", Below: []string{"sessions", "archived_sessions"},
	Home: []string{".codex/sessions", ".codex/archived_sessions"}, Names: regexp.MustCompile(`\.jsonl(\.zst)?$`),
	Head: head}

// parentKey finds the thread that a rollout goes on from, or that spawned it. The first line may be longer than the
// head of the file, and these keys stand at several depths. No string of JSON holds a quote that is not escaped.
var parentKey = regexp.MustCompile(`"(?:parent_thread_id|forked_from_id)":"([^"\\]{1,256})"`)

func head(_ string, text []byte) (h transcript.Head) {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	o := input.OutlineOf(line)
	if Recognise(o) == "" {
		return h
	}
	h.ID = o.Text("payload", "id")
	h.Started, _ = time.Parse(time.RFC3339Nano, o.Text("payload", "timestamp"))
	if m := parentKey.FindSubmatch(line); m != nil {
		h.Parent = string(m[1])
	}
	return h
}

// indexed is the path of a rollout below the folder that has the index of names.
var indexed = regexp.MustCompile(`^(.*)/(?:archived_)?sessions/`)

// maxIndex is how many bytes of an index are read.
const maxIndex = 16 << 20

// title states the name that a user gave the thread last.
func (t *thread) title() {
	home := indexed.FindStringSubmatch(filepath.ToSlash(t.file.Path))
	if home == nil {
		return
	}
	r, err := (transcript.File{Path: filepath.Join(filepath.FromSlash(home[1]), "session_index.jsonl")}).Open()
	if err != nil {
		return
	}
	defer r.Close()
	var title []byte
	var at time.Time
	for in := input.NewScanner(io.LimitReader(r, maxIndex), input.SettingsOf()); in.Scan(); {
		if !bytes.Contains(in.Line().Text, []byte(t.Session)) {
			continue
		}
		o, err := object.Parse(in.Line().Text)
		if err == nil && o.String("id") == t.Session && o.String("thread_name") != "" {
			title, at = bytes.Clone(o.Raw("thread_name")), o.Time("updated_at")
		}
	}
	t.d.Fact(t.Session, "title", title, at)
}
