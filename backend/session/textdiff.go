package session

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// TextDiff is the difference of two texts by lines, and within lines by words.
type TextDiff struct {
	// Name of what it is: user, reply, thinking, the name of a section or tool; may be empty.
	Name string `json:"name,omitempty"`
	// Change is added, removed or changed.
	Change string `json:"change"`
	// Before and After are the sizes of the texts in bytes.
	Before int64 `json:"before_bytes"`
	After  int64 `json:"after_bytes"`
	// Hunks are the stretches that differ, with three lines around them.
	Hunks []TextHunk `json:"hunks,omitempty"`
	// Cut says that Hunks end at DiffOptions.Text or DiffOptions.Total, or that only the first MiB of a text was compared.
	Cut bool `json:"cut,omitempty"`
	// Coarse says that more than a hundred lines differ: lines that both have in the midst of them may be told as removed and added.
	Coarse bool `json:"coarse,omitempty"`
	// Digests says that the texts are not here, and that their digests differ: BlockA and BlockB name them.
	Digests bool   `json:"digests,omitempty"`
	BlockA  string `json:"block_a,omitempty"`
	BlockB  string `json:"block_b,omitempty"`
}

// TextHunk is a stretch of lines.
type TextHunk struct {
	// A and B are the numbers of its first lines, from 1; 0 where that side has none of it.
	A     int        `json:"a"`
	B     int        `json:"b"`
	Lines []DiffLine `json:"lines"`
}

// DiffLine is a line of a hunk.
type DiffLine struct {
	// Op is "=" for a line of both, "-" of A only, "+" of B only. Lines removed stand before those added in their place.
	Op   string `json:"op"`
	Text string `json:"text"` // without its end
	// Words are the pieces of a line that stands in the place of a similar one of the other side: "=" of both, else of this side only.
	// Together they are Text. Of the lines of a hunk the n-th "-" and the n-th "+" with Words belong together.
	Words []DiffWord `json:"words,omitempty"`
}

// DiffWord is a piece of a line.
type DiffWord struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// Words of DiffLine.Op and DiffWord.Op.
const (
	DiffEqual   = "="
	DiffRemoved = "-"
	DiffAdded   = "+"
)

const (
	// maxDiffText bounds how much of a text is compared.
	maxDiffText = 1 << 20
	// maxDiffLine bounds the lines that are compared by words.
	maxDiffLine = 64 << 10
	// exactDiff is how many changes lcs finds the fewest for; more are told coarsely. It is what makes it linear.
	exactDiff = 100
	// hunkContext is how many lines of both stand around what differs.
	hunkContext = 3
)

