package agentsessionexporter

import (
	"bytes"
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
	texts := run.whole(b.Blocks)
	for i := range b.Blocks {
		run.blockOf(&b.Blocks[i], texts)
	}
	return run.finds
}

// name redacts the name of a span that nobody promised to be free of content.
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
var anywhere = []use{
	{place: spans.PlaceMessage}, {place: spans.PlaceSystem}, {place: spans.PlaceTools},
	{place: spans.PlaceRest},
	{place: spans.ListArgs}, {place: spans.ListResult}, {place: spans.ListMetadata}, {place: spans.ListRules},
	{place: spans.ListSummary},
	{place: spans.PlaceConfig}, {place: spans.PlaceEvent}, {place: spans.PlaceText},
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
	from, err := spans.ParseProvenance(provenance)
	if err != nil {
		from = spans.Provenance{}
	}
	switch list {
	case spans.ListRequest, spans.ListInput, spans.ListOutput, spans.ListResults, spans.ListMessages, spans.ListHistory,
		spans.ListOutside,
		spans.ListBefore, spans.ListAfter:
		return use{spans.PlaceMessage, from.Kind}
	case spans.ListParams:
		switch from.Kind {
		case spans.ProvenanceSystem:
			return use{place: spans.PlaceSystem}
		case spans.ProvenanceTools:
			return use{place: spans.PlaceTools}
		}
		return use{place: spans.PlaceRest}
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
	asText   = []use{{place: spans.PlaceText}}
	asConfig = []use{{place: spans.PlaceConfig}}
	// asOutput is the part of a reply that came in by then.
	asOutput = []use{{place: spans.PlaceMessage}}
)

// attrs redacts the attributes that may hold content: those of that class, and those that the vocabulary does not know.
func (r *redaction) attrs(row *session.Row) {
	copied := false
	for i, a := range row.Attrs {
		if known, ok := spans.Lookup(attribute.Key(a.Key)); ok && known.Class != spans.ClassContent {
			continue
		}
		uses, role := asText, func(string) string { return "" }
		switch a.Key {
		case string(spans.RunConfigKey):
			uses = asConfig
		case session.PartialOutputKey:
			uses, role = asOutput, roleOf
		}
		value, found := a.Value, 0
		switch a.Value.Type() {
		case session.TypeString:
			var s string
			if s, found = r.apply(uses, role(a.Value.Str()), looksLikeJSON(a.Value.Str()), a.Value.Str()); found > 0 {
				value = session.StringValue(s)
			}
		case session.TypeStrings:
			l := a.Value.Strings()
			for j, s := range l {
				var n int
				l[j], n = r.apply(uses, role(s), looksLikeJSON(s), s)
				found += n
			}
			if found > 0 {
				value = session.StringsValue(l)
			}
		}
		if found == 0 {
			continue
		}
		if !copied {
			row.Attrs, copied = slices.Clone(row.Attrs), true
		}
		row.Attrs[i].Value = value
		r.attribute += found
	}
}

// items redacts the fields of lists other than the ids of blocks. An item with a find keeps its id alone: the digest of
// the list does not fit then, and readers say that it was changed.
func (r *redaction) items(row *session.Row) {
	copied := false
	for i, l := range row.Lists {
		items := l.Items
		for j, text := range items {
			if len(text) <= len("AAAAAAAAAAA") { // an id alone
				continue
			}
			left, found := "", 0
			if it, err := spans.ParseItem(text); err != nil {
				_, found = r.apply(asText, "", false, text)
			} else {
				left = it.Block.String()
				var in int
				if from, err := spans.ParseProvenance(it.Provenance); err != nil {
					_, in = r.apply(asText, "", false, it.Provenance)
				} else {
					_, in = r.apply(asText, "", true, string(from.AppendJSON(nil)))
				}
				found += in
			}
			if found == 0 {
				continue
			}
			if !copied {
				row.Lists, copied = slices.Clone(row.Lists), true
			}
			if &row.Lists[i].Items[0] == &l.Items[0] {
				row.Lists[i].Items = slices.Clone(l.Items)
			}
			row.Lists[i].Items[j] = left
			r.item += found
		}
	}
}

// blockOf redacts a block. Texts are those of the templates of the batch as they were put together: see whole.
func (r *redaction) blockOf(b *session.Block, texts map[blockRef]string) {
	ref := blockRef{b.Session, b.ID.Short()}
	text, ok := texts[ref]
	if !ok {
		text = b.Body
	}
	uses, role := asText, ""
	if r.scoped {
		if uses = r.uses[ref]; uses == nil {
			uses = anywhere
		}
		role = roleOf(text)
	}
	body, found := r.apply(uses, role, looksLikeJSON(text), text)
	if found == 0 {
		return
	}
	r.block += found
	if b.Size == 0 {
		b.Size = int64(len(text))
	}
	b.Body = body
}

// whole puts the templates of a batch together, as far as what they refer to is in the batch: an empty string stands
// for what is not. What they refer to is looked at in their places, and is withheld where a rule found something in the
// template that is not the text any more.
func (r *redaction) whole(blocks []session.Block) map[blockRef]string {
	here := map[blockRef]*session.Block{}
	for i := range blocks {
		here[blockRef{blocks[i].Session, blocks[i].ID.Short()}] = &blocks[i]
	}
	texts := map[blockRef]string{}
	for i := range blocks {
		b := &blocks[i]
		if b.Size > 0 || spans.IsPlain(b.Body) {
			continue
		}
		ref := blockRef{b.Session, b.ID.Short()}
		var text strings.Builder
		_ = spans.Pieces(b.Body, func(p spans.Piece) bool { // what cannot be read is looked at as far as it can
			piece := p.Text
			if p.Part != 0 {
				piece = "null"
			} else if p.Block != (spans.ShortID{}) {
				piece = `""`
				if of := here[blockRef{b.Session, p.Block}]; of != nil && of.Size == 0 && text.Len()+len(of.Body) <= maxRedacted {
					piece = of.Body
				}
			}
			text.WriteString(piece)
			return true
		})
		texts[ref] = text.String()
		r.within(b, ref, texts[ref], here)
	}
	return texts
}

// maxRedacted bounds what is put together to be looked at.
const maxRedacted = 64 << 20

// within withholds what a template refers to and rules changed in it.
func (r *redaction) within(b *session.Block, ref blockRef, text string, here map[blockRef]*session.Block) {
	uses, role := asText, ""
	if r.scoped {
		if uses = r.uses[ref]; uses == nil {
			uses = anywhere
		}
		role = roleOf(text)
	}
	body, found := r.apply(uses, role, looksLikeJSON(text), text)
	for id := range spans.Blocks(b.Body) {
		of := here[blockRef{b.Session, id}]
		if of == nil || of.Size > 0 {
			continue
		}
		if r.scoped { // it is looked at as what it stands in
			r.uses[blockRef{b.Session, id}] = append(r.uses[blockRef{b.Session, id}], uses...)
		}
		if found > 0 && !strings.Contains(body, of.Body) {
			of.Size, of.Body = int64(len(of.Body)), ""
		}
	}
}

// looksLikeJSON finds out what the producer knew and did not say. Numbers and literals count as text, which rules see
// more of.
func looksLikeJSON(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case ' ', '\t', '\n', '\r':
		case '{', '[', '"':
			return true
		default:
			return false
		}
	}
	return false
}

// roleOf returns the role of a body that is a message.
func roleOf(body string) string {
	if !looksLikeJSON(body) {
		return ""
	}
	var m struct {
		Role string `json:"role"`
	}
	if json.NewDecoder(bytes.NewReader([]byte(body))).Decode(&m) != nil {
		return ""
	}
	return m.Role
}
