package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// ErrAsSent is the error about a change of a request that is wanted as it was sent.
var ErrAsSent = errors.New("a request as it was sent has its own model and system prompt: name an API to replace them")

// Options say how a body is made.
type Options struct {
	API message.API
	// Model and System replace those of the request. An empty Model and a nil System do not.
	Model  string
	System *string
	// Turn states model, parameters and level of reasoning where the request does not. It may be nil.
	Turn *session.Turn
	// Whole turns streaming off.
	Whole bool
}

// Body is a request body.
type Body struct {
	API   message.API `json:"form"`
	Bytes []byte      `json:"-"`
	// Unchanged says that Bytes are the request as it was captured.
	Unchanged bool `json:"unchanged"`
	// Notes name what differs from the request.
	Notes []string `json:"notes,omitempty"`
}

// Convert returns a captured request as a body for the API that o names. A request that is one already comes back byte
// for byte, but for what o replaces. Bytes share memory with payload. The error is message.ErrNoRequest or ErrAsSent.
func Convert(payload []byte, o Options) (*Body, error) {
	r, err := message.ReadRequest(payload)
	b := &Body{API: o.API, Bytes: payload, Unchanged: true}
	switch {
	case o.API == AsSent && (o.Model != "" || o.System != nil):
		return nil, ErrAsSent
	case o.API == AsSent && err != nil:
	case err != nil:
		return nil, err
	case o.API == AsSent || r.Native(o.API):
		b.edit(r, o)
	default:
		added := complete(r, o)
		b.Bytes, b.Notes = r.Write(o.API)
		b.Notes, b.Unchanged = append(added, b.Notes...), false
	}
	return b, nil
}

// complete replaces what o replaces, and adds what the turn states and r does not.
func complete(r *message.Request, o Options) (notes []string) {
	if r.Model = cmp.Or(o.Model, r.Model); o.System != nil {
		r.System = message.Blocks(message.Quote(*o.System))
	}
	t := o.Turn
	if t == nil {
		return nil
	}
	if r.Model == "" && t.Model != "" {
		r.Model, notes = t.Model, append(notes, "added: the model that the turn states")
	}
	if r.Params[message.MaxTokens] == nil && t.MaxTokens != nil {
		r.Params[message.MaxTokens] = strconv.AppendInt(nil, *t.MaxTokens, 10)
		notes = append(notes, "added: max tokens that the turn states")
	}
	if f := t.Temperature; r.Params[message.Temperature] == nil && f != nil {
		r.Params[message.Temperature] = strconv.AppendFloat(nil, *f, 'g', -1, 64)
		notes = append(notes, "added: temperature that the turn states")
	}
	if r.Effort == "" && t.Level != "" {
		r.Effort, notes = t.Level, append(notes, "added: level of reasoning that the turn states")
	}
	return notes
}

// edit puts another model and prompt into a body, and turns streaming off. Everything else stays as it is spelled.
func (b *Body) edit(r *message.Request, o Options) {
	if o.Model != "" && o.Model != r.Model {
		b.set("model", message.Quote(o.Model))
	}
	if o.System != nil {
		b.system(message.Quote(*o.System))
	}
	if o.Whole && r.Stream {
		b.set("stream", []byte("false"))
		b.set("stream_options", nil)
		b.Notes = append(b.Notes, "changed: streaming is turned off")
	}
}

// set replaces or adds a member; a nil value removes it.
func (b *Body) set(key string, value []byte) {
	var pairs []any
	for k, v := range object.Of("", b.Bytes).All() {
		if k == key {
			v, value = value, nil
		}
		pairs = append(pairs, k, v)
	}
	b.Bytes, b.Unchanged = message.Build(append(pairs, key, value)...), false
}

// system replaces the system prompt where the body has it: in a member of its own, or in the first messages.
func (b *Body) system(prompt []byte) {
	top := object.Of("", b.Bytes)
	key, list := "", "messages"
	switch b.API {
	case message.Anthropic:
		key = "system"
	case message.OpenAIResponses:
		key, list = "instructions", "input"
	}
	role, rest := "", rawjson.Elements(top.Raw(list))
	for len(rest) > 0 && !top.Has(key) {
		name := object.Of("", rest[0]).String("role")
		if name != "system" && name != "developer" {
			break
		}
		role, rest = name, rest[1:]
	}
	if key != "" && role == "" {
		b.set(key, prompt)
		return
	}
	first := message.Build("role", cmp.Or(role, "system"), "content", prompt)
	b.set(list, message.Array(append([]json.RawMessage{first}, rest...)))
}