// diffText compares two texts. Of room at most is put into Hunks.
func diffText(name, before, after string, room int) TextDiff {
	d := TextDiff{Name: name, Change: changeChanged, Before: int64(len(before)), After: int64(len(after))}
	switch {
	case before == "":
		d.Change = changeAdded
	case after == "":
		d.Change = changeRemoved
	}
	if strings.HasSuffix(before, "\n") && strings.HasSuffix(after, "\n") { // the end of the last line is none of a further one
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	a, cutA := textLines(before)
	b, cutB := textLines(after)
	d.Cut = cutA || cutB
	edits := diffStrings(a, b)
	n := 0
	for _, e := range edits {
		n += e.End - e.Start + e.ReplEnd - e.ReplStart
	}
	d.Coarse = n > exactDiff
	h := hunker{d: &d, a: a, b: b, room: room}
	for len(edits) > 0 {
		k := 1 // how many edits stand in one hunk
		for k < len(edits) && edits[k].Start-edits[k-1].End <= 2*hunkContext {
			k++
		}
		if !h.hunk(edits[:k]) {
			break
		}
		edits = edits[k:]
	}
	return d
}

// diffStrings returns what to take from a and what to put there to make b. Turned round, it is the same: of several answers the one
// of the two in a fixed order is given.
func diffStrings(a, b []string) []lcs.Diff {
	n := 0 // what both begin with, and end with, costs nothing
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	end := 0
	for end < len(a)-n && end < len(b)-n && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	a, b = a[n:len(a)-end], b[n:len(b)-end]
	var edits []lcs.Diff
	switch {
	case len(a)+len(b) == 0:
		return nil
	case len(a) == 0 || len(b) == 0 || len(a) == 1 && len(b) == 1:
		edits = []lcs.Diff{{Start: 0, End: len(a), ReplStart: 0, ReplEnd: len(b)}}
	case slices.Compare(a, b) <= 0:
		edits = lcs.DiffLines(a, b)
	default:
		edits = lcs.DiffLines(b, a)
		for i, e := range edits {
			edits[i] = lcs.Diff{Start: e.ReplStart, End: e.ReplEnd, ReplStart: e.Start, ReplEnd: e.End}
		}
	}
	for i := range edits {
		e := &edits[i]
		e.Start, e.End, e.ReplStart, e.ReplEnd = e.Start+n, e.End+n, e.ReplStart+n, e.ReplEnd+n
	}
	return edits
}

// textLines returns the lines of a text without their ends, or of its beginning.
func textLines(text string) (lines []string, cut bool) {
	if len(text) > maxDiffText {
		text, cut = text[:maxDiffText], true
		if i := strings.LastIndexByte(text, '\n'); i > 0 {
			text = text[:i]
		}
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if text == "" {
		return nil, cut
	}
	return strings.Split(text, "\n"), cut
}

// hunker makes the hunks of one text.
type hunker struct {
	d    *TextDiff
	a, b []string
	room int
}

// hunk adds one for edits that stand close to each other. It returns false when the room is used up.
func (h *hunker) hunk(edits []lcs.Diff) bool {
	first := edits[0]
	lead := min(hunkContext, first.Start, first.ReplStart)
	hunk := TextHunk{A: first.Start - lead + 1, B: first.ReplStart - lead + 1}
	at := first.Start - lead
	for _, e := range edits {
		h.equal(&hunk, at, e.Start)
		h.replace(&hunk, h.a[e.Start:e.End], h.b[e.ReplStart:e.ReplEnd])
		at = e.End
	}
	h.equal(&hunk, at, min(at+hunkContext, len(h.a)))
	if !slices.ContainsFunc(hunk.Lines, func(l DiffLine) bool { return l.Op != DiffAdded }) {
		hunk.A = 0
	}
	if !slices.ContainsFunc(hunk.Lines, func(l DiffLine) bool { return l.Op != DiffRemoved }) {
		hunk.B = 0
	}
	if len(hunk.Lines) > 0 {
		h.d.Hunks = append(h.d.Hunks, hunk)
	}
	return h.room > 0
}

func (h *hunker) equal(hunk *TextHunk, from, to int) {
	for _, l := range h.a[from:to] {
		h.put(hunk, DiffLine{Op: DiffEqual, Text: l})
	}
}

// replace puts lines that stand in each other's places. The room is shared by both sides, so that one does not hide the other.
func (h *hunker) replace(hunk *TextHunk, removed, added []string) {
	wordsA, wordsB := make([][]DiffWord, len(removed)), make([][]DiffWord, len(added))
	if h.room > 0 {
		likeLines(removed, added, wordsA, wordsB)
	}
	put := func(op string, lines []string, words [][]DiffWord, room int) {
		after := h.room - room
		h.room = room
		for i, l := range lines {
			h.put(hunk, DiffLine{Op: op, Text: l, Words: words[i]})
		}
		h.room = max(0, h.room) + after
	}
	size := func(lines []string) (n int) {
		for _, l := range lines {
			n += len(l) + 1
		}
		return n
	}
	all := h.room
	put(DiffRemoved, removed, wordsA, min(size(removed), max(all/2, all-size(added))))
	put(DiffAdded, added, wordsB, min(size(added), max(all/2, all-size(removed)), h.room))
}

// maxLikePairs bounds how many pairs of lines are looked at to find those that are alike.
const maxLikePairs = 64

// maxLikeLines bounds how many lines of a stretch are compared by words.
const maxLikeLines = 200

// likeLines puts the words of lines that are alike into a and b, pair by pair in their order. In long stretches the first line is taken
// with the first, and so on.
func likeLines(removed, added []string, a, b [][]DiffWord) {
	if len(removed)*len(added) > maxLikePairs {
		for i := range min(len(removed), len(added), maxLikeLines) {
			a[i], b[i], _ = diffWords(removed[i], added[i])
		}
		return
	}
	turned := slices.Compare(removed, added) > 0 // turned round, it is the same
	x, y := removed, added
	if turned {
		x, y = added, removed
	}
	like := make([][]int, len(x)+1) // the most that lines from i and j on have in common
	for i := range like {
		like[i] = make([]int, len(y)+1)
	}
	common := make([][]int, len(x))
	for i := len(x) - 1; i >= 0; i-- {
		common[i] = make([]int, len(y))
		for j := len(y) - 1; j >= 0; j-- {
			_, _, common[i][j] = diffWords(x[i], y[j])
			like[i][j] = max(like[i+1][j], like[i][j+1])
			if n := common[i][j]; n > 0 {
				like[i][j] = max(like[i][j], n+like[i+1][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(x) && j < len(y); {
		switch n := common[i][j]; {
		case n > 0 && like[i][j] == n+like[i+1][j+1]:
			at, to := i, j
			if turned {
				at, to = j, i
			}
			a[at], b[to], _ = diffWords(removed[at], added[to])
			i, j = i+1, j+1
		case like[i][j] == like[i+1][j]:
			i++
		default:
			j++
		}
	}
}

// put adds a line, or its beginning where the room ends.
func (h *hunker) put(hunk *TextHunk, l DiffLine) {
	if h.room <= 0 {
		h.d.Cut = true
		return
	}
	if h.room -= len(l.Text) + 1; h.room < 0 {
		n := len(l.Text) + 1 + h.room
		for n > 0 && n < len(l.Text) && !utf8.RuneStart(l.Text[n]) {
			n--
		}
		if n < len(l.Text) {
			l.Text, l.Words, h.d.Cut = l.Text[:n], nil, true
		}
	}
	hunk.Lines = append(hunk.Lines, l)
}

// diffWords returns the pieces of two lines, and how many bytes of words they have in common; none when that is little.
func diffWords(before, after string) (a, b []DiffWord, common int) {
	if len(before) > maxDiffLine || len(after) > maxDiffLine {
		return nil, nil, 0
	}
	x, y := textWords(before), textWords(after)
	var edits []lcs.Diff
	for _, e := range diffStrings(x, y) {
		// Between two edits that nothing but blanks stand between, these change too.
		if n := len(edits); n > 0 && blank(x[edits[n-1].End:e.Start]) {
			edits[n-1].End, edits[n-1].ReplEnd = e.End, e.ReplEnd
			continue
		}
		edits = append(edits, e)
	}
	size := func(words []string) (n int) {
		for _, w := range words {
			n += len(w)
		}
		return n
	}
	i, atA, atB := 0, 0, 0
	put := func(l *[]DiffWord, op, line string, at *int, n int) {
		if n > 0 {
			*l = append(*l, DiffWord{op, line[*at : *at+n]})
			*at += n
		}
	}
	for _, e := range append(edits, lcs.Diff{Start: len(x), End: len(x), ReplStart: len(y), ReplEnd: len(y)}) {
		for _, w := range x[i:e.Start] {
			if w[0] != ' ' && w[0] != '\t' {
				common += len(w)
			}
		}
		same := size(x[i:e.Start])
		put(&a, DiffEqual, before, &atA, same)
		put(&b, DiffEqual, after, &atB, same)
		put(&a, DiffRemoved, before, &atA, size(x[e.Start:e.End]))
		put(&b, DiffAdded, after, &atB, size(y[e.ReplStart:e.ReplEnd]))
		i = e.End
	}
	if 3*common < max(len(before), len(after)) {
		return nil, nil, 0
	}
	return a, b, common
}

func blank(words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return strings.TrimSpace(w) != "" })
}

// textWords parts a line into words, stretches of blanks, and other characters one by one.
func textWords(line string) []string {
	kind := func(r rune) int {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '_':
			return 1
		case unicode.IsSpace(r):
			return 2
		}
		return 0
	}
	words := make([]string, 0, len(line)/3+1)
	start, last := 0, 0
	for i, r := range line {
		k := kind(r)
		if i > start && (k == 0 || k != last) {
			words = append(words, line[start:i])
			start = i
		}
		last = k
	}
	if start < len(line) {
		words = append(words, line[start:])
	}
	return words
}
