package agentsessionexporter

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/internal/metadatatest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// secret has the form of a key that the default set knows.
const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

func redacting(rules string) func(*Config) {
	return func(c *Config) { c.Redaction = RedactionConfig{Enabled: true, Rules: rules} }
}

func redactorOf(t *testing.T, rules string) *redactor {
	t.Helper()
	cfg := RedactionConfig{Enabled: true}
	if rules != "" {
		cfg.Rules = filepath.Join(t.TempDir(), "rules.yaml")
		require.NoError(t, os.WriteFile(cfg.Rules, []byte(rules), 0o600))
	}
	r, err := newRedactor(&cfg)
	require.NoError(t, err)
	return r
}

// everything returns all that readers can get of a store, unpacked.
func everything(t *testing.T, st store.Store) string {
	t.Helper()
	var b strings.Builder
	for sum, err := range st.Sessions(t.Context(), store.Query{}) {
		require.NoError(t, err)
		for row, err := range st.Rows(t.Context(), sum.Key) {
			require.NoError(t, err)
			b.Write(row.AppendCanonical(nil))
		}
		for block, err := range st.Blocks(t.Context(), sum.Key) {
			require.NoError(t, err)
			b.WriteString(block.Body)
		}
	}
	return b.String()
}

// A secret that the producer left in the recordings of the real loop is in no byte of the file, plain or packed, and
// not in the tables of the agent guide. A request that held it is given back as one that is not whole; every other one
// byte for byte.
func TestLateFinds(t *testing.T) {
	held := 0
	for i, f := range phifixtures.All(t, "../..") {
		if testing.Short() && i%4 != 0 {
			continue
		}
		// Behind the beginning of every text that a user, a model or a tool wrote.
		events := bytes.ReplaceAll(f.Events, []byte(`"text":"`), []byte(`"text":"the key is `+secret+`, `))
		if bytes.Equal(events, f.Events) {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			td := recorded(t, events)
			plain := setup(t, nil)
			require.NoError(t, plain.exp.ConsumeTraces(t.Context(), td))
			require.Contains(t, everything(t, plain.store), secret, "the secret gets as far as here")
			want := read(t, plain.store)

			b := setup(t, nil, redacting(""), func(c *Config) { c.ChatTables = true })
			require.NoError(t, b.exp.ConsumeTraces(t.Context(), td))
			require.NotContains(t, everything(t, b.store), secret)
			got := read(t, b.store)
			require.Len(t, got, len(want))
			for key, w := range want {
				if !strings.Contains(w, secret) {
					require.Equal(t, w, got[key], key)
					continue
				}
				held++
				require.False(t, strings.HasPrefix(got[key], "true"), "%s: %.300s", key, got[key])
				require.NotContains(t, got[key], secret[4:])
			}
			finds, err := b.tel.GetMetric("otelcol_exporter_agent_session_redactions")
			require.NoError(t, err)
			require.NotEmpty(t, finds.Data.(metricdata.Sum[int64]).DataPoints)

			require.NoError(t, b.shutdown()) // the guide's tables are current then
			files, err := filepath.Glob(b.cfg.Storage + "*")
			require.NoError(t, err)
			require.NotEmpty(t, files)
			for _, name := range files {
				raw, err := os.ReadFile(name)
				require.NoError(t, err)
				require.NotContains(t, string(raw), secret, name)
			}
		})
	}
	require.NotZero(t, held, "requests that held the secret")
}

