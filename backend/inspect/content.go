package inspect

import (
	"fmt"
	"math"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// maxWhole bounds how much of a text is shown where it is shown whole.
const maxWhole = 1 << 20

// clean is Clean for what content shows. Where a turn alone is looked at the lines of a text stay lines, with their indents.
func (r *renderer) clean(text string) string {
	if r.o.Turn == nil {
		return Clean(text)
	}
	if len(text) > maxWhole {
		text = strings.ToValidUTF8(text[:maxWhole], "") + "…"
	}
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, " \t\r\n")) {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		rest := strings.TrimLeft(line, " \t")
		indent := strings.ReplaceAll(line[:len(line)-len(rest)], "\t", "    ")
		b.WriteString(indent[:min(len(indent), maxIndent)])
		b.WriteString(strings.TrimRight(clean(rest, maxWhole), " "))
	}
	return b.String()
}

// maxIndent bounds how far a line of content stands to the right.
const maxIndent = 40

// content shows what somebody wrote: in one line, or whole where a turn alone is looked at.
func (r *renderer) content(n *node, label string, st style, text string) {
	it := item{label: label, style: st, text: text, lines: 1}
	if r.o.Turn != nil {
		it.lines = math.MaxInt // clean bounds it
	}
	n.items = append(n.items, it)
}

// systemPrompt shows the system prompt of a turn where it differs from the one before.
func (r *renderer) systemPrompt(n *node, p place, t *session.Turn) {
	if len(t.Requests) == 0 {
		return
	}
	params := t.Requests[len(t.Requests)-1].Params
	if params == nil {
		return
	}
	for _, it := range params.Items() {
		if it.Provenance != string(spans.ProvenanceSystem) {
			continue
		}
		if it.Block == r.system {
			return
		}
		r.system = it.Block
		if body, ok := r.body(p, it); ok && body != "null" && body != `""` {
			r.content(n, "system", dim, r.clean(valueText([]byte(body))))
		}
	}
}

// maxLines bounds how many messages or events of one thing are shown.
const maxLines = 8

// messages shows what was said, without tool results: those stand at their calls.
func (r *renderer) messages(n *node, p place, capture spans.Capture, refs *session.Refs) {
	if refs == nil || p.tree.Blocks == nil || capture == spans.CaptureDigests {
		return // of digests there is nothing to be seen
	}
	shown := 0
	for i, it := range refs.Items() {
		if shown >= maxLines && r.o.Turn == nil {
			n.line("", dim, "and "+plural(refs.Len()-i, "more message"))
			return
		}
		body, ok := r.body(p, it)
		if text, size, cut := p.tree.Blocks.Cut(it); !ok && cut {
			r.withheld(n, text, size)
			shown++
			continue
		}
		if !ok {
			n.line("missing", yellow, "this message did not arrive (block "+Clean(it.Block)+")")
			shown++
			continue
		}
		for _, s := range sayings(body) {
			if s.label == session.ByTool {
				continue
			}
			st := dim
			switch s.label {
			case session.ByUser:
				st = cyan
			case session.ByModel:
				st = green
			case string(session.SaidError):
				st = red
			}
			r.content(n, s.short(), st, r.clean(s.text))
			shown++
		}
	}
}

// withheld shows what is there of a body that was cut or withheld at the source.
func (r *renderer) withheld(n *node, text string, size int64) {
	if text == "" {
		n.line("cut", dim, "all of "+Bytes(size)+", withheld at the source")
		return
	}
	r.content(n, "cut", dim, fmt.Sprintf("%s of %s: %s", Bytes(int64(len(text))), Bytes(size), r.clean(text)))
}

// body returns what a reference stands for.
func (r *renderer) body(p place, ref session.Ref) (string, bool) {
	body, ok := p.tree.Blocks.Body(ref)
	r.said = r.said || ok
	return body, ok
}

// only returns the body of a list's one item.
func (r *renderer) only(p place, refs *session.Refs) (string, bool) {
	if refs.Len() == 0 {
		return "", false
	}
	return r.body(p, refs.Items()[0])
}

func (r *renderer) events(n *node, p place, notes []session.Note) {
	for i, e := range notes {
		if i == maxLines && r.o.Turn == nil {
			n.line("", dim, "and "+plural(len(notes)-i, "more event"))
			return
		}
		text := Clean(e.Type)
		if e.Body != nil {
			if body, ok := r.body(p, *e.Body); ok {
				text += "  " + r.clean(eventText(body))
			}
		}
		r.content(n, "event", dim, text)
	}
}
