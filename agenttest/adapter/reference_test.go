package adapter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// wire reads what spans carry by the letter of docs/formats.md, slowly and without the code of package session: what the
// adapter writes is checked against the format, not against the reader that comes with it.
type wire struct {
	bodies  map[spans.ShortID]string
	recipes map[spans.ShortID][]spans.Recipe
	lists   []wireList
	sent    map[sentBody]int // how often, echoes not counted
	notes   []spans.ShortID  // bodies of otelagent.event
	size    int              // bytes of bodies, recipes, lists and echoes
}

type sentBody struct {
	session string
	id      spans.ShortID
}

type wireList struct {
	spans.PackedList
	turn int64
	run  string
}

func readWire(t testing.TB, stubs tracetest.SpanStubs) *wire {
	t.Helper()
	w := &wire{bodies: map[spans.ShortID]string{}, recipes: map[spans.ShortID][]spans.Recipe{}, sent: map[sentBody]int{}}
	body := func(text string) { w.bodies[spans.BlockOfString(text).Short()] = text }
	recipe := func(text string) {
		r, err := spans.ParseRecipe(text)
		if err != nil {
			t.Fatal(err)
		}
		w.recipes[r.ID.Short()] = append(w.recipes[r.ID.Short()], r)
	}
	for _, s := range stubs {
		session, run, turn := "", "", int64(-1)
		for _, kv := range s.Attributes {
			switch kv.Key {
			case spans.SessionIDKey:
				session = kv.Value.AsString()
			case spans.RunIDKey:
				run = kv.Value.AsString()
			case spans.TurnIndexKey:
				turn = kv.Value.AsInt64()
			}
		}
		for _, e := range s.Events {
			for _, kv := range e.Attributes {
				switch kv.Key {
				case spans.BlockBodiesKey:
					for _, text := range kv.Value.AsStringSlice() {
						w.size += len(text)
						w.sent[sentBody{session, spans.BlockOfString(text).Short()}]++
						body(text)
					}
				case spans.BlockPartsKey:
					for _, text := range kv.Value.AsStringSlice() {
						w.size += len(text)
						recipe(text)
					}
				case spans.ListsKey:
					for _, text := range kv.Value.AsStringSlice() {
						w.size += len(text)
						l, err := spans.ParsePackedList(text, run)
						if err != nil {
							t.Fatal(err)
						}
						w.lists = append(w.lists, wireList{l, turn, run})
					}
				case spans.EventBodyKey:
					id, err := spans.ParseShortID(kv.Value.AsString())
					if err != nil {
						t.Fatal(err)
					}
					w.notes = append(w.notes, id)
				case spans.EchoBlocksKey:
					frame := kv.Value.AsByteSlice()
					w.size += len(frame)
					d, _ := zstd.NewReader(nil)
					stretch, err := d.DecodeAll(frame, nil)
					d.Close()
					if err == nil {
						err = spans.Echo(stretch, func(text []byte, isRecipe bool) {
							if isRecipe {
								recipe(string(text))
							} else {
								body(string(text))
							}
						})
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	return w
}

// body returns the body of a block, if it can be had.
func (w *wire) body(id spans.ShortID, depth int) (string, bool) {
	if text, ok := w.bodies[id]; ok {
		return text, true
	}
	for _, r := range w.recipes[id] {
		var b strings.Builder
		for _, p := range r.Pieces {
			text, ok := p.Text, true
			if p.Block != (spans.ShortID{}) {
				if text, ok = "", depth > 0; ok {
					text, ok = w.body(p.Block, depth-1)
				}
				if ok && p.To >= 0 {
					text = text[p.From:p.To]
				}
			}
			if !ok {
				break
			}
			b.WriteString(text)
		}
		if text := b.String(); int64(len(text)) == r.Size && spans.BlockOfString(text).Short() == id {
			return text, true
		}
	}
	return "", false
}

// items returns all items of a list, or false when its prefix is not known.
func (w *wire) items(l *wireList) ([]string, bool) {
	if l.Prefix == "" {
		return l.Items, true
	}
	n, mark, err := spans.ParsePrefix(l.Prefix)
	if err != nil {
		return nil, false
	}
	for i := range w.lists {
		other := &w.lists[i]
		from := int64(0)
		at := spans.Mark{}
		if other.Prefix != "" {
			from, at, _ = spans.ParsePrefix(other.Prefix)
		}
		for k := 0; from+int64(k) <= n; k++ {
			if from+int64(k) == n && at == mark && (other.Prefix == "" || from < n) {
				if before, ok := w.items(other); ok {
					return append(append([]string{}, before[:n]...), l.Items...), true
				}
			}
			if k == len(other.Items) {
				break
			}
			at = at.Add(other.Items[k])
		}
	}
	return nil, false
}

// read returns the bodies of a list and its items, or what is missing.
func (w *wire) read(l *wireList) (items []spans.Item, bodies []string, err error) {
	texts, ok := w.items(l)
	if !ok {
		return nil, nil, fmt.Errorf("prefix %s is not known", l.Prefix)
	}
	if int64(len(texts)) != l.Count {
		return nil, nil, fmt.Errorf("%d of %d items", len(texts), l.Count)
	}
	var chain spans.Chain
	for i, text := range texts {
		it, err := spans.ParseItem(text)
		if err != nil {
			return nil, nil, err
		}
		body, ok := w.body(it.Block, 8)
		if !ok {
			return nil, nil, fmt.Errorf("block %s at %d is missing", it.Block, i)
		}
		chain = chain.Add(spans.BlockOfString(body), it)
		items, bodies = append(items, it), append(bodies, body)
	}
	if !chain.Fits(l.Digest) {
		return nil, nil, fmt.Errorf("the digest does not fit")
	}
	return items, bodies, nil
}

// payload returns the request of a turn byte for byte, or why not. Of runs with one id and index it is the nth.
func (w *wire) payload(run string, turn, attempt int64, nth int) (string, error) {
	var params, request *wireList
	skipped := map[string]int{}
	for i := range w.lists {
		l := &w.lists[i]
		if l.run != run || l.turn != turn || l.Attempt != attempt {
			continue
		}
		if skipped[l.Name]++; skipped[l.Name] != nth+1 {
			continue
		}
		switch l.Name {
		case spans.ListParams:
			params = l
		case spans.ListRequest:
			request = l
		}
	}
	if params == nil || request == nil {
		return "", fmt.Errorf("its lists are missing")
	}
	items, bodies, err := w.read(params)
	if err != nil {
		return "", fmt.Errorf("params: %w", err)
	}
	of := map[string]string{}
	for i, it := range items {
		of[it.Provenance] = bodies[i]
	}
	if whole, ok := of["payload"]; ok {
		return whole, nil
	}
	if of["frame"] == "" {
		return "", fmt.Errorf("no frame")
	}
	f, err := spans.ParseFrame(of["frame"])
	if err != nil {
		return "", err
	}
	items, bodies, err = w.read(request)
	if err != nil {
		return "", fmt.Errorf("request: %w", err)
	}
	out := []byte{'{'}
	for i, key := range f.Keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), key...), `":`...)
		switch key {
		case f.System:
			out = append(out, of["system"]...)
		case f.Tools:
			out = append(out, of["tools"]...)
		case f.Messages, f.Provenance:
			out = append(out, '[')
			for j, it := range items {
				if j > 0 {
					out = append(out, ',')
				}
				if key == f.Messages {
					out = f.Shapes.AppendSpelled(out, []byte(bodies[j]), []byte(it.Envelope))
					continue
				}
				p, err := spans.ParseProvenance(it.Provenance)
				if err != nil {
					return "", err
				}
				out = p.AppendJSON(out)
			}
			out = append(out, ']')
		default:
			value, ok := memberOf(of["rest"], key)
			if !ok {
				return "", fmt.Errorf("%s is missing in rest", key)
			}
			out = append(out, value...)
		}
	}
	return string(append(out, '}')), nil
}

// collect returns a provider whose spans can be read when they ended.
func collect(t testing.TB) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exp))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, exp
}

// memberOf returns a member of a JSON object as it is spelled.
func memberOf(object, key string) (string, bool) {
	c := rawjson.NewCursor([]byte(object), rawjson.MaxDepth)
	for c.Open('{'); c.More('}'); {
		k, v := c.RawKey(), c.Value()
		if string(k[1:len(k)-1]) == key {
			return string(v), true
		}
	}
	return "", false
}
