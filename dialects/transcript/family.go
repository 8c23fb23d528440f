package transcript

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
)

// Bounds of what is read of a folder.
const (
	maxFiles  = 1 << 20
	maxFolder = 12 // levels
	maxWindow = 64 << 20
	// MaxSide is the size of the largest side output that File.Side returns.
	MaxSide = 8 << 20
)

// Layout says where an agent keeps its sessions, and how their files belong together.
type Layout struct {
	// Dialect is the name of the dialect that reads the files.
	Dialect string
	// Roots returns the folders in which the agent may keep its sessions. They need not exist.
	Roots func(env func(string) string, home string) []string
	// Is reports whether a path, with slashes, has the name of a transcript. Other files are never opened.
	Is func(path string) bool
	// Head returns what the path and the first 64 KiB of a file say; zero for one that is no transcript.
	Head func(path string, head []byte) Head
}

// Head is what the beginning of a file says about it.
type Head struct {
	// ID names the session, or the sub-agent. Parent is the ID of the file that it belongs to or was forked from.
	ID, Parent string
	// Keys are further names: files that share one, or an ID, or name one as their parent, are a family.
	Keys []string
	// Started is when the file says that it begins. Early puts it before all others of the family.
	Started time.Time
	Early   bool
	// Folder is the session's own folder, which holds its companions and side outputs; empty where there is none.
	Folder string
}

// File is one file of a family.
type File struct {
	Path     string
	Size     int64
	Modified time.Time
	Head
	// Offset is where reading begins, behind what the same Emitter has read before.
	Offset int64
}

// Family is a session, its companions, and the files that share its history, in the order in which they are read:
// parents before children, older ones first.
type Family struct {
	Layout Layout
	Files  []File
}

// Decoder reads the files of a family.
type Decoder interface {
	input.Decoder
	// Next says which file the next call of Events reads.
	Next(File)
}

// FileReader is a Decoder that opens a file itself: a database, or one that names others.
type FileReader interface {
	ReadFile(File) iter.Seq2[event.Event, error]
}

// private are names of files that hold settings, credentials or prompts of all sessions. They are never opened.
var private = []string{"history.jsonl", "logs.json", "journal.jsonl", "settings", "credential", "auth", "config",
	"token"}

// Find returns the families of the files and folders at paths, newest last, and an error for each that was not read. Of
// a folder it reads all levels. Companions of a file are found in its own folder. It follows no symbolic link.
func Find(l Layout, paths ...string) (families []Family, problems []error) {
	files := map[string]File{}
	add := func(path string, info fs.FileInfo) {
		name := strings.ToLower(filepath.Base(path))
		isPrivate := slices.ContainsFunc(private, func(p string) bool { return strings.HasPrefix(name, p) })
		if _, known := files[path]; known || isPrivate || !info.Mode().IsRegular() || !l.Is(filepath.ToSlash(path)) ||
			len(files) == maxFiles {
			return
		}
		f := File{Path: path, Size: info.Size(), Modified: info.ModTime()}
		head, err := f.head()
		if err != nil {
			problems = append(problems, err)
		} else if f.Head = l.Head(path, head); f.ID != "" {
			files[path] = f
		}
	}
	walk := func(root string) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				problems = append(problems, err)
				return nil
			}
			if d.IsDir() && strings.Count(path[len(root):], string(filepath.Separator)) > maxFolder {
				return fs.SkipDir
			}
			if info, err := d.Info(); err == nil && !d.IsDir() {
				add(path, info)
			}
			return nil
		})
	}
	for _, path := range paths {
		path = filepath.Clean(path)
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			problems = append(problems, err)
		case info.IsDir():
			walk(path)
		default:
			add(path, info)
			if f := files[path]; f.Folder != "" {
				if info, err := os.Lstat(f.Folder); err == nil && info.IsDir() {
					walk(f.Folder)
				}
			}
		}
	}
	return group(l, files), problems
}

