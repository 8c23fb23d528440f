package main

import (
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/inspect"
)

// showCommand is the command line that shows something of what is looked at, as it is typed; the zero value is of the
// database that is looked into when none is named.
type showCommand struct {
	flags []string // with their values
	file  string   // that stands before the address, if any
	once  bool     // what is looked at cannot be read a second time
}

// showFiles is the one that shows what is in files.
func showFiles(files []string, from, tenant string) showCommand {
	var c showCommand
	c.flag("--tenant", tenant)
	if from != auto {
		c.flag("--from", from)
	}
	for _, f := range files {
		c.once = c.once || !isRegular(f)
		if strings.HasPrefix(f, "-") {
			f = "./" + f // no flag
		}
		if len(files) > 1 {
			c.flag("--file", f)
		} else {
			c.file = f
		}
	}
	return c
}

// flag adds a flag that has a value.
func (c *showCommand) flag(name, value string) {
	if value != "" {
		c.flags = append(c.flags, name, value)
	}
}

// of is the command line that shows that address; empty when there is none, because the input is gone. Words may hold
// what a terminal acts on: inspect prints no such line.
func (c showCommand) of(address string) string {
	if c.once {
		return ""
	}
	words := slices.Clone(c.flags)
	if strings.HasPrefix(address, "-") {
		words = append(words, "--") // what follows is no flag
	}
	if c.file != "" {
		words = append(words, c.file)
	}
	return "otelagent show " + inspect.ShellWords(append(words, address)...)
}
