package inspect

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// RequestChanges say what changed from one request to another. Their JSON form is told in docs/requests.md.
type RequestChanges struct {
	Format int `json:"format"`
	// Before and After are the addresses of the two.
	Before string `json:"before"`
	After  string `json:"after"`
	// Equal says that nothing changed. It is false where something could not be compared.
	Equal bool `json:"equal"`
	session.RequestDiff
	// Digests are the parts named in Unknown of which the digests tell that they changed.
	Digests []PartChange `json:"digests,omitempty"`

	before, after *Request
}

// PartChange is a part of a request as it was and as it is; nil where there was none.
type PartChange struct {
	Part   string       `json:"part"`
	Before *RequestPart `json:"before,omitempty"`
	After  *RequestPart `json:"after,omitempty"`
}

// CompareRequests says what changed from request a to request b, both of the session t.
func CompareRequests(t session.Tree, a, b *Request) *RequestChanges {
	c := &RequestChanges{
		Format: session.TreeFormat, Before: a.Address, After: b.Address, before: a, after: b,
		RequestDiff: t.DiffRequests(a.request, b.request, t.Blocks),
	}
	told := func(r *Request) bool { return r.request.Params != nil && r.request.Params.Complete }
	for _, part := range c.Unknown {
		was, is, known := partOf(a, part), partOf(b, part), told(a) && told(b)
		if known && (was != nil || is != nil) { // else nothing is known of either
			c.Digests = append(c.Digests, PartChange{part, was, is})
		}
	}
	d := &c.RequestDiff
	for i := range d.Added {
		d.Added[i].New = true
	}
	for i := range d.Changed {
		d.Changed[i].After.New = d.Changed[i].After.Block != d.Changed[i].Before.Block
	}
	c.Equal = len(d.Added)+len(d.Removed)+len(d.Changed)+len(d.Moved)+len(d.System)+len(d.Tools)+len(d.Params)+len(d.Unknown) == 0
	return c
}

// partOf returns the part of a request that a word of RequestDiff.Unknown names.
func partOf(r *Request, part string) *RequestPart {
	switch spans.ProvenanceKind(part) {
	case spans.ProvenanceSystem:
		return r.System
	case spans.ProvenanceTools:
		return r.Tools
	case spans.ProvenanceRest:
		return r.Params
	}
	return nil
}

// partName returns a word of RequestDiff.Unknown in everybody's words.
func partName(part string) string {
	switch spans.ProvenanceKind(part) {
	case spans.ProvenanceSystem:
		return "system prompt"
	case spans.ProvenanceRest:
		return "parameters"
	}
	return Clean(part)
}

// Text writes what changed, for people: messages first, then the system prompt, tools and parameters. The error is the writer's.
func (c *RequestChanges) Text(w io.Writer, o Options) error {
	d := newDrawer(w, o)
	d.field("from", append([]string{Clean(c.Before)}, c.before.size()...)...)
	d.field("to", append([]string{Clean(c.After)}, c.after.size()...)...)
	d.field("messages", c.counts()...)
	for _, k := range c.Compactions {
		d.field("between", "compaction", Clean(string(k.Kind)), fromTo(k.MessagesBefore, k.MessagesAfter, "message"), fromTo(k.InputTokens, k.OutputTokens, "token"))
	}
	for _, part := range c.Unknown {
		if part == "messages" {
			d.field("unknown", "messages: not all are known of both requests")
			continue
		}
		i := slices.IndexFunc(c.Digests, func(p PartChange) bool { return p.Part == part })
		if i < 0 {
			d.field("unknown", partName(part)+": not known of both requests")
		}
	}
	if c.Equal {
		d.field("same", "both requests say the same")
		return d.err
	}
	c.messages(d)
	for _, p := range c.Digests {
		d.blank()
		d.putSegs([]seg{{partName(p.Part), bold}, {" changed; the text is not here", dim}}, d.width)
		d.flush()
		d.part("-", red, p.Before)
		d.part("+", green, p.After)
	}
	c.texts(d, "system prompt", "section of the system prompt", c.System)
	c.texts(d, "tools", "tool", c.Tools)
	if len(c.Params) > 0 {
		d.blank()
		d.put(bold, "parameters")
		d.flush()
	}
	for _, p := range c.Params {
		if p.Before != "" {
			d.diffLine(red, "- "+Clean(p.Key)+": "+Clean(string(p.Before)))
		}
		if p.After != "" {
			d.diffLine(green, "+ "+Clean(p.Key)+": "+Clean(string(p.After)))
		}
	}
	return d.err
}

// counts say how many messages changed.
func (c *RequestChanges) counts() []string {
	if slices.Contains(c.Unknown, "messages") {
		return nil
	}
	out := []string{fmt.Sprintf("the first %d are the same", c.Same)}
	switch c.Same {
	case 0:
		out[0] = "another beginning"
	case 1:
		out[0] = "the first is the same"
	}
	for _, n := range []struct {
		n    int
		what string
	}{{len(c.Added), "added"}, {len(c.Removed), "removed"}, {len(c.Changed), "changed"}, {len(c.Moved), "moved"}} {
		if n.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n.n, n.what))
		}
	}
	return out
}

