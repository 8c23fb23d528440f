package agentsessionexporter

import (
	"encoding/json"
	"fmt"
	"os"
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
	// scoped says that a rule is limited to some places, roles or provenances.
	scoped bool
}

// finds counts the places in which something was found, by what held it. It is the metric's attribute "where".
type finds struct{ attribute, block, item int }

// newRedactor returns nil when redaction is off.
func newRedactor(c *RedactionConfig) (*redactor, error) {
	if !c.Enabled {
		return nil, nil
	}
	rules := redact.Defaults()
	if c.Rules != "" && c.Rules != builtinRules {
		f, err := os.Open(c.Rules)
		if err != nil {
			return nil, fmt.Errorf("redaction::rules: %w", err)
		}
		rules, err = redactfile.Load(f)
		_ = f.Close() // it was only read
		if err != nil {
			return nil, fmt.Errorf("redaction::rules: %s: %w", c.Rules, err)
		}
	}
	return &redactor{rules: rules, scoped: rules.Scoped()}, nil
}

// batch redacts b in place. It changes nothing that rows share with others.
func (r *redactor) batch(b *session.Batch) finds {
	if r == nil {
		return finds{}
	}
	run := redaction{redactor: r}
	if r.scoped {
		run.uses = usesOf(b.Rows)
	}
	for i := range b.Rows {
		run.attrs(&b.Rows[i])
		run.items(&b.Rows[i])
	}
	run.blocks(b.Blocks)
	return run.finds
}

// name redacts the name of a span that may hold content.
func (r *redactor) name(s string) string {
	if r == nil {
		return s
	}
	out, _ := r.rules.Redact(spans.Redactable{Body: []byte(s), Place: spans.PlaceText})
	return string(out)
}

// redaction is one call of batch.
type redaction struct {
	*redactor
	finds
	uses map[blockRef][]use // when rules are scoped
}

// use is what a block is in one place, as package redact wants to know it.
type use struct {
	place      string
	provenance spans.ProvenanceKind
}

type blockRef struct {
	session session.Key
	id      spans.ShortID
}

// anywhere is how a block is looked at of which the batch does not say what it is: as everything that it may be.
var anywhere = usesAs(spans.PlaceMessage, spans.PlaceSystem, spans.PlaceTools, spans.PlaceRest, spans.ListArgs,
	spans.ListResult, spans.ListMetadata, spans.ListRules, spans.ListSummary, spans.PlaceConfig, spans.PlaceEvent,
	spans.PlaceText)

func usesAs(places ...string) (all []use) {
	for _, p := range places {
		all = append(all, use{place: p})
	}
	return all
}

// usesOf returns what the rows say about blocks.
func usesOf(rows []session.Row) map[blockRef][]use {
	uses := map[blockRef][]use{}
	add := func(r *session.Row, id spans.ShortID, u use) {
		ref := blockRef{r.Session, id}
		if l := uses[ref]; len(l) < len(anywhere) && !slices.Contains(l, u) {
			uses[ref] = append(l, u)
		}
	}
	for i := range rows {
		r := &rows[i]
		for _, l := range r.Lists {
			for _, text := range l.Items {
				if it, err := spans.ParseItem(text); err == nil {
					add(r, it.Block, useOf(l.Name, it.Provenance))
				}
			}
		}
		for _, e := range r.Events {
			if id, err := spans.ParseShortID(e.Body); err == nil {
				add(r, id, use{place: spans.PlaceEvent})
			}
		}
		for _, f := range r.Facts {
			if id, err := spans.ParseShortID(f.Value); err == nil {
				add(r, id, use{place: spans.PlaceFact})
			}
		}
	}
	return uses
}

// useOf says what an item of a list is.
func useOf(list, provenance string) use {
	from, _ := spans.ParseProvenance(provenance)
	switch list {
	case spans.ListRequest, spans.ListInput, spans.ListOutput, spans.ListResults, spans.ListMessages, spans.ListHistory,
		spans.ListOutside, spans.ListBefore, spans.ListAfter:
		return use{spans.PlaceMessage, from.Kind}
	case spans.ListParams:
		switch from.Kind {
		case spans.ProvenanceSystem:
			list = spans.PlaceSystem
		case spans.ProvenanceTools:
			list = spans.PlaceTools
		default:
			list = spans.PlaceRest
		}
	}
	return use{place: list}
}

