package agentsessionexporter

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/redactfile"
	"github.com/otelagent/otelagent/otelagent/redact"
	"github.com/otelagent/otelagent/spans"
)

// redactor takes out of decoded batches what rules find and the producer left in. It is safe for concurrent use.
//
// Ids are hashes of what the producer sent, and do not change with what is taken out. So a block with a find stays
// under its id, with the rest of its text and the size that it had. Readers distinguish it from a whole one by that.
// They return a request that names it as one with a piece withheld, never with other bytes.
type redactor struct {
	rules *redact.Rules
}

// finds counts the places in which something was found, by what held it. It is the metric's attribute "where".
type finds struct{ attribute, block, item int }

// newRedactor returns nil when redaction is off.
func newRedactor(c *RedactionConfig) (*redactor, error) {
	if !c.Enabled {
		return nil, nil
	}
	rules, err := redactfile.Load(c.Rules)
	if err != nil {
		return nil, fmt.Errorf("redaction::rules: %w", err)
	}
	if rules.Scoped() {
		return nil, fmt.Errorf("redaction::rules: %s: a rule has the key place or provenance, which only producers know: "+
			"want regexp, key or role", c.Rules)
	}
	return &redactor{rules: rules}, nil
}

// batch redacts b in place. It changes nothing that rows share with others.
func (r *redactor) batch(b *session.Batch) (found finds) {
	if r == nil {
		return found
	}
	for i := range b.Rows {
		found.attribute += r.attrs(&b.Rows[i])
		found.item += r.items(&b.Rows[i])
	}
	found.block = r.blocks(b.Blocks)
	return found
}

// name redacts the name of a span that may hold content.
func (r *redactor) name(s string) string {
	if r == nil {
		return s
	}
	s, _ = r.apply("", false, s)
	return s
}

// apply redacts a text. role is that of a message, empty for other content.
func (r *redactor) apply(role string, isJSON bool, text string) (string, int) {
	body, found := r.rules.Redact(spans.Redactable{Body: []byte(text), JSON: isJSON, Role: role})
	if found == 0 {
		return text, 0
	}
	return string(body), found
}

// body redacts a text that may be a message.
func (r *redactor) body(text string) (string, int) {
	return r.apply(roleOf(text), looksLikeJSON(text), text)
}

// attrs redacts the attributes that may hold content: those of that class, and those that the vocabulary does not know.
func (r *redactor) attrs(row *session.Row) (total int) {
	copied := false
	for i, a := range row.Attrs {
		if known, ok := spans.Lookup(attribute.Key(a.Key)); ok && known.Class != spans.ClassContent {
			continue
		}
		found := 0
		text := func(s string) string {
			s, n := r.body(s)
			found += n
			return s
		}
		switch value := a.Value; value.Type() {
		case session.TypeString:
			a.Value = session.StringValue(text(value.Str()))
		case session.TypeStrings:
			l := value.Strings()
			for j, s := range l {
				l[j] = text(s)
			}
			a.Value = session.StringsValue(l)
		}
		if found == 0 {
			continue
		}
		if !copied {
			row.Attrs, copied = slices.Clone(row.Attrs), true
		}
		row.Attrs[i] = a
		total += found
	}
	return total
}

// items redacts the fields of lists other than the ids of blocks. An item with a find keeps its id alone: the digest of
// the list does not fit then, and readers say that it was changed.
func (r *redactor) items(row *session.Row) (total int) {
	copied := false
	for i, l := range row.Lists {
		var changed []string // the items, once one of them has a find
		for j, text := range l.Items {
			if len(text) <= len("AAAAAAAAAAA") { // an id alone
				continue
			}
			left, isJSON := "", false
			if it, err := spans.ParseItem(text); err == nil {
				left, text = it.Block.String(), it.Provenance
				if from, err := spans.ParseProvenance(text); err == nil {
					text, isJSON = string(from.AppendJSON(nil)), true
				}
			}
			_, found := r.apply("", isJSON, text)
			if found == 0 {
				continue
			}
			if changed == nil {
				changed = slices.Clone(l.Items)
			}
			changed[j] = left
			total += found
		}
		if changed == nil {
			continue
		}
		if !copied {
			row.Lists, copied = slices.Clone(row.Lists), true
		}
		row.Lists[i].Items = changed
	}
	return total
}

// blocks redacts blocks. Templates come first, with what they refer to in its place, as far as that is in the batch. A
// block that a template refers to is withheld where a rule changed it there. So is all of a template that is broken or
// too large.
func (r *redactor) blocks(blocks []session.Block) (total int) {
	here := map[blockRef][]*session.Block{} // whole ones; a batch may have one several times
	for i := range blocks {
		if b := &blocks[i]; b.Size == 0 {
			ref := blockRef{b.Session, b.ID.Short()}
			here[ref] = append(here[ref], b)
		}
	}
	plain := make([]*session.Block, 0, len(blocks))
	for i := range blocks {
		b := &blocks[i]
		if b.Size > 0 || spans.IsPlain(b.Body) {
			plain = append(plain, b)
			continue
		}
		template := b.Body
		if text, ok := wholeText(b, here); ok {
			total += r.blockOf(b, text)
		} else { // no rule sees all of it: it is withheld, and so are the blocks that it refers to
			b.Size, b.Body = int64(len(template)), ""
		}
		for id := range spans.Blocks(template) {
			for _, of := range here[blockRef{b.Session, id}] {
				if of.Size == 0 && b.Size > 0 && !strings.Contains(b.Body, of.Body) {
					of.Size, of.Body = int64(len(of.Body)), ""
				}
			}
		}
	}
	for _, b := range plain {
		total += r.blockOf(b, b.Body)
	}
	return total
}

// blockRef names a block of a batch.
type blockRef struct {
	session session.Key
	id      spans.ShortID
}

// blockOf redacts a block that has that text.
func (r *redactor) blockOf(b *session.Block, text string) int {
	body, found := r.body(text)
	if found == 0 {
		return 0
	}
	if b.Size == 0 {
		b.Size = int64(len(text))
	}
	b.Body = body
	return found
}

// maxRedacted bounds the text that wholeText returns.
const maxRedacted = 64 << 20

// wholeText returns the text of a template, false if it is broken or has more than maxRedacted bytes. An empty string
// replaces what is not in the batch.
func wholeText(b *session.Block, here map[blockRef][]*session.Block) (string, bool) {
	var text strings.Builder
	ok := true
	err := spans.Pieces(b.Body, func(p spans.Piece) bool {
		piece := p.Text
		if p.Part != 0 {
			piece = "null"
		} else if p.Block != (spans.ShortID{}) {
			piece = `""`
			if of := here[blockRef{b.Session, p.Block}]; len(of) > 0 && of[0].Size == 0 {
				piece = of[0].Body
			}
		}
		if ok = text.Len()+len(piece) <= maxRedacted; ok {
			text.WriteString(piece)
		}
		return ok
	})
	return text.String(), ok && err == nil
}

// looksLikeJSON finds out what the producer knew and did not say. Numbers and literals count as text, which rules see
// more of.
func looksLikeJSON(s string) bool {
	s = strings.TrimLeft(s, " \t\n\r")
	return s != "" && strings.IndexByte(`{["`, s[0]) >= 0
}

// roleOf returns the role of a body that is a message.
func roleOf(body string) string {
	var m struct {
		Role string `json:"role"`
	}
	_ = json.NewDecoder(strings.NewReader(body)).Decode(&m) // a part of a message may follow
	return m.Role
}
