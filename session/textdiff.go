package session

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
	// Cut says that Hunks or the comparison stop at a bound: DiffOptions.Text, or 1 MiB of a text.
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
	// Together they are Text. Lines of "-" and "+" with Words come in one order: the n-th of each belong together.
	Words []DiffWord `json:"words,omitempty"`
}

// DiffWord is a piece of a line.
type DiffWord struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}