// apply looks at text in all of its uses, one after the other.
func (r *redaction) apply(uses []use, role string, isJSON bool, text string) (string, int) {
	body, found := []byte(text), 0
	for _, u := range uses {
		var n int
		body, n = r.rules.Redact(spans.Redactable{Body: body, JSON: isJSON, Place: u.place, Role: role,
			Provenance: u.provenance})
		found += n
	}
	if found == 0 {
		return text, 0
	}
	return string(body), found
}

var (
	asText, asConfig = usesAs(spans.PlaceText), usesAs(spans.PlaceConfig)
	asOutput         = usesAs(spans.PlaceMessage) // the part of a reply that came in by then
)

// attrs redacts the attributes that may hold content: those of that class, and those that the vocabulary does not know.
func (r *redaction) attrs(row *session.Row) {
	copied := false
	for i, a := range row.Attrs {
		if known, ok := spans.Lookup(attribute.Key(a.Key)); ok && known.Class != spans.ClassContent {
			continue
		}
		found := 0
		text := func(s string) string {
			uses, role := asText, ""
			switch a.Key {
			case string(spans.RunConfigKey):
				uses = asConfig
			case session.PartialOutputKey:
				uses, role = asOutput, roleOf(s)
			}
			s, n := r.apply(uses, role, looksLikeJSON(s), s)
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
		r.attribute += found
	}
}

// items redacts the fields of lists other than the ids of blocks. An item with a find keeps its id alone: the digest of
// the list does not fit then, and readers say that it was changed.
func (r *redaction) items(row *session.Row) {
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
			_, found := r.apply(asText, "", isJSON, text)
			if found == 0 {
				continue
			}
			if changed == nil {
				changed = slices.Clone(l.Items)
			}
			changed[j] = left
			r.item += found
		}
		if changed == nil {
			continue
		}
		if !copied {
			row.Lists, copied = slices.Clone(row.Lists), true
		}
		row.Lists[i].Items = changed
	}
}

// blocks redacts blocks. Templates come first, with what they refer to in its place, as far as that is in the batch. A
// block that a template refers to is withheld where a rule changed it there.
func (r *redaction) blocks(blocks []session.Block) {
	here := map[blockRef]*session.Block{}
	for i := range blocks {
		here[blockRef{blocks[i].Session, blocks[i].ID.Short()}] = &blocks[i]
	}
	plain := make([]*session.Block, 0, len(blocks))
	for i := range blocks {
		b := &blocks[i]
		if b.Size > 0 || spans.IsPlain(b.Body) {
			plain = append(plain, b)
			continue
		}
		template := b.Body
		uses := r.blockOf(b, wholeText(b, here))
		for id := range spans.Blocks(template) {
			ref := blockRef{b.Session, id}
			of := here[ref]
			if of == nil || of.Size > 0 {
				continue
			}
			if r.scoped { // it is looked at as what it is a part of
				r.uses[ref] = append(r.uses[ref], uses...)
			}
			if b.Size > 0 && !strings.Contains(b.Body, of.Body) {
				of.Size, of.Body = int64(len(of.Body)), ""
			}
		}
	}
	for _, b := range plain {
		r.blockOf(b, b.Body)
	}
}

// blockOf redacts a block that has that text, and returns what it is.
func (r *redaction) blockOf(b *session.Block, text string) []use {
	uses, role := asText, ""
	if r.scoped {
		if uses = r.uses[blockRef{b.Session, b.ID.Short()}]; uses == nil {
			uses = anywhere
		}
		role = roleOf(text)
	}
	body, found := r.apply(uses, role, looksLikeJSON(text), text)
	if found == 0 {
		return uses
	}
	r.block += found
	if b.Size == 0 {
		b.Size = int64(len(text))
	}
	b.Body = body
	return uses
}

// maxRedacted bounds the text that wholeText returns.
const maxRedacted = 64 << 20

// wholeText returns the text of a template. An empty string replaces what is not in the batch.
func wholeText(b *session.Block, here map[blockRef]*session.Block) string {
	var text strings.Builder
	_ = spans.Pieces(b.Body, func(p spans.Piece) bool { // a broken template is looked at as far as it can be read
		piece := p.Text
		if p.Part != 0 {
			piece = "null"
		} else if p.Block != (spans.ShortID{}) {
			piece = `""`
			of := here[blockRef{b.Session, p.Block}]
			if of != nil && of.Size == 0 && text.Len()+len(of.Body) <= maxRedacted {
				piece = of.Body
			}
		}
		text.WriteString(piece)
		return true
	})
	return text.String()
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