// messages draws one line for each message that was removed or added, and two for each that changed, by their places.
func (c *RequestChanges) messages(d *drawer) {
	type line struct {
		index, order int
		sign         string
		style        style
		text         string
	}
	var lines []line
	digits := 1
	add := func(order int, sign string, st style, m *session.Message, text string) {
		lines = append(lines, line{m.Position, order, sign, st, text})
		digits = max(digits, len(strconv.Itoa(m.Position)))
	}
	for i := range c.Removed {
		add(0, "-", red, &c.Removed[i], messageText(&c.Removed[i]))
	}
	for i := range c.Changed {
		m := &c.Changed[i]
		was, is := messageText(&m.Before), messageText(&m.After)
		if m.Before.Block == m.After.Block { // what the loop says about the message changed
			was, is = beside(m)
		}
		add(1, "-", red, &m.Before, was)
		lines[len(lines)-1].index = m.After.Position // the two stand together
		add(2, "+", green, &m.After, is)
	}
	for i := range c.Moved {
		m := &c.Moved[i]
		add(3, "~", yellow, &m.After, fmt.Sprintf("was %d · %s", m.Before.Position, messageText(&m.After)))
	}
	for i := range c.Added {
		add(4, "+", green, &c.Added[i], messageText(&c.Added[i]))
	}
	if len(lines) == 0 {
		return
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		removed := func(l line) int { // those of the earlier request have numbers of their own, so they stand first
			if l.order == 0 {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(removed(a), removed(b)), cmp.Compare(a.index, b.index), cmp.Compare(a.order, b.order))
	})
	d.blank()
	d.put(bold, "messages")
	d.flush()
	for _, l := range lines {
		d.put(l.style, cut(l.sign+" "+padLeft(strconv.Itoa(l.index), digits)+"  "+l.text, d.width))
		d.flush()
	}
}

// messageText is a message in one line: where it came from, who speaks, and what is said.
func messageText(m *session.Message) string {
	var out []string
	if s := source(m); s != "" {
		out = append(out, s)
	}
	switch {
	case m.Withheld:
		out = append(out, exact(m.Bytes)+" bytes, not here", Clean(m.Block))
	case m.Missing:
		out = append(out, "did not arrive", Clean(m.Block))
	default:
		said := sayings(m.Body)
		if len(said) == 0 { // such as a reply of nothing but tool calls
			out = append(out, Clean(m.Role), exact(m.Bytes)+" bytes")
		}
		for _, s := range said {
			out = append(out, s.short()+": "+Clean(s.text))
		}
	}
	return strings.Join(out, separator)
}

// beside is what a loop says of a message and not in it, as it was and as it is.
func beside(m *session.MessageChange) (was, is string) {
	var before, after []string
	if x, y := source(&m.Before), source(&m.After); x != y {
		before, after = append(before, cmp.Or(x, "no provenance")), append(after, cmp.Or(y, "no provenance"))
	}
	return strings.Join(before, separator), strings.Join(after, separator)
}

// texts draws changes of texts that have names.
func (c *RequestChanges) texts(d *drawer, title, one string, changes []session.TextChange) {
	for i, t := range changes {
		if i == 0 {
			d.blank()
		}
		head := []seg{{title + " " + t.Change, bold}}
		if t.Name != "" {
			head = []seg{{one + " " + t.Change, bold}, {" " + Clean(t.Name), plainText}}
		}
		d.putSegs(head, d.width)
		d.flush()
		heads := 2 // the names of both sides, which say nothing here
		for l := range strings.Lines(t.Lines) {
			if heads--; heads >= 0 {
				continue
			}
			l = strings.TrimSuffix(l, "\n")
			st := plainText
			switch {
			case strings.HasPrefix(l, "@@"):
				st = cyan
			case strings.HasPrefix(l, "-"):
				st = red
			case strings.HasPrefix(l, "+"):
				st = green
			}
			d.diffLine(st, cleanLine(l))
		}
	}
}

// part draws size and digest of a part.
func (d *drawer) part(sign string, st style, p *RequestPart) {
	text := sign + " none"
	if p != nil {
		text = fmt.Sprintf("%s %s bytes  %s", sign, exact(p.Bytes), Clean(p.Block))
	}
	d.diffLine(st, text)
}

// diffLine draws a line of a difference; a long one goes on below, behind its sign.
func (d *drawer) diffLine(st style, text string) {
	for first := true; first || text != ""; first = false {
		lead := ""
		if !first {
			lead = "  "
		}
		head := prefix(text, d.width) // the rest need not be measured
		if head = cells.Truncate(head, d.width-len(lead), ""); head == "" {
			head = text
		}
		d.put(st, lead+head)
		d.flush()
		text = text[len(head):]
	}
}

// cleanLine is Clean of a whole line whose blanks matter.
func cleanLine(s string) string {
	var b strings.Builder
	for i, f := range strings.SplitAfter(strings.ReplaceAll(s, "\t", "    "), " ") {
		text, blank := strings.CutSuffix(f, " ")
		if text != "" || i == 0 {
			b.WriteString(clean(text, maxWhole))
		}
		if blank {
			b.WriteByte(' ')
		}
	}
	return b.String()
}
