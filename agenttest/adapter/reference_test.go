package adapter_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/spans"
)

// wire reads what spans carry by the letter of spans/README.md, slowly and without the code of package session: what the
// adapter writes is checked against the format, not against the reader that comes with it.
type wire struct {
	bodies   map[spans.ShortID]string
	withheld map[spans.ShortID]spans.Withheld
	lists    []wireList
	sent     map[sentBody]int // how often
	notes    []spans.ShortID  // bodies of otelagent.event
	size     int              // bytes of bodies and lists
}

type sentBody struct {
	session string
	id      spans.ShortID
}

type wireList struct {
	spans.List
	turn int64
	run  string
}

func readWire(t testing.TB, stubs tracetest.SpanStubs) *wire {
	t.Helper()
	w := &wire{bodies: map[spans.ShortID]string{}, withheld: map[spans.ShortID]spans.Withheld{}, sent: map[sentBody]int{}}
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
						w.bodies[spans.BlockOfString(text).Short()] = text
					}
				case spans.BlockWithheldKey:
					for _, text := range kv.Value.AsStringSlice() {
						w.size += len(text)
						b, err := spans.ParseWithheld(text)
						if err != nil {
							t.Fatal(err)
						}
						w.withheld[b.Block.Short()] = b
					}
				case spans.ListsKey:
					for _, text := range kv.Value.AsStringSlice() {
						w.size += len(text)
						l, err := spans.ParseList(text)
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
				}
			}
		}
	}
	return w
}

// expand puts a template together; part gives the parts of a request.
func (w *wire) expand(template string, part func(mark, sep string) (string, bool)) (string, bool) {
	var out strings.Builder
	for template != "" {
		n := 1
		switch {
		case template[0] == 1 && (template[1] == 1 || template[1] == 2):
			out.WriteByte(template[1])
			n = 2
		case template[0] == 1:
			id, err := spans.ParseShortID(template[1:12])
			text, ok := w.bodies[id]
			if err != nil || !ok {
				return "", false
			}
			out.WriteString(text)
			n = 12
		case template[0] == 2:
			n = 2
			sep := ""
			if template[1] == 'm' {
				sep, _, _ = strings.Cut(template[2:], "\x02")
				n += len(sep) + 1
			}
			text, ok := part(template[1:2], sep)
			if !ok {
				return "", false
			}
			out.WriteString(text)
		default:
			out.WriteByte(template[0])
		}
		template = template[n:]
	}
	return out.String(), true
}

// body returns what a block says, if it can be had.
func (w *wire) body(id spans.ShortID) (string, bool) {
	text, ok := w.bodies[id]
	if !ok {
		return "", false
	}
	return w.expand(text, func(string, string) (string, bool) { return "", true })
}

// holds reports whether a text arrived: as a body, or as part of one.
func (w *wire) holds(text string) bool {
	for id := range w.bodies {
		if body, ok := w.body(id); ok && body == text {
			return true
		}
	}
	return false
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
	for i, text := range texts {
		it, err := spans.ParseItem(text)
		if err != nil {
			return nil, nil, err
		}
		body, ok := w.body(it.Block)
		if !ok {
			return nil, nil, fmt.Errorf("block %s at %d is missing", it.Block, i)
		}
		items, bodies = append(items, it), append(bodies, body)
	}
	return items, bodies, nil
}

// wholeOf returns the wire form of spans.Whole of a text.
func wholeOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%d:%s", len(text), base64.RawURLEncoding.EncodeToString(sum[:])[:16])
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
		if it.Provenance == "rest" {
			of["rest"] = w.bodies[it.Block]
		}
	}
	items, bodies, err = w.read(request)
	if err != nil {
		return "", fmt.Errorf("request: %w", err)
	}
	next := 0
	out, ok := w.expand(of["rest"], func(mark, sep string) (string, bool) {
		switch mark {
		case "s":
			return of["system"], true
		case "t":
			return of["tools"], true
		case "m":
			return strings.Join(bodies, sep), true
		case "e":
			next++
			return bodies[next-1], true
		case "p":
			var from []string
			for _, it := range items {
				p, err := spans.ParseProvenance(it.Provenance)
				if err != nil {
					return "", false
				}
				from = append(from, string(p.AppendJSON(nil)))
			}
			return strings.Join(from, ","), true
		}
		return "", false
	})
	if !ok {
		return "", fmt.Errorf("rest: something is missing")
	}
	if got := wholeOf(out); got != params.Whole {
		return "", fmt.Errorf("it comes to %s, not %s", got, params.Whole)
	}
	return out, nil
}

// collect returns a provider whose spans can be read when they ended.
func collect(t testing.TB) (*sdktrace.TracerProvider, *tracetest.InMemoryExporter) {
	t.Helper()
	exp := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exp))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, exp
}