// group divides files into families.
func group(l Layout, files map[string]File) (families []Family) {
	var all []File
	for _, f := range files {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int {
		switch {
		case a.Early && !b.Early:
			return -1
		case b.Early && !a.Early:
			return 1
		}
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Path, b.Path))
	})
	of, byID := map[string]int{}, map[string]int{} // the first with a name, with an id
	root := make([]int, len(all))
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for i, f := range all {
		root[i] = i
		if _, ok := byID[f.ID]; !ok {
			byID[f.ID] = i
		}
		for _, name := range append([]string{f.ID, f.Parent}, f.Keys...) {
			if j, ok := of[name]; ok && name != "" {
				root[find(i)] = find(j)
			} else {
				of[name] = i
			}
		}
	}
	placed := map[int]bool{}
	byRoot := map[int]int{}
	var place func(i int)
	place = func(i int) { // behind its parent
		if placed[i] {
			return
		}
		placed[i] = true
		if p, ok := byID[all[i].Parent]; ok && !all[i].Early {
			place(p)
		}
		r := find(i)
		if _, ok := byRoot[r]; !ok {
			byRoot[r], families = len(families), append(families, Family{Layout: l})
		}
		f := &families[byRoot[r]]
		f.Files = append(f.Files, all[i])
	}
	for i := range all {
		place(i)
	}
	return families
}

// head returns the first 64 KiB of a file.
func (f File) head() ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	head := make([]byte, input.HeadSize)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return head[:n], nil
}

// Open opens a file at its offset. It reads the content of a .zst file. A symbolic link is an error.
func (f File) Open() (io.ReadCloser, error) {
	before, err := os.Lstat(f.Path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return nil, err
	}
	if now, err := file.Stat(); err != nil || !now.Mode().IsRegular() || !os.SameFile(before, now) {
		_ = file.Close()
		return nil, fmt.Errorf("%s: no regular file", f.Path)
	}
	if strings.HasSuffix(f.Path, ".zst") {
		z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			_ = file.Close()
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		return compressed{z, file}, nil
	}
	if _, err = file.Seek(f.Offset, io.SeekStart); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

type compressed struct {
	*zstd.Decoder
	file *os.File
}

func (c compressed) Close() error {
	c.Decoder.Close()
	return c.file.Close()
}

// Side returns a side output of the session, nil where it is not readable: a file below the session's own folder, of at
// most MaxSide bytes, no symbolic link. Of an absolute path the part behind the name of that folder counts, so that
// files which were moved are found.
func (f File) Side(path string) []byte {
	name := filepath.ToSlash(path)
	if f.Folder == "" {
		return nil
	}
	if below, ok := strings.CutPrefix(name, filepath.ToSlash(f.Folder)+"/"); ok {
		name = below
	} else if own := "/" + filepath.Base(f.Folder) + "/"; filepath.IsAbs(path) {
		_, behind, ok := strings.Cut(name, own)
		if !ok {
			return nil
		}
		name = behind
	}
	if !fs.ValidPath(name) {
		return nil
	}
	root, err := os.OpenRoot(f.Folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	for i := 0; i <= len(name); i++ {
		if i == len(name) || name[i] == '/' {
			info, err := root.Lstat(name[:i])
			if err != nil || !(info.IsDir() && i < len(name)) && !(info.Mode().IsRegular() && info.Size() <= MaxSide) {
				return nil
			}
		}
	}
	text, err := root.ReadFile(name)
	if err != nil || len(text) > MaxSide {
		return nil
	}
	return text
}

// Events reads the files of the family with a decoder that has read no other family.
func (f Family) Events(d Decoder) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, file := range f.Files {
			if !readFile(d, file, yield) {
				return
			}
		}
	}
}

// readFile reads one file. An error that is none of a line is wrapped, and the next file is read.
func readFile(d Decoder, file File, yield func(event.Event, error) bool) bool {
	d.Next(file)
	var events iter.Seq2[event.Event, error]
	if own, ok := d.(FileReader); ok {
		events = own.ReadFile(file)
	}
	if events == nil {
		r, err := file.Open()
		if err != nil {
			return yield(nil, err)
		}
		defer r.Close()
		events = d.Events(r)
	}
	for ev, err := range events {
		if !yield(ev, err) {
			return false
		}
	}
	return true
}
