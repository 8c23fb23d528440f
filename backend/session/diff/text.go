package diff

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Text is the difference of two texts by lines, and within lines by words.
type Text struct {
	// Before and After are the sizes of the texts in bytes.
	Before int64 `json:"before_bytes"`
	After  int64 `json:"after_bytes"`
	// Removed and Added are how many lines only A has and only B has.
	Removed int `json:"removed,omitempty"`
	Added   int `json:"added,omitempty"`
	// Hunks are the stretches that differ, with three lines of context.
	Hunks []Hunk `json:"hunks,omitempty"`
	// Cut reports that lines are left out: beyond 64 KiB of one text, 16 MiB of all, or the first MiB of what is
	// compared.
	Cut bool `json:"cut,omitempty"`
	// Coarse reports that more than a hundred lines differ: lines in between that both have may be among those removed
	// and added.
	Coarse bool `json:"coarse,omitempty"`
}

// Hunk is a stretch of lines.
type Hunk struct {
	// A and B are the numbers of the first lines, from 1; 0 on a side that has no line of the hunk.
	A     int    `json:"a"`
	B     int    `json:"b"`
	Lines []Line `json:"lines"`
}

// Line is a line of a hunk.
type Line struct {
	// Op is Equal, Removed or Added. Removed lines are before those added in their place.
	Op   string `json:"op"`
	Text string `json:"text"` // without its end
	// Words are the pieces of a line that replaces a similar one: Equal, or of this side only. Of the lines of a hunk,
	// the n-th removed line with words belongs to the n-th added line with words.
	Words []Word `json:"words,omitempty"`
}

// Word is a piece of a line.
type Word struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// Values of Line.Op and Word.Op.
const (
	Equal   = "="
	Removed = "-"
	Added   = "+"
)

const (
	maxText   = 1 << 20 // bytes of a text that are compared
	maxAlike  = 8       // lines that are tried to find a similar one
	coarse    = 100     // changes for which lcs finds the shortest difference; it approximates for more
	contextOf = 3       // lines around a change
)

// text compares two texts within the bounds of the comparison.
func (d *differ) text(before, after string) *Text {
	room := min(textBound, d.room)
	t, left := compareTexts(before, after, room)
	d.room -= room - left
	return t
}

// compareTexts compares two texts. The lines of the result hold at most room bytes; left is what they do not use.
func compareTexts(before, after string, room int) (t *Text, left int) {
	t = &Text{Before: int64(len(before)), After: int64(len(after))}
	if strings.HasSuffix(before, "\n") && strings.HasSuffix(after, "\n") {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	a, cutA := lines(before)
	b, cutB := lines(after)
	list := edits(a, b)
	for _, e := range list {
		t.Removed, t.Added = t.Removed+e.End-e.Start, t.Added+e.ReplEnd-e.ReplStart
	}
	t.Coarse = t.Removed+t.Added > coarse
	for len(list) > 0 && room > 0 {
		k := 1 // edits in one hunk
		for k < len(list) && list[k].Start-list[k-1].End <= 2*contextOf {
			k++
		}
		room = t.hunk(a, b, list[:k], room)
		list = list[k:]
	}
	t.Cut = t.Cut || cutA || cutB || len(list) > 0
	return t, max(room, 0)
}

// edits returns what to replace in a to make b. It is symmetric: edits(b, a) mirrors edits(a, b).
func edits(a, b []string) []lcs.Diff {
	mirror := slices.Compare(a, b) > 0
	if mirror {
		a, b = b, a
	}
	list := lcs.DiffLines(a, b)
	for i, e := range list {
		if mirror {
			list[i] = lcs.Diff{Start: e.ReplStart, End: e.ReplEnd, ReplStart: e.Start, ReplEnd: e.End}
		}
	}
	return list
}

// lines splits a text, or the beginning of a long one.
func lines(text string) (lines []string, cut bool) {
	if len(text) > maxText {
		text, cut = text[:maxText], true
		text = strings.ToValidUTF8(text[:max(strings.LastIndexByte(text, '\n'), 0)], "\uFFFD")
	}
	if text == "" {
		return nil, cut
	}
	return strings.Split(text, "\n"), cut
}

// hunk adds a hunk for edits that are close together, and returns the room that is left.
func (t *Text) hunk(a, b []string, list []lcs.Diff, room int) int {
	lead := min(contextOf, list[0].Start, list[0].ReplStart)
	at := list[0].Start - lead
	h := Hunk{A: at + 1, B: list[0].ReplStart - lead + 1}
	put := func(op string, lines []string, words [][]Word) {
		for i, text := range lines {
			l := Line{Op: op, Text: text}
			switch {
			case room <= 0:
				t.Cut = true
				return
			case len(text) > room:
				l.Text, t.Cut = strings.ToValidUTF8(text[:room], ""), true
			case words != nil:
				l.Words = words[i]
			}
			h.Lines = append(h.Lines, l)
			room -= len(text) + 1
		}
	}
	for _, e := range list {
		gone, come := a[e.Start:e.End], b[e.ReplStart:e.ReplEnd]
		wordsA, wordsB := alike(gone, come)
		put(Equal, a[at:e.Start], nil)
		put(Removed, gone, wordsA)
		put(Added, come, wordsB)
		at = e.End
	}
	put(Equal, a[at:min(at+contextOf, len(a))], nil)
	only := func(op string) bool {
		return !slices.ContainsFunc(h.Lines, func(l Line) bool { return l.Op != op })
	}
	switch {
	case only(Added):
		h.A = 0
	case only(Removed):
		h.B = 0
	}
	t.Hunks = append(t.Hunks, h)
	return room
}

// alike finds lines that replace similar ones, in their order, and returns their words.
func alike(removed, added []string) (a, b [][]Word) {
	a, b = make([][]Word, len(removed)), make([][]Word, len(added))
	next := 0
	for i := range removed {
		for j := next; j < min(next+maxAlike, len(added)); j++ {
			if a[i], b[j] = words(removed[i], added[j]); a[i] != nil {
				next = j + 1
				break
			}
		}
	}
	return a, b
}

// words returns the pieces of two lines: what both begin and end with, up to whole words, and what differs between. It
// returns none where that is little in common.
func words(before, after string) (a, b []Word) {
	head, tail, most := 0, 0, min(len(before), len(after))
	for head < most && before[head] == after[head] {
		head++
	}
	for head > 0 && (inWord(before, head) || inWord(after, head)) {
		head--
	}
	for tail < most-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	for tail > 0 && (inWord(before, len(before)-tail) || inWord(after, len(after)-tail)) {
		tail--
	}
	if 3*(head+tail) < max(len(before), len(after)) {
		return nil, nil
	}
	pieces := func(op, line string) []Word {
		l := []Word{{Equal, line[:head]}, {op, line[head : len(line)-tail]}, {Equal, line[len(line)-tail:]}}
		return slices.DeleteFunc(l, func(w Word) bool { return w.Text == "" })
	}
	return pieces(Removed, before), pieces(Added, after)
}

// inWord reports whether text[i:] begins within a word, or within a character.
func inWord(text string, i int) bool {
	letter := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }
	l, _ := utf8.DecodeLastRuneInString(text[:i])
	r, _ := utf8.DecodeRuneInString(text[i:])
	return i < len(text) && !utf8.RuneStart(text[i]) || letter(l) && letter(r)
}
