package inspect

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// TurnHead says of which turn a document is.
type TurnHead struct {
	// Format is session.TreeFormat.
	Format    int    `json:"format"`
	Address   string `json:"address"` // as commands take it
	Tenant    string `json:"tenant,omitempty"`
	Session   string `json:"session"`
	Run       string `json:"run"`
	RunNumber int    `json:"run_number"`
	Turn      int64  `json:"turn"`
}

func newTurnHead(t session.Tree, run *session.Run, turn *session.Turn) TurnHead {
	n := slices.Index(t.Runs, run) + 1
	return TurnHead{session.TreeFormat, session.TurnAddress(t.ID, n, turn.Index), t.Tenant, t.ID, run.ID, n, turn.Index}
}

// Request is one request as people and programs look at it. docs/requests.md describes its JSON form.
type Request struct {
	TurnHead
	Attempt  int64 `json:"attempt"`
	Attempts int   `json:"attempts"`

	Capture  spans.Capture `json:"capture,omitempty"`
	Model    string        `json:"model,omitempty"`
	Provider string        `json:"provider,omitempty"`

	// Bytes and SHA256 are those of the payload, absent where it is not whole. session.Payload describes Exact,
	// Redacted, Stated, Missing and Defects.
	Bytes    int64  `json:"bytes,omitempty"`
	SHA256   string `json:"sha256,omitempty"`
	Exact    bool   `json:"exact"`
	Redacted bool   `json:"redacted,omitempty"`
	Stated   int64  `json:"stated_bytes,omitempty"`

	System *RequestPart `json:"system,omitempty"`
	Tools  *RequestPart `json:"tools,omitempty"`
	Params *RequestPart `json:"params,omitempty"`
	// Count is how many messages the request has, also where fewer are known.
	Count    int64         `json:"message_count"`
	Messages []RequestPart `json:"messages,omitempty"`
	// Misaligned says that the producer gave another number of provenances than messages: no message has one, and the
	// parameters have those of the producer.
	Misaligned bool `json:"misaligned,omitempty"`

	Missing []MissingPart    `json:"missing,omitempty"`
	Defects []session.Defect `json:"defects,omitempty"`

	// Payload is the request put together again. Its Bytes are nil when something of it is missing.
	Payload session.Payload `json:"-"`

	blocks   *session.BlockSet
	request  *session.Request
	redactor bool // one changed the session: only then its mark in a text counts
}

// RequestPart is a message of a request, its system prompt, its tools, or its other parameters.
type RequestPart struct {
	// Index among the messages; nil of anything else.
	Index *int `json:"index,omitempty"`
	// Provenance of a message, as phi-core writes it; a string where that is not known.
	Provenance session.RawJSON `json:"provenance,omitempty"`
	Role       string          `json:"role,omitempty"`
	// Bytes of the block; 0 when that is not known.
	Bytes int64  `json:"bytes,omitempty"`
	Block string `json:"block,omitempty"`
	// New says that session.Request.Before did not have it; nil when that is not known.
	New *bool `json:"new,omitempty"`
	// State is empty when the body is there, else one of the words State... .
	State string `json:"state,omitempty"`
	// Redacted says that the body holds the mark of a rule.
	Redacted bool `json:"redacted,omitempty"`
	// Body is JSON as it is, or any other text as a string. Of one that was cut it is the beginning, as a string.
	Body session.RawJSON `json:"body,omitempty"`

	from string // provenance in words
	text string // the body, or the beginning of one that was cut
}

// Words of RequestPart.State.
const (
	// StateMissing: the body did not arrive.
	StateMissing = "missing"
	// StateCut: the body was cut by a bound on size, or redacted by the collector.
	StateCut = "cut"
	// StateWithheld: size and digest are all that left the source.
	StateWithheld = "withheld"
)

// MissingPart is a part of a request that is not there.
type MissingPart struct {
	session.MissingPart
	// Bytes of the whole body, 0 when that is not known; Have are those of its beginning that are there.
	Bytes int64 `json:"bytes,omitempty"`
	Have  int64 `json:"have,omitempty"`
}

// String names the part, and why it is not there.
func (m MissingPart) String() string {
	what := cmp.Or(map[string]string{"rest": "parameters"}[m.Part], Clean(m.Part))
	if m.Part == "message" || m.Part == "provenance" {
		what += " " + strconv.Itoa(m.Position)
	}
	what += suffixed(prefixed(" (block ", Clean(m.Block)), ")")
	switch {
	case m.Part == "message" && m.Position < 0:
		return "the list of messages did not arrive"
	case !m.Withheld:
		return what + " did not arrive"
	case m.Have > 0:
		return fmt.Sprintf("%s was cut or redacted: %s of %s bytes are there", what, exact(m.Have), exact(m.Bytes))
	}
	return fmt.Sprintf("%s was withheld at the source: %s bytes", what, exact(m.Bytes))
}

