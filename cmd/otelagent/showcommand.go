package main

import (
	"strings"
	"unicode"
)

// showCommand is the command line that shows something of what is looked at, as it is typed; the zero value is of the database that is looked
// into when none is named.
type showCommand struct {
	words []string // between 'otelagent show' and the address
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
			c.words = append(c.words, f)
		}
	}
	return c
}

// flag adds a flag that has a value.
func (c *showCommand) flag(name, value string) {
	if value != "" {
		c.words = append(c.words, name, value)
	}
}

// of is the command line that shows that address; empty when there is none, because the input is gone.
func (c showCommand) of(address string) string {
	if c.once {
		return ""
	}
	out := "otelagent show"
	for _, w := range append(c.words[:len(c.words):len(c.words)], address) {
		out += " " + quoted(w)
	}
	return out
}

// quoted is a word as a shell takes it.
func quoted(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:@+=,%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
