package transcript

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/otelagent/otelagent/dialects/input"
)

// Bounds of what is read of a folder.
const (
	maxFolder = 12 // levels
	maxAbove  = 64 // parents of a file that are read before it, whenever these began
	maxWindow = 64 << 20
	maxHead   = 8 << 20 // bytes of a file that are read to find its family
	// MaxSide is the size of the largest side output that File.Side returns.
	MaxSide = 8 << 20
)

// maxFiles bounds the transcripts of a Finder. Tests lower it.
var maxFiles = 1 << 20

// Agent says where an agent keeps its sessions, how their files belong together, and how they are read.
type Agent struct {
	// Dialect is the name of the dialect of the files.
	Dialect string
	// Env is the variable that moves the folder of the agent, Below are the folders in that which may hold sessions.
	// Home are those below the user's folder without it.
	Env         string
	Below, Home []string
	// Names matches paths, with slashes, of transcripts. Other files are never opened.
	Names *regexp.Regexp
	// NextTo is the pattern of names of files next to a session that may be those of its sub-agents; empty without any.
	NextTo string
	// Head returns what the path and the first 64 KiB of a file say; zero for one that is no transcript. Where these say
	// neither Started nor Keys, it is called again with the first 8 MiB: a prompt may hold images. If Recognise is set,
	// Head is called for files for which it returns a reason.
	Head      func(path string, head []byte, o input.Outline) Head
	Recognise func(input.Outline) string
	// Open returns what reads a file of a family, of which it reports the records to the Decoder: lines or documents, or,
	// if it is set, a function that reads a file which has none, such as a database. The zero File is an input without a
	// name.
	Open func(*Decoder, File) (input.Reader, func() error)
}

// Roots returns the folders in which the agent may keep its sessions. They need not exist.
func (a Agent) Roots(env func(string) string, home string) (roots []string) {
	folders := a.Home
	if moved := env(a.Env); moved != "" {
		home, folders = moved, a.Below
	}
	for _, folder := range folders {
		roots = append(roots, filepath.Join(home, filepath.FromSlash(folder)))
	}
	return roots
}

// Head is what the beginning of a file says about it.
type Head struct {
	// ID names the session, or the sub-agent. Parent is the ID of the file that it belongs to or was forked from.
	ID, Parent string
	// Keys are further names: files that share one, or an ID, or name one as their parent, are a family.
	Keys []string
	// Started is when the file says that it begins; of two without a parent the one with the earlier time is read first.
	Started time.Time
	// Part says that ID names no session, but a part of one, such as a sub-agent, or a database, which holds Sessions.
	Part     bool
	Sessions []string
	// Folder is the session's own folder, which holds its companions and side outputs; empty where there is none.
	Folder string
	// Err is why the rest of the file cannot be read.
	Err error
}

// File is one file of a family. The log of a database belongs to its size and time.
type File struct {
	Path     string
	Size     int64
	Modified time.Time
	// Since is when the file was read before. A database is read from there; of other files it says nothing.
	Since time.Time
	Head
}

// Family is a session, its companions, and the files that share its history, in the order in which they are read:
// parents before children, older ones first.
type Family struct{ Files []File }

// private are paths of files that hold settings, credentials or prompts of all sessions. They are never opened.
var private = regexp.MustCompile(
	`(?i)(^|/)(history\.jsonl|logs\.json|journal\.jsonl|settings|credential|auth|config|token)[^/]*$`)

// Finder finds the families of an agent, any number of times. It opens no file again that is as it was, and no
// transcript that has grown.
type Finder struct {
	Agent Agent
	files map[string]File // as they were last; those that are no transcripts have no ID
}

// Find returns the families of the files and folders at paths, and an error for each that was not read. Of a folder it
// reads all levels. Companions of a file are found in its own folder and next to it. It follows no symbolic link.
func (l *Finder) Find(paths ...string) ([]Family, []error) {
	found := map[string]File{}
	var problems []error
	walk := func(root string) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			name := filepath.ToSlash(path)
			switch {
			case len(found) >= maxFiles:
				problems = append(problems, fmt.Errorf("%s: %d transcripts are found; the rest is not read", root, maxFiles))
				return fs.SkipAll
			case errors.Is(err, fs.ErrNotExist): // a session without a folder, or a file that was removed meanwhile
				return nil
			case err != nil:
			case d.IsDir() && strings.Count(path[len(root):], string(filepath.Separator)) > maxFolder:
				return fs.SkipDir
			case d.Type().IsRegular() && l.Agent.Names.MatchString(name) && !private.MatchString(name):
				var f File
				if f, err = l.file(path); err == nil {
					found[path] = f
				}
			}
			if err != nil {
				problems = append(problems, inFile(path, err))
			}
			return nil
		})
	}
	for _, path := range paths {
		walk(path)
	}
	asked := maps.Clone(found)
	for _, path := range paths {
		if f, isFile := asked[path]; isFile && f.Folder != "" {
			walk(f.Folder)
			near, _ := fs.Glob(os.DirFS(filepath.Dir(f.Path)), l.Agent.NextTo)
			for _, name := range near {
				walk(filepath.Join(filepath.Dir(f.Path), name))
			}
		}
	}
	l.files = found
	return slices.DeleteFunc(group(found), func(f Family) bool { // those of other sessions
		return !slices.ContainsFunc(f.Files, func(f File) bool { return asked[f.Path].Path != "" })
	}), problems
}