// Wherever content can be on a span or a log record, it is looked at and counted.
func TestEveryPlaceIsRedacted(t *testing.T) {
	text := "use " + secret + " for it"
	left := "use [redacted:api-key] for it"
	blocks := func(s ptrace.Span, key, value string) {
		e := s.Events().AppendEmpty()
		e.SetName(spans.EventBlocks)
		e.Attributes().PutEmptySlice(key).AppendEmpty().SetStr(value)
	}
	id := spans.BlockOfString(text)
	for name, tt := range map[string]struct {
		put   func(ptrace.Span)
		where string
		check func(*testing.T, session.Batch)
	}{
		"attribute of content": {
			func(s ptrace.Span) { s.Attributes().PutStr(string(spans.ErrorMessageKey), text) }, "attribute",
			func(t *testing.T, b session.Batch) {
				require.Equal(t, left, b.Rows[0].Attr(spans.ErrorMessageKey).Str())
			},
		},
		"attribute that nobody knows": {
			func(s ptrace.Span) { s.Attributes().PutStr("acme.note", `{"a":"`+text+`"}`) }, "attribute",
			func(t *testing.T, b session.Batch) {
				require.Equal(t, `{"a":"`+left+`"}`, b.Rows[0].Attr("acme.note").Str())
			},
		},
		"list of strings": {
			func(s ptrace.Span) {
				l := s.Attributes().PutEmptySlice("acme.notes")
				l.AppendEmpty().SetStr("fine")
				l.AppendEmpty().SetStr(text)
			}, "attribute",
			func(t *testing.T, b session.Batch) {
				require.Equal(t, []string{"fine", left}, b.Rows[0].Attr("acme.notes").Strings())
			},
		},
		"structured attribute": {
			func(s ptrace.Span) { s.Attributes().PutEmptyMap("acme.map").PutStr("deep", text) }, "attribute",
			func(t *testing.T, b session.Batch) {
				require.Equal(t, `{"deep":"`+left+`"}`, b.Rows[0].Attr("acme.map").Str())
			},
		},
		"block": {
			func(s ptrace.Span) { blocks(s, string(spans.BlockBodiesKey), text) }, "block",
			func(t *testing.T, b session.Batch) {
				require.Equal(t, []session.Block{{Session: b.Rows[0].Session, ID: id, Body: left, Size: int64(len(text))}},
					b.Blocks)
			},
		},
		"block of JSON": {
			func(s ptrace.Span) { blocks(s, string(spans.BlockBodiesKey), `{"role":"user","content":"`+text+`"}`) }, "block",
			func(t *testing.T, b session.Batch) {
				require.Equal(t, `{"role":"user","content":"`+left+`"}`, b.Blocks[0].Body)
			},
		},
		"withheld block": {
			func(s ptrace.Span) {
				w := spans.Withheld{Block: id, Size: int64(len(text)) + 1, Beginning: text}
				blocks(s, string(spans.BlockWithheldKey), w.Encode())
			}, "block",
			func(t *testing.T, b session.Batch) {
				require.Equal(t, []session.Block{{Session: b.Rows[0].Session, ID: id, Body: left, Size: int64(len(text)) + 1}},
					b.Blocks)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			td := traces("a")
			tt.put(td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0))
			batch, _ := otlprow.Decode(td)
			before, _ := otlprow.Decode(td)
			finds := redactorOf(t, "").batch(&batch)
			tt.check(t, batch)
			require.NotEqual(t, before, batch)
			require.Equal(t, map[string]int{"attribute": 0, "block": 0, "item": 0, tt.where: 1},
				map[string]int{"attribute": finds.attribute, "block": finds.block, "item": finds.item})

			ex := setup(t, nil, redacting("default"))
			td.MarkReadOnly()
			require.NoError(t, ex.exp.ConsumeTraces(t.Context(), td))
			metadatatest.AssertEqualExporterAgentSessionRedactions(t, ex.tel, point(1, where(tt.where)), ignore...)
			require.NotContains(t, everything(t, ex.store), secret)
		})
	}
}

