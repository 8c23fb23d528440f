package inspect

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

const (
	// maxWhole bounds the bytes of a text that is shown whole.
	maxWhole = 1 << 20
	// maxLines bounds the messages and events of one list; there is no bound for a turn that is drawn alone.
	maxLines  = 8
	unbounded = math.MaxInt
)

// clean is Clean of content. Where one turn is shown the lines of a text stay lines, with their indents.
func (r *renderer) clean(text string) string {
	if r.o.Turn == nil {
		return Clean(text)
	}
	if head, more := atMost(text, maxWhole); more {
		text = head + "…"
	}
	var lines []string
	for line := range strings.Lines(strings.TrimRight(text, " \t\r\n")) {
		lines = append(lines, cleanLine(strings.TrimRight(line, " \t\r\n")))
	}
	return strings.Join(lines, "\n")
}

// content draws clean text in one line, or whole where one turn is shown.
func (r *renderer) content(n *node, label string, st style, s string) *text {
	lines := 1
	if r.o.Turn != nil {
		lines = unbounded // clean bounds it
	}
	return n.text(label, st, s, lines)
}

// text returns the clean text of a body. ok is false when the body is not there.
func (r *renderer) text(b *Body) (text string, ok bool) {
	if b == nil || b.State != "" {
		return "", false
	}
	r.said = true
	return r.clean(b.Text), true
}

// saidStyles are the styles of labels; others are dim.
var saidStyles = map[string]style{session.ByUser: cyan, session.ByModel: green, string(session.PartError): red}

// messages draws messages, but for digests, of which there is nothing to see. log names them in the log of a Follower;
// empty where they may still change.
func (r *renderer) messages(n *node, capture spans.Capture, list []MessageText, log string, at time.Time) {
	if capture == spans.CaptureDigests {
		return
	}
	for i := range list {
		s := &list[i]
		b := &s.Text
		switch text, ok := r.text(b); {
		case s.more > 0:
			n.line("", dim, "and "+plural(s.more, "more message"))
		case ok:
			if it := r.content(n, shortLabel(s.Label), cmp.Or(saidStyles[s.Label], dim), text); log != "" {
				it.id, it.at = fmt.Sprint(log, " ", s.message, " ", s.part), at
			}
		case b.State == StateWithheld:
			n.line("cut", dim, "all of "+Bytes(b.Bytes)+", withheld at the source")
		case b.State == StateCut:
			r.content(n, "cut", dim, fmt.Sprintf("%s of %s: %s", Bytes(b.have), Bytes(b.Bytes), r.clean(b.Text)))
		default:
			n.line("missing", yellow, "this message did not arrive (block "+Clean(b.Block)+")")
		}
	}
}

// events draws events, a line each. In the view of more than one turn, those of one type that follow each other share a
// line, which has their number and the text of the first.
func (r *renderer) events(n *node, list []EventView) {
	for i := 0; i < len(list); i++ {
		e, first := &list[i], i
		if e.of.Type == "" {
			n.line("", dim, e.Type)
			continue
		}
		for r.o.Turn == nil && i+1 < len(list) && list[i+1].of.Type == e.of.Type {
			i++
		}
		text := Clean(e.Type)
		if same := i - first + 1; same > 1 {
			text += " ×" + strconv.Itoa(same)
		}
		body, _ := r.text(e.Text)
		r.content(n, "event", dim, text+prefixed("  ", body))
	}
}

func (r *renderer) findings(n *node, list []Finding) {
	for _, f := range list {
		n.wrapped(f.label(), map[bool]style{true: dim, false: yellow}[f.Observation], f.Text)
	}
}

// rules draws the permission rules of a run at a time: a line each, or all in one line, unless that is the last one.
func (r *renderer) rules(n *node, run *session.Run, at time.Time, each bool) {
	var list []string
	body, text := r.m.rules(run, at)
	if body != nil {
		list = ruleLines(body.Text)
		r.said, text = true, cmp.Or(some(len(list), "rule"), "none in force")
	}
	text += prefixed(separator+"digest ", Clean(prefix(run.RulesDigest, 8)))
	if each && len(list) > 0 {
		text = strings.Join(list[:min(len(list), maxRules)], "\n")
		if more := len(list) - maxRules; more > 0 {
			text += "\nand " + plural(more, "more rule")
		}
		n.wrapped("rules", dim, r.clean(text))
		return
	}
	text += prefixed(separator, Clean(strings.Join(list, "; ")))
	if key := "rules " + r.m.tree.ID; each || text != r.shown[key] {
		r.shown[key] = text
		n.line("rules", dim, text)
	}
}
