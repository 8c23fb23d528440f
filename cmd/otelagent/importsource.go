package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/transcript"
)

// agentFiles are the sessions of one agent.
type agentFiles struct {
	dialect  dialects.Dialect
	finder   transcript.Finder
	families []transcript.Family
	said     map[string]bool     // what was left out
	todo     []transcript.Family // those that import is to read
	to       *delivery           // of import; nil before it reads any
}

// agents returns those that keep their sessions: all, or the ones of these names.
func agents(names ...string) (list []*agentFiles) {
	for _, d := range dialects.All() {
		if d.Layout != nil && (len(names) == 0 || slices.Contains(names, d.Name)) {
			list = append(list, &agentFiles{dialect: d, finder: transcript.Finder{Layout: *d.Layout}, said: map[string]bool{}})
		}
	}
	return list
}

func agentNames() string {
	var names []string
	for _, f := range agents() {
		names = append(names, f.dialect.Name)
	}
	return strings.Join(names, ", ")
}

// find looks for sessions in files and folders, and names what is left out, once. A link to one of these is the user's
// own.
func (f *agentFiles) find(a *app, paths ...string) {
	var there []string
	for _, path := range paths {
		if path, err := filepath.EvalSymlinks(path); err == nil {
			there = append(there, path)
		}
	}
	var problems []error
	f.families, problems = f.finder.Find(there...)
	for _, err := range problems {
		if text := err.Error(); !f.said[text] {
			f.said[text] = true
			a.say("%s: left out: %s", f.dialect.Name, text)
		}
	}
}

func (f *agentFiles) source(x transcript.Family) source {
	return source{name: x.Files[0].Path, dialect: f.dialect, family: &x, written: extentOf(x).last}
}

// transcripts returns the sessions of coding agents in a folder, or in a file that is compressed: one source a family.
// Of other names it returns none.
func (o *sendOptions) transcripts(a *app, name string) (list []source, err error) {
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() && filepath.Ext(name) != ".zst" {
		return nil, err
	}
	var only []string
	if o.From != auto && o.From != "" {
		only = []string{o.From}
	}
	for _, f := range agents(only...) {
		f.find(a, name)
		for _, x := range f.families {
			list = append(list, f.source(x))
		}
		if len(f.families) > 0 {
			o.say(a, "%s: %s (%s)", name, f.dialect.Name, count(extentOf(f.families...).sessions, "session"))
		}
	}
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("%s has no sessions of %s", name, agentNames())
	case o.Follow:
		return nil, fmt.Errorf("--follow is for a file of lines; 'otelagent import --follow' reads the folders of agents")
	}
	return list, nil
}

// companions makes a transcript on its own a family with the files of its session, such as those of its sub-agents.
func (s *source) companions(a *app) {
	for _, f := range agents(s.dialect.Name) {
		if s.database {
			f.families = []transcript.Family{{Files: []transcript.File{{Path: s.name, Head: transcript.Head{ID: s.name}}}}}
		} else if s.grows == nil && isRegular(s.name) {
			f.find(a, s.name)
		}
		if len(f.families) == 1 {
			s.family = &f.families[0]
		}
	}
}