// inFile returns an error that names its file, once.
func inFile(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// file returns a file with what its beginning says.
func (l *Finder) file(path string) (File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return File{}, err
	}
	f := File{Path: path, Size: info.Size(), Modified: info.ModTime()}
	if log, err := os.Lstat(path + "-wal"); err == nil && filepath.Ext(path) == ".db" {
		f.Size, f.Modified = f.Size+log.Size(), input.Later(f.Modified, log.ModTime())
	}
	if was := l.files[path]; was.Path != "" && was.Size == f.Size && was.Modified.Equal(f.Modified) ||
		!was.Started.IsZero() && was.Size <= f.Size {
		f.Head = was.Head
		return f, nil
	}
	r, err := f.Open()
	if err != nil {
		return File{}, err
	}
	defer r.Close()
	var head bytes.Buffer
	for _, size := range [...]int64{input.HeadSize, maxHead} {
		_, err := head.ReadFrom(io.LimitReader(r, size-int64(head.Len())))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // an archive may be cut
			return File{}, err
		}
		o := input.OutlineOf(head.Bytes())
		if recognise := l.Agent.Recognise; recognise == nil || recognise(o) != "" {
			f.Head = l.Agent.Head(path, head.Bytes(), o)
		}
		if !f.Started.IsZero() || f.Keys != nil || f.Err != nil || int64(head.Len()) < size {
			break
		}
	}
	return f, f.Err
}

// Find is [Finder.Find], once.
func Find(a Agent, paths ...string) ([]Family, []error) { return (&Finder{Agent: a}).Find(paths...) }

// group divides files into families: those that share a name, also by way of others.
func group(files map[string]File) []Family {
	all := slices.SortedFunc(maps.Values(files), func(a, b File) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Path, b.Path))
	})
	all = slices.DeleteFunc(all, func(f File) bool { return f.ID == "" })
	parents := map[string]string{} // by ID, of the first file that has it
	for _, f := range slices.Backward(all) {
		parents[f.ID] = f.Parent
	}
	above := func(f File) (n int) { // in a loop it does not matter how many
		for id, met := parents[f.ID]; met && n < maxAbove; n++ {
			id, met = parents[id]
		}
		return n
	}
	slices.SortStableFunc(all, func(a, b File) int { return cmp.Compare(above(a), above(b)) })
	near := make([]int, len(all)) // an earlier file of the family; of its first one that itself
	first := func(i int) int {
		for near[i] != i {
			near[i] = near[near[i]]
			i = near[i]
		}
		return i
	}
	named := map[string]int{} // the last file with a name
	for i, f := range all {
		near[i] = i
		for _, name := range append([]string{f.ID, f.Parent}, f.Keys...) {
			if other, met := named[name]; met && name != "" {
				a, b := first(i), first(other)
				near[max(a, b)] = min(a, b)
			}
			named[name] = i
		}
	}
	families := make([]Family, len(all))
	for i, f := range all {
		of := &families[first(i)]
		of.Files = append(of.Files, f)
	}
	return slices.DeleteFunc(families, func(f Family) bool { return f.Files == nil })
}

// Open opens a file. It reads the content of a .zst file. A symbolic link is an error.
func (f File) Open() (io.ReadCloser, error) {
	root, err := os.OpenRoot(filepath.Dir(f.Path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := openIn(root, filepath.Base(f.Path))
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(f.Path, ".zst") {
		return file, nil
	}
	// A decoder of one goroutine, the caller's, needs no Close.
	z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	return struct {
		io.Reader
		io.Closer
	}{z, file}, err
}

// Side returns a side output of the session, nil where it is not readable: a file below the session's own folder, of at
// most MaxSide bytes, no symbolic link. Of a path the part after the name of that folder counts, so that files which
// were moved are found.
func (f File) Side(path string) []byte {
	name := filepath.ToSlash(path)
	if _, behind, ok := strings.Cut("/"+name, "/"+filepath.Base(f.Folder)+"/"); ok {
		name = behind
	}
	root, err := os.OpenRoot(f.Folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	if text := ReadIn(root, name, MaxSide); len(text) <= MaxSide {
		return text
	}
	return nil
}

// ReadIn returns a file below a folder, nil where there is none, or a symbolic link. Of one of more than most bytes it
// returns one byte more than these.
func ReadIn(root *os.Root, name string, most int) []byte {
	file, err := openIn(root, name)
	if err != nil {
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, int64(most)+1))
	if err != nil {
		return nil
	}
	return text
}

// openIn opens a regular file below a folder.
func openIn(root *os.Root, name string) (*os.File, error) {
	before, err := root.Lstat(name)
	if err == nil && !before.Mode().IsRegular() {
		err = errors.New("no regular file")
	}
	if err != nil {
		return nil, err
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	if now, err := file.Stat(); err != nil || !os.SameFile(before, now) {
		return nil, errors.Join(errors.New("replaced meanwhile"), err, file.Close())
	}
	return file, nil
}
