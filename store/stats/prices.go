package stats

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/otelagent/otelagent/session"
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
// (https://github.com/BerriAI/litellm): an object with one object a model, of which input_cost_per_token, output_cost_per_token,
// cache_read_input_token_cost, cache_creation_input_token_cost and output_cost_per_reasoning_token are read. A model without both of the
// first two has no price. Prices that depend on the length of a request, on batches or on tiers are not looked at. It fails for what is
// no such object, is larger than 64 MiB, or has no price at all; the error holds nothing of the text.
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
			Input: *in, Output: *out, CacheRead: number("cache_read_input_token_cost"), CacheWrite: number("cache_creation_input_token_cost"),
			Reasoning: number("output_cost_per_reasoning_token"),
		}
	}
	if len(p.models) == 0 {
		return nil, errors.New("stats: prices: no model has input_cost_per_token and output_cost_per_token")
	}
	return p, nil
}

// Of returns what a turn cost, in Currency. It takes the price of PROVIDER/MODEL, else of MODEL, first of the model that answered, then of
// the one that was asked; false when none of them has one, or the turn reports no tokens. Cached tokens are part of the input, and reasoning
// of the output: each token is paid once.
func (p *Prices) Of(t *session.TurnFigures) (float64, bool) {
	if !t.Input.OK {
		return 0, false
	}
	x := p.of(t)
	if x == nil {
		return 0, false
	}
	return x.cost(t), true
}

// of returns the price of a turn's tokens, nil for none.
func (p *Prices) of(t *session.TurnFigures) *price {
	for _, model := range []string{t.ResponseModel, t.Model} {
		if model == "" {
			continue
		}
		for _, name := range []string{t.Provider + "/" + model, model} {
			if x, ok := p.models[strings.ToLower(name)]; ok {
				return &x
			}
		}
	}
	return nil
}

func (x *price) cost(t *session.TurnFigures) float64 {
	or := func(v *float64, other float64) float64 {
		if v == nil {
			return other
		}
		return *v
	}
	tokens := func(n int64) float64 { return float64(max(0, n)) }
	return tokens(t.Input.V-t.CacheRead.V-t.CacheWrite.V)*x.Input + tokens(t.CacheRead.V)*or(x.CacheRead, x.Input) + tokens(t.CacheWrite.V)*or(x.CacheWrite, x.Input) +
		tokens(t.Output.V-t.Reasoning.V)*x.Output + tokens(t.Reasoning.V)*or(x.Reasoning, x.Output)
}