// Clean content, ids, numbers and names stay as they are.
func TestRedactionLeavesTheRest(t *testing.T) {
	td := traces(secret, "b")
	s := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(1)
	s.Attributes().PutStr(string(spans.ToolNameKey), secret)
	s.Attributes().PutInt("acme.pin", 1234)
	got, _ := otlprow.Decode(td)
	want, _ := otlprow.Decode(td)
	require.Equal(t, finds{}, redactorOf(t, "").batch(&got))
	require.Equal(t, want, got)

	var off *redactor
	require.Equal(t, finds{}, off.batch(&got))
}

// A rule by role reaches whole messages, in blocks and in the part of a reply that came in by then. A rule that needs
// what only producers know is refused.
func TestNarrowRules(t *testing.T) {
	r := redactorOf(t, `
defaults: false
rules:
- {name: tools, role: [toolResult]}
- {name: said, regexp: 'PIN \d+', role: [assistant]}
`)
	attr := func(text string) []session.Row {
		return []session.Row{{Attrs: []session.Attr{{Key: session.PartialOutputKey, Value: session.StringValue(text)}}}}
	}
	for body, want := range map[string]string{
		`{"role":"toolResult","content":"all of it"}`: `{"role":"toolResult","content":"[redacted:tools]"}`,
		`{"role":"assistant","content":"PIN 1"}`:      `{"role":"assistant","content":"[redacted:said]"}`,
		`{"role":"user","content":"PIN 1"}`:           `{"role":"user","content":"PIN 1"}`,
		`{"x":"PIN 2"}`:                               `{"x":"PIN 2"}`,
	} {
		b := session.Batch{Rows: attr(body), Blocks: []session.Block{{ID: spans.BlockOfString(body), Body: body}}}
		got := r.batch(&b)
		require.Equal(t, attr(want), b.Rows)
		require.Equal(t, want, b.Blocks[0].Body)
		size, n := int64(0), 0
		if want != body {
			size, n = int64(len(body)), 1
		}
		require.Equal(t, size, b.Blocks[0].Size)
		require.Equal(t, finds{attribute: n, block: n}, got)
	}
	for _, limit := range []string{"place: [args]", "provenance: [memory-tier]"} {
		file := filepath.Join(t.TempDir(), "rules.yaml")
		require.NoError(t, os.WriteFile(file, []byte("rules: [{name: pin, regexp: PIN, "+limit+"}]"), 0o600))
		_, err := newRedactor(&RedactionConfig{Enabled: true, Rules: file})
		require.ErrorContains(t, err, "redaction::rules: "+file+": a rule has the key place or provenance")
	}
}

// Nothing of a row that somebody else may hold is changed.
func TestRedactionCopies(t *testing.T) {
	attrs := []session.Attr{{Key: "acme.note", Value: session.StringValue(secret)}}
	lists := []session.List{{Name: spans.ListRequest, Items: []string{
		spans.Item{Block: spans.ShortID{1}, Provenance: "t:1:" + secret}.Encode(),
		spans.Item{Block: spans.ShortID{2}, Provenance: "t:1:" + secret}.Encode(),
		"no item " + secret,
	}}}
	item := lists[0].Items[0]
	b := session.Batch{Rows: []session.Row{{Attrs: attrs, Lists: lists}}}
	require.Equal(t, finds{attribute: 1, item: 3}, redactorOf(t, "").batch(&b))
	require.Equal(t, secret, attrs[0].Value.Str())
	require.Equal(t, item, lists[0].Items[0])
	require.Equal(t, []string{spans.ShortID{1}.String(), spans.ShortID{2}.String(), ""}, b.Rows[0].Lists[0].Items)
}

