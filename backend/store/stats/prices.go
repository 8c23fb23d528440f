package stats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
)

// Currency is the one in which LiteLLM's catalogue has its prices.
const Currency = "USD"

// maxPrices bounds a catalogue, in bytes: it has some 2 MB.
const maxPrices = 64 << 20

// maxPrice is the greatest price of a token that is believed.
const maxPrice = 1e6

// Prices are those of models, per token. Use ReadPrices. There are none in this program: they change too often.
type Prices struct{ models map[string]price }

// price is what a token costs; nil: as one of Input or Output.
type price struct {
	Input, Output                    float64
	CacheRead, CacheWrite, Reasoning *float64
}

// ReadPrices reads a catalogue in the format of LiteLLM's model_prices_and_context_window.json
// (https://github.com/BerriAI/litellm): an object with one object a model, of which input_cost_per_token,
// output_cost_per_token, cache_read_input_token_cost, cache_creation_input_token_cost and
// output_cost_per_reasoning_token are read. A model without both of the first two has no price. Prices that depend on
// the length of a request, on batches or on tiers are not looked at. It fails for what is no such object, is larger
// than 64 MiB, or has no price at all; the error holds nothing of the text.
func ReadPrices(r io.Reader) (*Prices, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPrices+1))
	if err != nil {
		return nil, fmt.Errorf("stats: read prices: %w", err)
	}
	if len(data) > maxPrices {
		return nil, fmt.Errorf("stats: prices: more than %d bytes", maxPrices)
	}
	var models map[string]json.RawMessage
	if err := json.Unmarshal(data, &models); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("stats: prices: no JSON, at byte %d", syntax.Offset)
		}
		return nil, errors.New("stats: prices: want a JSON object with one object a model")
	}
	p := &Prices{models: map[string]price{}}
	for name, text := range models {
		var fields map[string]json.RawMessage
		if json.Unmarshal(text, &fields) != nil {
			continue
		}
		number := func(key string) *float64 {
			var v *float64
			if json.Unmarshal(fields[key], &v) != nil || v == nil || *v < 0 || *v > maxPrice {
				return nil
			}
			return v
		}
		in, out := number("input_cost_per_token"), number("output_cost_per_token")
		if in == nil || out == nil || name == "sample_spec" { // which explains the format
			continue
		}
		p.models[strings.ToLower(name)] = price{
			Input: *in, Output: *out, CacheRead: number("cache_read_input_token_cost"),
			CacheWrite: number("cache_creation_input_token_cost"),
			Reasoning:  number("output_cost_per_reasoning_token"),
		}
	}
	if len(p.models) == 0 {
		return nil, errors.New("stats: prices: no model has input_cost_per_token and output_cost_per_token")
	}
	return p, nil
}

// litellm are the names that LiteLLM's catalogue has for providers whose gen_ai.provider.name is another.
var litellm = map[string]string{
	"x_ai": "xai", "azure.ai.openai": azure, "gcp.gemini": "gemini", "gcp.vertex_ai": "vertex_ai", "mistral_ai": "mistral",
	"aws.bedrock": "bedrock",
}

// azure is the provider whose models have prices of their own: one of a model's maker is not that.
const azure = "azure"

// of returns the price of a turn's tokens, in Currency, nil for none. It takes that of PROVIDER/MODEL, with the
// provider's name as it came, then with LiteLLM's, else of MODEL except for Azure; first of the model that answered,
// then of the one that was asked.
func (p *Prices) of(t *session.TurnFigures) *price {
	provider := strings.ToLower(t.Provider)
	other, renamed := litellm[provider]
	for _, model := range []string{t.ResponseModel, t.Model} {
		if model == "" {
			continue
		}
		model = strings.ToLower(model)
		names := []string{provider + "/" + model}
		if renamed {
			names = append(names, other+"/"+model)
		}
		if provider != azure && other != azure {
			names = append(names, model)
		}
		for _, name := range names {
			if x, ok := p.models[name]; ok {
				return &x
			}
		}
	}
	return nil
}

// cost returns what a turn's tokens cost. Cached tokens are part of the input, and reasoning of the output: each token
// is paid once.
func (x *price) cost(t *session.TurnFigures) float64 {
	or := func(v *float64, other float64) float64 {
		if v == nil {
			return other
		}
		return *v
	}
	tokens := func(n int64) float64 { return float64(max(0, n)) }
	return tokens(t.Input.V-t.CacheRead.V-t.CacheWrite.V)*x.Input + tokens(t.CacheRead.V)*or(x.CacheRead, x.Input) +
		tokens(t.CacheWrite.V)*or(x.CacheWrite, x.Input) +
		tokens(t.Output.V-t.Reasoning.V)*x.Output + tokens(t.Reasoning.V)*or(x.Reasoning, x.Output)
}

// Cost returns what a turn's tokens cost, in Currency. ok is false when its model has no price, and when its tokens are
// not known.
func (p *Prices) Cost(t *session.TurnFigures) (amount float64, ok bool) {
	if !t.Input.OK {
		return 0, false
	}
	x := p.of(t)
	if x == nil {
		return 0, false
	}
	return x.cost(t), true
}
