package replay

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// noteList gathers notes: one of a kind, with how often and where.
type noteList struct {
	list []Note
	at   map[string]int
	more int
}

const (
	maxNotes = 200 // kinds of notes; keys come from outside
	maxWhere = 8   // places named of each
)

func (l *noteList) add(c Change, what, where string) {
	if l.at == nil {
		l.at = map[string]int{}
	}
	key := string(c) + what
	i, ok := l.at[key]
	if !ok {
		if len(l.list) == maxNotes {
			l.more++
			return
		}
		i = len(l.list)
		l.at[key] = i
		l.list = append(l.list, Note{Change: c, What: what})
	}
	n := &l.list[i]
	n.Count++
	if where != "" && len(n.Where) < maxWhere && !slices.Contains(n.Where, where) {
		n.Where = append(n.Where, where)
	}
}

// notes returns what was gathered.
func (l *noteList) notes() []Note {
	if l.more > 0 {
		l.list = append(l.list, Note{Change: LeftOut, What: "more kinds of things than are named here", Count: l.more})
		l.more = 0
	}
	return l.list
}

// builder writes a JSON object.
type builder struct{ b []byte }

func (o *builder) raw(key string, value []byte) {
	if value == nil {
		return
	}
	if len(o.b) == 0 {
		o.b = append(o.b, '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(rawjson.Quote(o.b, key), ':')
	o.b = append(o.b, value...)
}

func (o *builder) str(key, value string) { o.raw(key, quote(value)) }

// opt is str where there is a value.
func (o *builder) opt(key, value string) {
	if value != "" {
		o.str(key, value)
	}
}

func (o *builder) bytes() []byte {
	if len(o.b) == 0 {
		return []byte("{}")
	}
	return append(o.b, '}')
}

func quote(s string) []byte { return rawjson.Quote(nil, s) }

// array returns the JSON array of elements.
func array(elements [][]byte) []byte {
	out := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	return append(out, ']')
}

// obj returns an object of pairs of key and string.
func obj(pairs ...string) []byte {
	var b builder
	for i := 0; i+1 < len(pairs); i += 2 {
		b.str(pairs[i], pairs[i+1])
	}
	return b.bytes()
}

// writer writes a request in a form. What all forms share stands here.
type writer struct {
	*request
	noteList
	same bool // the request is spelled in this form: pieces stay as they came
}

func (w *writer) leave(what string, m *message) { w.add(LeftOut, what, m.where()) }

// common notes what no form takes of messages, prompts and tools, and what is no content at all.
func (w *writer) common() {
	fields := map[string]bool{}
	for i := range w.messages {
		m := &w.messages[i]
		for _, f := range m.fields {
			fields[word(f)] = true
		}
		if len(m.parts) == 0 {
			w.leave("a message without content", m)
		}
		w.besides(m.parts, m)
	}
	if len(fields) > 0 {
		const most = 24
		names := slices.Sorted(maps.Keys(fields))
		if len(names) > most {
			names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
		}
		w.add(LeftOut, "what messages say besides their content: "+strings.Join(names, ", "), "")
	}
	for _, m := range w.extra {
		w.add(LeftOut, "parameter "+word(m.key), "")
	}
	for _, t := range w.tools {
		for _, k := range t.extra {
			if !w.same {
				w.add(LeftOut, word(k)+" of a tool", word(t.name))
			}
		}
	}
	if w.params.stream {
		w.add(LeftOut, "stream: the answer is wanted in one piece", "")
	}
}

// besides notes what pieces of a message say that no other form has a place for.
func (w *writer) besides(parts []part, m *message) {
	for i := range parts {
		p := &parts[i]
		if w.same && p.raw != nil {
			continue
		}
		for _, k := range p.extra {
			w.leave(fmt.Sprintf("%s of %s", word(k), p.what()), m)
		}
		switch {
		case p.kind == media && p.media == "image" && p.name != "":
			w.leave("name of an image", m)
		case p.kind == text && p.typ == textDocument:
			w.add(Changed, "a document that is text stands as a text", m.where())
		case p.kind == result:
			w.besides(p.parts, m)
		}
	}
}

// what names the kind of a part.
func (p *part) what() string {
	switch p.kind {
	case text:
		return "a text"
	case thinking:
		return "reasoning"
	case media:
		switch p.media {
		case "image", "audio":
			return "an " + p.media
		}
		return "a " + p.media
	case call:
		return "a tool call"
	case result:
		return "a tool result"
	}
	if p.typ == "" {
		return "a block without a type"
	}
	return "a block of type " + word(p.typ)
}

// settle makes the messages what providers want of tool calls: ids for all, and results right behind their calls.
func (w *writer) settle(id *regexp.Regexp) {
	w.ids(id)
	w.order()
	open := map[string][]*message{} // calls that wait for their results
	for i := range w.messages {
		m := &w.messages[i]
		for _, p := range m.parts {
			switch {
			case p.kind == call:
				open[p.id] = append(open[p.id], m)
			case p.kind == result && len(open[p.id]) == 0:
				w.add(Kept, "a tool result without its call, which the provider may refuse", m.where())
			case p.kind == result:
				open[p.id] = open[p.id][1:]
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(open)) {
		for _, m := range open[id] {
			w.add(Kept, "a tool call without a result, which the provider may refuse", m.where())
		}
	}
}

// unnamed are calls that came without an id, to be found by the results that name none either.
type unnamed struct {
	ids    []string
	taken  []bool
	next   int              // the first that may not be taken
	byName map[string][]int // by the tool
}

func (u *unnamed) add(id, tool string) {
	if u.byName == nil {
		u.byName = map[string][]int{}
	}
	u.byName[tool] = append(u.byName[tool], len(u.ids))
	u.ids, u.taken = append(u.ids, id), append(u.taken, false)
}

// take returns the id of the oldest call of that tool, or of any tool where none is named; empty when there is none left.
func (u *unnamed) take(tool string) string {
	for u.next < len(u.ids) && u.taken[u.next] {
		u.next++
	}
	at := u.next
	if tool != "" {
		l := u.byName[tool]
		for len(l) > 0 && u.taken[l[0]] {
			l = l[1:]
		}
		if len(l) == 0 {
			return ""
		}
		u.byName[tool], at = l, l[0]
	}
	if at == len(u.ids) {
		return ""
	}
	u.taken[at] = true
	return u.ids[at]
}

// ids gives ids to calls that have none, and makes those fit that the form refuses.
func (w *writer) ids(fits *regexp.Regexp) {
	renamed := map[string]string{}
	used := map[string]bool{}
	for _, m := range w.messages {
		for _, p := range m.parts {
			if p.id != "" && (fits == nil || fits.MatchString(p.id)) {
				used[p.id] = true
			}
		}
	}
	n := 0
	free := func(id string) string {
		for base := id; id == "" || used[id]; {
			n++
			id = fmt.Sprintf("%s_%d", cmp.Or(base, "call"), n)
		}
		used[id] = true
		return id
	}
	var waiting unnamed
	for i := range w.messages {
		m := &w.messages[i]
		for j := range m.parts {
			p := &m.parts[j]
			if p.kind != call && p.kind != result {
				continue
			}
			if p.id == "" {
				if p.kind == result {
					p.id = waiting.take(p.name)
				}
				if p.id == "" {
					p.id = free("")
					if p.kind == call {
						waiting.add(p.id, p.name)
					}
				}
				p.raw = nil
				w.add(Added, "id of "+p.what(), m.where())
			}
			if fits == nil || fits.MatchString(p.id) {
				continue
			}
			to, ok := renamed[p.id]
			if !ok {
				to = free(notID.ReplaceAllString(p.id, "_"))
				renamed[p.id] = to
			}
			p.id, p.raw = to, nil
			w.add(Changed, "id of "+p.what()+", which has characters that this form refuses", m.where())
		}
	}
}

var notID = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// order moves results that stand behind something else up to their calls.
func (w *writer) order() {
	for i := 0; i < len(w.messages); i++ {
		if w.messages[i].role != assistant {
			continue
		}
		wanted := w.messages[i].calls()
		end := i + 1
		for end < len(w.messages) && w.messages[end].role != assistant {
			end++
		}
		if len(wanted) == 0 {
			continue
		}
		var first, then []message
		for _, m := range w.messages[i+1 : end] {
			mine := m.role == results && slices.ContainsFunc(m.parts, func(p part) bool { return wanted[p.id] })
			if !mine {
				then = append(then, m)
				continue
			}
			if len(then) > 0 {
				w.add(Changed, "a tool result stands right behind its call, before what came between", m.where())
			}
			first = append(first, m)
		}
		copy(w.messages[i+1:end], append(first, then...))
		i = end - 1
	}
}

// args returns what a call is made with as an object, which all providers want.
func (w *writer) args(p *part, m *message) []byte {
	switch {
	case p.args == nil:
		return []byte("{}")
	case isObject(p.args):
		return p.args
	}
	w.add(Changed, "arguments that are no object stand under the key input", m.where())
	var b builder
	b.raw("input", p.args)
	return b.bytes()
}

// argsText returns what a call is made with as OpenAI wants it: JSON in a string.
func argsText(p *part) []byte {
	if p.args == nil {
		return quote("{}")
	}
	if isString(p.args) {
		return p.args // what is no JSON is said as the model said it
	}
	return quote(string(p.args))
}

// schema returns what a tool takes.
func (w *writer) schema(t *tool) []byte {
	if isObject(t.schema) {
		return t.schema
	}
	w.add(Added, "schema of a tool that has none: any object", word(t.name))
	return []byte(`{"type":"object"}`)
}

// offered returns the tools that the model may call; what a provider runs itself is left out, for no other one has it.
func (w *writer) offered() []tool {
	var out []tool
	for _, t := range w.tools {
		if t.typ != "" {
			w.add(LeftOut, "a tool that its provider runs", word(t.name))
			continue
		}
		if !toolName.MatchString(t.name) {
			w.add(Kept, "a name of a tool that the provider may refuse", word(t.name))
		}
		out = append(out, t)
	}
	return out
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)

// not notes parameters that the form has no place for.
func (w *writer) not(names map[string]bool) {
	for _, name := range []string{"top_k", "seed", "frequency_penalty", "presence_penalty", "stop sequences", "reasoning tokens", "parallel tool calls", "user", "answer as JSON"} {
		if names[name] {
			w.add(LeftOut, "parameter "+name, "")
		}
	}
}

// level returns the level of reasoning if the form has that word for it.
func (w *writer) level(words ...string) string {
	level := w.params.level
	if level == "" || slices.Contains(words, level) {
		return level
	}
	if level == "off" || level == "none" {
		w.add(LeftOut, "reasoning off, which is said by saying nothing", "")
	} else {
		w.add(LeftOut, "reasoning level "+word(level), "")
	}
	return ""
}

// dataURL returns what a part holds as a data URL.
func (p *part) dataURL() string {
	mime := p.mime
	if mime == "" {
		mime = "application/octet-stream"
	}
	return "data:" + mime + ";base64," + p.data
}

// web reports whether address is one that a provider can fetch.
func web(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// lone returns the one text of parts that came as a string, or as anything where blocks are not wanted for it.
func lone(parts []part, asString bool) (string, bool) {
	if len(parts) != 1 || parts[0].kind != text || parts[0].typ == "refusal" {
		return "", false
	}
	return parts[0].text, asString || parts[0].raw == nil || isString(parts[0].raw)
}