// A template of which rules cannot see all is withheld, with what it refers to.
func TestLargeTemplateIsWithheld(t *testing.T) {
	piece := strings.Repeat("x", 1<<20)
	id := spans.BlockOfString(piece).Short()
	template := []byte("[")
	for range maxRedacted>>20 - 1 {
		template = spans.Cut(template, strconv.Quote(piece[:spans.MinLiteral])+",",
			func(string) spans.ShortID { return id })
	}
	template = append(template, piece+piece+" the key is "+secret...)
	b := session.Batch{Blocks: []session.Block{{ID: spans.BlockOf(template), Body: string(template)},
		{ID: spans.BlockOfString(piece), Body: piece}, {ID: spans.BlockOfString("y"), Body: "y"}}}
	redactorOf(t, "").batch(&b)
	for i, size := range []int64{int64(len(template)), 1 << 20, 0} {
		require.Equal(t, size, b.Blocks[i].Size)
		require.Equal(t, size != 0, b.Blocks[i].Body == "")
	}
}

// A block that a template refers to is withheld each time that it is in the batch.
func TestPieceThatComesTwiceIsWithheld(t *testing.T) {
	r := redactorOf(t, "{defaults: false, rules: [{name: tools, role: [toolResult]}]}")
	var piece string
	template := spans.Cut(nil, `{"role":"toolResult","content":"`+strings.Repeat("long ", 20)+`"}`,
		func(text string) spans.ShortID { piece = text; return spans.BlockOfString(text).Short() })
	block := func(body string) session.Block { return session.Block{ID: spans.BlockOfString(body), Body: body} }
	cut := block(piece)
	cut.Size, cut.Body = int64(len(piece)), ""
	b := session.Batch{Blocks: []session.Block{block(piece), block(string(template)), block(piece), cut}}
	require.Equal(t, finds{block: 1}, r.batch(&b))
	for i := range b.Blocks {
		require.NotZero(t, b.Blocks[i].Size)
		require.NotContains(t, b.Blocks[i].Body, "long")
	}
}

// A body whose marks no reader understands is withheld: rules see no text of it. One that holds these characters as its
// text, as another program may send it, is redacted and comes back.
func TestBrokenTemplateIsWithheld(t *testing.T) {
	for _, body := range []string{"\x01 the key is " + secret, "\x02x" + secret, "\x03 " + secret, secret + "\x01"} {
		b := session.Batch{Blocks: []session.Block{{ID: spans.BlockOfString(body), Body: body}}}
		require.Equal(t, finds{}, redactorOf(t, "").batch(&b))
		require.Equal(t, session.Block{ID: spans.BlockOfString(body), Size: int64(len(body))}, b.Blocks[0])
	}
	for text, want := range map[string]string{
		"a\x01b \x02 \x03": spans.Template("a\x01b \x02 \x03"),
		"\x03 " + secret:   "\x03 [redacted:api-key]",
	} {
		body := spans.Template(text)
		b := session.Batch{Blocks: []session.Block{{ID: spans.BlockOfString(body), Body: body}}}
		redactorOf(t, "").batch(&b)
		require.Equal(t, want, b.Blocks[0].Body)
	}
}

func FuzzRedaction(f *testing.F) {
	f.Add("use " + secret)
	f.Add(`{"role":"user","content":"` + secret + `"}`)
	f.Add("AAAAAAAAAAA st {\"a\":1}")
	f.Add(spans.Withheld{Block: spans.BlockID{1}, Size: 40, Beginning: secret}.Encode())
	rules := must.Get(newRedactor(&RedactionConfig{Enabled: true}))(f)
	f.Fuzz(func(t *testing.T, text string) {
		td := traces("a")
		span := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
		span.Attributes().PutStr("acme.note", text)
		e := span.Events().AppendEmpty()
		e.SetName(spans.EventBlocks)
		a := e.Attributes()
		for _, key := range []string{string(spans.BlockBodiesKey), string(spans.BlockWithheldKey), string(spans.ListsKey)} {
			a.PutEmptySlice(key).AppendEmpty().SetStr(text)
		}
		batch, _ := otlprow.Decode(td)
		rules.batch(&batch)
		must.Do(t, store.CheckBatch(batch))
		again := batch
		if n := rules.batch(&again); n != (finds{}) {
			t.Fatalf("found again: %+v", n)
		}
	})
}
