package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/transcript"
)

// transcripts returns the sessions of coding agents in a folder, or in a file that is compressed: one source a family.
// Of other names it returns none.
func (o *sendOptions) transcripts(a *app, name string) (list []source, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && filepath.Ext(name) != ".zst" {
		return nil, nil
	}
	if info.IsDir() {
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return nil, err
		}
	}
	for _, d := range dialects.All() {
		if d.Layout == nil || o.From != auto && o.From != "" && o.From != d.Name {
			continue
		}
		families, problems := transcript.Find(*d.Layout, name)
		for _, err := range problems {
			a.say("left out: %v", err)
		}
		for _, f := range families {
			list = append(list, source{name: f.Files[0].Path, dialect: d, family: &f, written: newest(f)})
		}
		if len(families) > 0 {
			o.say(a, "%s: %s (%s)", name, d.Name, count(len(families), "session"))
		}
	}
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("%s has no sessions of %s", name, strings.Join(agentNames(), ", "))
	case o.Follow:
		return nil, fmt.Errorf("--follow is for a file of lines; 'otelagent import --follow' reads the folders of agents")
	}
	return list, nil
}

// companions makes a transcript on its own a family with the files of its session, such as those of its sub-agents.
func (s *source) companions(a *app) {
	switch {
	case s.dialect.Layout == nil || s.family != nil || s.grows != nil || s.name == "-" || !isRegular(s.name):
	case s.database:
		s.family = &transcript.Family{Files: []transcript.File{{Path: s.name, Head: transcript.Head{ID: s.name}}}}
	default:
		families, problems := transcript.Find(*s.dialect.Layout, s.name)
		for _, err := range problems {
			a.say("left out: %v", err)
		}
		if len(families) == 1 {
			s.family = &families[0]
		}
	}
}
