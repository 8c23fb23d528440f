package message

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// writer writes a request for an API.
type writer struct {
	Request
	api   API
	notes []note
}

// note is one difference between a request and its body: how often, and the first place.
type note struct {
	what, where string
	count       int
}

// MaxNotes bounds the notes about one body, since keys come from outside. One more note counts the rest.
const MaxNotes = 200

// Write returns r as a request body for api. The notes name how the body differs from r: what the API has no place for
// is left out, what it demands is added, and what it has in another form or place is changed. They never hold content.
func (r *Request) Write(api API) (body []byte, notes []string) {
	w := &writer{Request: *r, api: api}
	w.Messages = slices.Clone(r.Messages)
	for i := range w.Messages {
		w.Messages[i].Parts = slices.Clone(w.Messages[i].Parts)
	}
	w.unplaced()
	w.ids()
	w.order()
	members := []any{"model", w.Model}
	switch api {
	case Anthropic:
		members = append(members, w.anthropic()...)
	case OpenAIChat:
		members = append(members, w.chat()...)
	default:
		members = append(members, w.responses()...)
	}
	body = Build(append(members, w.tools()...)...)
	for _, n := range w.notes {
		if n.count > 1 {
			n.what += fmt.Sprintf(", %d times", n.count)
		}
		if n.where != "" {
			n.what += " (" + n.where + ")"
		}
		notes = append(notes, n.what)
	}
	return body, notes
}

func (w *writer) note(what, where string) {
	find := func() int { return slices.IndexFunc(w.notes, func(n note) bool { return n.what == what }) }
	if find() < 0 && len(w.notes) >= MaxNotes {
		what, where = "left out: more than this list names", ""
	}
	if find() < 0 {
		w.notes = append(w.notes, note{what: what, where: where})
	}
	w.notes[find()].count++
}

// leave notes that something is left out, of a message unless m is nil. It returns nil.
func (w *writer) leave(what string, m *Message) []byte {
	w.note("left out: "+what, m.where())
	return nil
}

func (m *Message) where() string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf("message %d", m.Index)
}

// unplaced notes fields, keys and parameters that the API has no place for.
func (w *writer) unplaced() {
	for i := range w.Messages {
		m := &w.Messages[i]
		for _, f := range m.Fields {
			w.leave("field "+Brief(f)+" of a message", m)
		}
		if len(m.Parts) == 0 {
			w.leave("a message without content", m)
		}
		for _, p := range m.Parts {
			for _, k := range p.Extra {
				w.leave(Brief(k)+" of "+p.Describe(), m)
			}
		}
	}
	for _, k := range w.Extra {
		w.leave("parameter "+Brief(k), nil)
	}
	for _, p := range params {
		if w.Params[p.name] != nil && p.key(w.api) == "" {
			w.leave("parameter "+p.name, nil)
		}
	}
}

// ids gives ids to calls that have none, and to the results that name the same tool, oldest first.
// It replaces ids that Anthropic refuses.
func (w *writer) ids() {
	fits := func(id string) bool { return id != "" && (w.api != Anthropic || !notID.MatchString(id)) }
	used, renamed, unnamed := map[string]bool{}, map[string]string{}, map[string][]string{}
	each := func(visit func(*Part, *Message)) {
		for i := range w.Messages {
			for j := range w.Messages[i].Parts {
				if p := &w.Messages[i].Parts[j]; p.Type == ToolCall || p.Type == ToolResult {
					visit(p, &w.Messages[i])
				}
			}
		}
	}
	each(func(p *Part, _ *Message) { used[p.ID] = used[p.ID] || fits(p.ID) })
	n := 0
	free := func(base string) string {
		id := base
		for id == "" || used[id] {
			n++
			id = fmt.Sprintf("%s_%d", cmp.Or(base, "call"), n)
		}
		used[id] = true
		return id
	}
	each(func(p *Part, m *Message) {
		waiting := unnamed[p.Name]
		switch {
		case fits(p.ID):
			return
		case p.ID != "":
			if renamed[p.ID] == "" {
				renamed[p.ID] = free(notID.ReplaceAllString(p.ID, "_"))
			}
			p.ID = renamed[p.ID]
		case p.Type == ToolResult && len(waiting) > 0:
			p.ID, unnamed[p.Name] = waiting[0], waiting[1:]
		default:
			p.ID = free("")
			if p.Type == ToolCall {
				unnamed[p.Name] = append(waiting, p.ID)
			}
		}
		w.note("changed: id of "+p.Describe()+", which the API demands", m.where())
	})
}