// NewRequest returns a request of a turn of t. It puts the payload together and reads its parts.
func NewRequest(t session.Tree, run *session.Run, turn *session.Turn, q *session.Request) *Request {
	r := &Request{
		TurnHead: newTurnHead(t, run, turn), Attempt: q.Attempt, Attempts: len(turn.Requests), Capture: turn.Capture,
		Model: turn.Model, Provider: turn.Provider, request: q, blocks: t.Blocks,
	}
	if len(turn.Requests) > 1 {
		r.Address += "/" + strconv.FormatInt(q.Attempt, 10)
	}
	p := q.Payload(t.Blocks)
	r.Payload, r.Exact, r.Redacted, r.Stated, r.Defects = p, p.Exact, p.Redacted, p.Stated, p.Defects
	if p.Bytes != nil {
		sum := sha256.Sum256(p.Bytes)
		r.Bytes, r.SHA256 = int64(len(p.Bytes)), hex.EncodeToString(sum[:])
	}
	r.Missing = each(p.Missing, func(m session.MissingPart) MissingPart {
		text, size, _ := t.Blocks.Cut(session.Ref{Block: m.Block})
		return MissingPart{m, size, int64(len(text))}
	})
	for n := range t.Walk() {
		r.redactor = r.redactor || n.Span().Redacted > 0
	}
	r.System, r.Tools = r.param(spans.ProvenanceSystem), r.param(spans.ProvenanceTools)
	r.Params = r.param(spans.ProvenanceRest)
	r.messages()
	return r
}

// part reads a part from the blocks.
func (r *Request) part(ref session.Ref, isNew bool) *RequestPart {
	p := &RequestPart{Block: ref.Block}
	if r.request.Messages != nil && r.request.Messages.Complete { // else the request before is not known
		p.New = &isNew
	}
	p.text, p.Bytes, p.State = Content(r.blocks, ref)
	switch p.State {
	case "":
		p.Body = session.RawJSON(p.text)
	case StateCut:
		p.Body = session.RawJSON(rawjson.Quote(nil, p.text))
	}
	p.Redacted = r.redactor && strings.Contains(p.text, "[redacted:")
	return p
}

// Content returns a body, its size, and why it is not there: StateMissing, StateCut or StateWithheld. Of one that was
// cut it returns the beginning.
func Content(blocks *session.BlockSet, ref session.Ref) (text string, size int64, state string) {
	body, ok := blocks.Body(ref)
	if ok {
		return body, int64(len(body)), ""
	}
	switch text, size, ok = blocks.Cut(ref); {
	case !ok:
		return "", 0, StateMissing
	case text == "":
		return "", size, StateWithheld
	}
	return text, size, StateCut
}

// param returns the system prompt, the tools or the other parameters; nil where there are none.
func (r *Request) param(kind spans.ProvenanceKind) *RequestPart {
	ref := r.request.Param(kind)
	if ref.Block == "" {
		return nil
	}
	return r.part(ref, ref != r.request.Before().Param(kind))
}

func (r *Request) messages() {
	if r.request.Messages == nil {
		return
	}
	r.Count = r.request.Messages.Count
	placed := false
	for _, m := range r.request.ReadMessages(r.blocks) {
		p := r.part(m.Ref, m.New)
		p.Index, p.Role, p.from = &m.Position, m.Role, source(&m)
		switch {
		case m.Source != (spans.Provenance{}):
			p.Provenance = session.RawJSON(m.Source.AppendJSON(nil))
		case m.Provenance != "":
			p.Provenance = session.RawJSON(rawjson.Quote(nil, m.Provenance))
		}
		placed = placed || m.Provenance != ""
		r.Messages = append(r.Messages, *p)
	}
	if !placed && len(r.Messages) > 0 && r.Params != nil {
		var rest struct{ Provenance []json.RawMessage }
		_ = json.Unmarshal([]byte(r.Params.text), &rest) // what does not fit says nothing
		r.Misaligned = rest.Provenance != nil && len(rest.Provenance) != len(r.Messages)
	}
}

// source says in words where a message came from.
func source(m *session.Message) string {
	s := &m.Source
	of := ""
	switch s.Kind {
	case "":
		return Clean(cmp.Or(s.Raw, m.Provenance))
	case spans.ProvenanceLoopTurn:
		return fmt.Sprintf("turn %d:%d %s", s.TurnIndex, s.MessageIndex, Clean(s.Role))
	case spans.ProvenanceIdentityBlock:
		of = fmt.Sprintf(" %s:%d", s.Name, s.Order)
	case spans.ProvenanceMemoryTier:
		of = " " + s.Tier + ":" + s.RecordID
	}
	return Clean(string(s.Kind) + of)
}

