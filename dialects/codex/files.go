package codex

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
)

// Layout says where Codex keeps its rollouts.
var Layout = transcript.Layout{
	Dialect: Dialect,
	Roots: func(env func(string) string, home string) []string {
		folder := env("CODEX_HOME")
		if folder == "" {
			folder = filepath.Join(home, ".codex")
		}
		return []string{filepath.Join(folder, "sessions"), filepath.Join(folder, "archived_sessions")}
	},
	Is: func(path string) bool {
		return strings.HasSuffix(path, ".jsonl") || strings.HasSuffix(path, ".jsonl.zst")
	},
	Head: head,
}

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

// name is the name that a user gave a thread, as JSON.
type name struct {
	text []byte
	at   time.Time
}

const (
	index    = "session_index.jsonl"
	maxIndex = 16 << 20 // bytes of an index that are read
)

// name returns the name of a thread, from the index in the folder above those of the rollouts.
func (d *reader) name(id string) name {
	dir := filepath.Dir(d.e.File.Path)
	for dir != filepath.Dir(dir) && filepath.Base(dir) != "sessions" && filepath.Base(dir) != "archived_sessions" {
		dir = filepath.Dir(dir)
	}
	home := filepath.Dir(dir)
	if d.e.File.Path == "" || home == dir {
		return name{}
	}
	names, read := d.names[home]
	if !read {
		names = map[string]name{}
		d.names[home] = names
		r, err := (transcript.File{Path: filepath.Join(home, index)}).Open()
		if err != nil {
			return name{}
		}
		defer r.Close()
		in := input.NewScanner(io.LimitReader(r, maxIndex), input.SettingsOf())
		for in.Scan() {
			if o, err := object.Parse(in.Line().Text); err == nil && o.String("thread_name") != "" {
				names[o.String("id")] = name{bytes.Clone(o.Raw("thread_name")), o.Time("updated_at")}
			}
		}
	}
	return names[id]
}