var notID = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// order moves results up to the message that has their calls, before anything else that follows it.
func (w *writer) order() {
	for i := 0; i < len(w.Messages); {
		calls := map[string]bool{}
		for _, p := range w.Messages[i].Parts {
			calls[p.ID] = calls[p.ID] || p.Type == ToolCall
		}
		var results, others []Message
		end := i + 1
		for ; end < len(w.Messages) && w.Messages[end].Role != assistant; end++ {
			m := w.Messages[end]
			if m.Role != tool || !slices.ContainsFunc(m.Parts, func(p Part) bool { return calls[p.ID] }) {
				others = append(others, m)
				continue
			}
			if len(others) > 0 {
				w.note("changed: a tool result moves up to its call", m.where())
			}
			results = append(results, m)
		}
		copy(w.Messages[i+1:end], append(results, others...))
		i = end
	}
}

// parameters returns the parameters that the API has.
func (w *writer) parameters() (out []any) {
	for _, p := range params {
		if key := p.key(w.api); key != "" && (p.name != "parallel tool calls" || w.Tools != nil) {
			out = append(out, key, w.Params[p.name])
		}
	}
	return out
}

// effort returns the level of reasoning if it is one of those that the API has.
func (w *writer) effort() string {
	levels := []string{"", "low", "medium", "high", "xhigh", "max"}
	ofOpenAI := w.Effort == "none" || w.Effort == "minimal"
	if slices.Contains(levels, w.Effort) || ofOpenAI && w.api != Anthropic {
		return w.Effort
	}
	w.leave("reasoning level "+Brief(w.Effort), nil)
	return ""
}

// content returns parts of those kinds as content: a string for one text, else a list of blocks, nil for none.
func (w *writer) content(parts []Part, m *Message, kinds ...string) []byte {
	var blocks [][]byte
	var last *Part
	for i := range parts {
		p := &parts[i]
		var b []byte
		switch {
		case !slices.Contains(kinds, p.kind()):
			w.leave(p.Describe(), m)
		case w.api == Anthropic:
			b = w.anthropicBlock(p, m)
		default:
			b = w.openAIBlock(p, m)
		}
		if b != nil {
			blocks, last = append(blocks, b), p
		}
	}
	switch {
	case blocks == nil:
		return nil
	case len(blocks) == 1 && last.Type == Text:
		return Quote(last.text())
	}
	return Array(blocks)
}

// tools returns the tools that the host runs. No other provider has those that a provider runs.
func (w *writer) tools() []any {
	var out [][]byte
	for _, t := range w.Tools {
		if t.Hosted != "" {
			w.note("left out: a tool that its provider runs", Brief(t.Name))
			continue
		}
		for _, k := range t.Extra {
			w.note("left out: "+Brief(k)+" of a tool", Brief(t.Name))
		}
		if !is(t.Schema, '{') {
			w.note("added: the schema of a tool: any object", Brief(t.Name))
			t.Schema = []byte(`{"type":"object"}`)
		}
		schema := "parameters"
		switch {
		case w.api == Anthropic:
			schema = "input_schema"
		case w.api == OpenAIResponses && t.Strict == nil:
			t.Strict = []byte("false") // the default of this API alone is true
		}
		members := []any{"name", t.Name, "description", t.Description, schema, t.Schema, "strict", t.Strict}
		switch w.api {
		case Anthropic:
			out = append(out, Build(members...))
		case OpenAIChat:
			out = append(out, Build("type", "function", "function", Build(members...)))
		default:
			out = append(out, Build(append([]any{"type", "function"}, members...)...))
		}
	}
	if out == nil {
		return nil
	}
	return []any{"tools", Array(out)}
}

// url returns the address of what a part holds: a data URL, an address that a provider can fetch, or "".
func (p *Part) url() string {
	switch text := p.text(); {
	case p.Type == "blob" && text != "":
		return "data:" + cmp.Or(p.MIME, "application/octet-stream") + ";base64," + text
	case p.Type == "uri" && (strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://")):
		return text
	}
	return ""
}