// state says whether a part is new, and what is not there.
func (p *RequestPart) state(capture spans.Capture) string {
	isNew, state, redacted, st := "", p.State, "", plainText
	if p.New != nil {
		isNew = map[bool]string{true: "new", false: "seen before"}[*p.New]
		st = map[bool]style{false: dim}[*p.New]
	}
	if state == StateWithheld && capture == spans.CaptureDigests { // digests withhold all
		state = ""
	}
	if p.Redacted {
		redacted = "redacted"
	}
	if state+redacted != "" {
		st = yellow
	}
	return st.of(joined(", ", isNew, state, redacted))
}

// Provenance writes a request as a table: the system prompt, the tools, the other parameters, then one line a
// message. The error is that of the writer.
func (r *Request) Provenance(w io.Writer, o Options) error {
	d := newDrawer(w, o)
	r.header(d)
	var rows [][]string
	add := func(index, from string, p *RequestPart) {
		if p == nil {
			return
		}
		size := ""
		if p.State != StateMissing {
			size = exact(p.Bytes)
		}
		// A role may be any word.
		rows = append(rows, []string{index, from, Clean(p.Role), size, dim.of(Clean(p.Block)), p.state(r.Capture)})
	}
	add("", "system prompt", r.System)
	add("", "tools", r.Tools)
	add("", "parameters", r.Params)
	unstated := "not stated"
	if r.Misaligned { // a note says so
		unstated = ""
	}
	for i := range r.Messages {
		p := &r.Messages[i]
		add(strconv.Itoa(*p.Index), cmp.Or(p.from, unstated), p)
	}
	d.line()
	d.table([]column{{name: "#", right: true}, {name: "PROVENANCE", flex: true}, {name: "ROLE", most: 12},
		{name: "BYTES", right: true}, {name: "BLOCK", most: 11}, {}}, rows, "BLOCK", "ROLE")
	return d.err
}

// header draws the properties of a request.
func (r *Request) header(d *drawer) {
	d.field("session", Clean(r.Session))
	attempt := ""
	if r.Attempts > 1 || r.Attempt > 0 {
		attempt = fmt.Sprintf("attempt %d (%d in all)", r.Attempt, r.Attempts)
	}
	d.field("request", fmt.Sprintf("run %d", r.RunNumber), fmt.Sprintf("turn %d", r.Turn), attempt, Clean(r.Model),
		Clean(r.Provider))
	size, whole := exact(r.Bytes)+" bytes", ""
	switch {
	case r.Exact:
		whole = "byte for byte"
	case r.Payload.Bytes == nil && r.Stated > 0:
		size, whole = exact(r.Stated)+" bytes when the loop emitted it", "not whole"
	case r.Payload.Bytes == nil:
		size, whole = "", "not whole"
	}
	d.field("size", plural(int(r.Count), "message"), size, whole)
	d.field("sha256", r.SHA256)
	if r.Capture == spans.CaptureDigests {
		d.field("note", "captured as digests: sizes and hashes, no content")
	}
	d.field("note", r.Note())
	if r.Misaligned {
		d.field("note", "the producer gave another number of provenances than messages; none is aligned by guess, "+
			"and what it gave stands in the parameters")
	}
	if n := int64(len(r.Messages)); r.request.Messages != nil && n < r.Count {
		d.field("note", fmt.Sprintf("of %d messages the last %d are known", r.Count, n))
	}
	if r.Capture != spans.CaptureDigests {
		d.missing(r.Missing)
	}
	d.defects(r.Defects)
}

// mostMissing bounds the missing parts that have a name.
const mostMissing = 8

// missing draws the missing parts of a request.
func (d *drawer) missing(list []MissingPart) {
	for _, m := range list[:min(mostMissing, len(list))] {
		d.field("missing", m.String())
	}
	if n := len(list) - mostMissing; n > 0 {
		d.field("missing", fmt.Sprintf("and %d more", n))
	}
}

func (d *drawer) defects(list []session.Defect) {
	for _, f := range findings(list) {
		d.field(f.label(), f.Text)
	}
}

// Note says how the payload differs from the bytes of the loop; empty where it does not, and where there is none.
func (r *Request) Note() string {
	switch {
	case r.Payload.Bytes == nil || r.Exact:
		return ""
	case r.Params == nil: // the loop gave no bytes
		return "the loop gave no bytes of this request: it was put together in a fixed order (system, messages, tools)"
	case r.Stated > 0 && r.Stated != r.Bytes:
		return fmt.Sprintf("a redactor changed this request before it left: these are %s bytes, the loop emitted %s",
			exact(r.Bytes), exact(r.Stated))
	}
	return "a redactor changed this request before it left"
}

// exact returns n with its digits in groups of three, from ten thousand on, where Count becomes shorter.
func exact(n int64) string {
	if -1e4 < n && n < 1e4 {
		return strconv.FormatInt(n, 10)
	}
	return humanize.Comma(n)
}
