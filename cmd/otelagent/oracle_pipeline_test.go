package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/reader"
)

// This file holds what the oracle knows of the packages of the pipeline, and of what depends on the wire.

// oracleSession is what a user gets of one session of a recording, in normal form: the bodies of its parts by name.
type oracleSession struct {
	ID    string
	Parts map[string]string
}

// Parts of a session. Those of exports are export.FORMAT, and partial.FORMAT where the format refuses what is
// incomplete.
const (
	oracleTree     = "tree"
	oracleRequests = "requests"
)

// oracleRead sends one recording through the pipeline: decoder, spans, OTLP, rows, tree, output. said holds the places
// of the input that the reader complains about.
func oracleRead(t *testing.T, r oracleRecording) (said string, sessions []oracleSession) {
	t.Helper()
	ctx, stderr := t.Context(), &bytes.Buffer{}
	n := &oracleNames{began: time.Now(), ids: map[string]string{}, counts: map[string]int{}}
	open := func(from string) (*database, []string, error) {
		files, stdin := r.open(t)
		db, err := (&app{stdin: stdin, stdout: io.Discard, stderr: stderr}).openRecording(ctx, files, from)
		return db, files, err
	}
	db, files, err := open(auto)
	if err != nil && strings.Contains(err.Error(), "--from") {
		db, files, err = open(r.From)
	}
	if err != nil {
		return "refused " + oraclePlaces(files, stderr.String()), nil
	}
	defer db.close()
	var all []session.Summary
	for s, err := range db.Store.Sessions(ctx, store.Query{}) {
		must(t, err)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b session.Summary) int {
		return cmp.Or(a.Start.Compare(b.Start), strings.Compare(a.ID, b.ID))
	})
	for _, s := range all {
		tree, err := db.Load(ctx, s.Key)
		must(t, err)
		one := oracleSession{ID: n.normal(s.ID), Parts: map[string]string{
			oracleTree:     n.normal(oracleTreeText(t, tree)),
			oracleRequests: oracleRequestsText(tree),
		}}
		for _, f := range exportFormats {
			text, missing := oracleExport(ctx, db, s.Key, f, false)
			if missing > 0 {
				partial, _ := oracleExport(ctx, db, s.Key, f, true)
				one.Parts["partial."+f.name] = n.normal(partial)
			}
			one.Parts["export."+f.name] = n.normal(text)
		}
		sessions = append(sessions, one)
	}
	return oraclePlaces(files, stderr.String()), sessions
}

// oraclePlace is a place in a message of the reader: the number of a line, or a path in a document.
var oraclePlace = regexp.MustCompile(`^:(\d+): |^: (?:\w+: )?(\[\d+\][^: ]*)`)

// oraclePlaces keeps of each message of the reader which place of the input it is about, and not its words.
func oraclePlaces(files []string, stderr string) string {
	var out []string
	for line := range strings.Lines(stderr) {
		rest := strings.TrimPrefix(line, "otelagent: ")
		for _, f := range files {
			rest = strings.TrimPrefix(rest, f)
		}
		place := "-"
		if m := oraclePlace.FindStringSubmatch(rest); m != nil {
			place = m[1] + m[2]
		}
		out = append(out, place)
	}
	return strings.Join(out, " ")
}

// oracleExport writes one session in one format. A session that is refused gives the number of pieces that are missing.
func oracleExport(ctx context.Context, db *database, key session.Key, f exportFormat, partial bool) (string, int) {
	e := &exporting{&exportOptions{partial: partial}, f, db}
	tree, err := db.Read(ctx, key)
	var out bytes.Buffer
	if err == nil {
		_, err = e.session(ctx, &out, tree)
	}
	var gaps *export.MissingError
	switch {
	case errors.As(err, &gaps):
		return fmt.Sprintf("refused: %d pieces are missing\n", len(gaps.Missing)), len(gaps.Missing)
	case err != nil:
		return "refused\n", 0
	}
	return out.String(), 0
}

// oracleRequestBytes bounds the requests of a session that are stored; of more the size and the SHA-256 of each are
// stored.
const oracleRequestBytes = 1 << 20

// oracleRequestsText lists the requests of a session: a line about each, then its exact bytes as a line.
func oracleRequestsText(tree session.Tree) string {
	var lines, bodies []string
	total := 0
	for _, run := range tree.Runs {
		for _, turn := range run.Turns {
			for _, q := range turn.Requests {
				r := inspect.NewRequest(tree, run, turn, q)
				lines = append(lines, oracleRequestLine(r))
				if total += len(r.Payload.Bytes); total <= oracleRequestBytes {
					bodies = append(bodies, string(r.Payload.Bytes)+"\n")
				}
			}
		}
	}
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line + "\n")
		if total <= oracleRequestBytes {
			b.WriteString(bodies[i])
		}
	}
	return b.String()
}

func oracleRequestLine(r *inspect.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "@%d/%d/%d messages=%d bytes=%d sha256=%x exact=%t", r.RunNumber, r.Turn, r.Attempt, r.Count,
		len(r.Payload.Bytes), sha256.Sum256(r.Payload.Bytes), r.Exact)
	if r.Redacted || r.Misaligned || len(r.Missing) > 0 {
		fmt.Fprintf(&b, " redacted=%t misaligned=%t missing=%d sections=%d", r.Redacted, r.Misaligned, len(r.Missing), 0)
	}
	var from []string
	for _, m := range r.Messages {
		from = append(from, string(m.Provenance))
	}
	if text := strings.Join(from, " "); len(text) > 1000 {
		fmt.Fprintf(&b, " provenance=sha256:%x", sha256.Sum256([]byte(text)))
	} else if strings.TrimSpace(text) != "" {
		fmt.Fprintf(&b, " provenance: %s", text)
	}
	return b.String()
}

// oracleTreeText is the tree as `show --output json` prints it, without what depends on the wire, and with the content
// in place of the names of blocks.
func oracleTreeText(t *testing.T, tree session.Tree) string {
	t.Helper()
	var raw bytes.Buffer
	must(t, writeJSON(&raw, reader.Narrow(tree.Session, nil, nil, tree.Last)))
	d := json.NewDecoder(&raw)
	d.UseNumber()
	var doc map[string]any
	must(t, d.Decode(&doc))
	delete(doc, "format") // of the document
	w := &oracleWalk{blocks: tree.Blocks, digests: map[string]string{}}
	var out bytes.Buffer
	must(t, writeJSON(&out, w.value("", doc)))
	return out.String()
}

// oracleWalk brings a tree to normal form.
type oracleWalk struct {
	blocks  *session.BlockSet
	digests map[string]string
}

// oracleWire are the members of the tree that the wire decides, or that repeat what is elsewhere as a digest.
var oracleWire = []string{"trace_id", "span_id", "seq", "end_seq", "service", "request_digest", "tools_digest"}

func (w *oracleWalk) value(key string, v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = w.value(key, x)
		}
		return out
	case map[string]any:
		if key == "config" { // of the loop
			return oracleContent(v)
		}
		return w.object(key, v)
	}
	return v
}

func (w *oracleWalk) object(key string, v map[string]any) any {
	if _, list := v["complete"].(bool); list && v["count"] != nil {
		return w.list(key, v)
	}
	if _, ok := v["block"].(string); ok {
		return w.body(v)
	}
	if key == "requests" { // whose bytes are a part of their own
		v = map[string]any{"attempt": v["attempt"], "sections": v["sections"]}
	}
	out := map[string]any{}
	for k, x := range v {
		switch {
		case slices.Contains(oracleWire, k) || x == nil:
		case k == "defects":
			out[k] = oracleDefects(x.([]any))
		case k == "extra":
			if extra := oracleExtra(x.(map[string]any)); len(extra) > 0 {
				out[k] = extra
			}
		case strings.HasSuffix(k, "_digest"):
			out[k] = w.digest(k, x.(string))
		default:
			out[k] = w.value(k, x)
		}
	}
	return out
}

// list returns the content of a list, and, where something of it is missing, how much.
func (w *oracleWalk) list(key string, v map[string]any) any {
	items, _ := v["items"].([]any)
	bodies := make([]any, len(items))
	for i, x := range items {
		bodies[i] = w.body(x.(map[string]any))
	}
	if v["complete"] == true && v["count"] == json.Number(strconv.Itoa(len(items))) {
		return bodies
	}
	return map[string]any{"count": v["count"], "complete": v["complete"], "items": bodies}
}

// body returns what an item stands for.
func (w *oracleWalk) body(item map[string]any) any {
	ref := session.Ref{Block: item["block"].(string)}
	body, ok := w.blocks.Body(ref)
	if !ok {
		_, size, cut := w.blocks.Cut(ref)
		return map[string]any{"!missing": true, "!cut": cut, "!bytes": size}
	}
	content := oracleParse(body)
	if envelope, ok := item["envelope"].(map[string]any); ok {
		message, ok := content.(map[string]any)
		if !ok {
			message = map[string]any{"!body": content}
		}
		for k, x := range envelope {
			message[k] = oracleContent(x)
		}
		content = message
	}
	if from, ok := item["provenance"]; ok {
		return map[string]any{"!provenance": from, "!body": content}
	}
	return content
}

// digest numbers the digests of one kind: which prompts are the same is kept, and not how they are hashed.
func (w *oracleWalk) digest(kind, digest string) string {
	if w.digests[kind+digest] == "" {
		n := 1
		for w.digests[kind+"#"+strconv.Itoa(n)] != "" {
			n++
		}
		w.digests[kind+"#"+strconv.Itoa(n)] = digest
		w.digests[kind+digest] = "#" + strconv.Itoa(n)
	}
	return w.digests[kind+digest]
}

// oracleDefects keeps the codes, and the numbers in the words.
func oracleDefects(defects []any) any {
	out := make([]any, len(defects))
	for i, x := range defects {
		d := x.(map[string]any)
		detail, _ := d["detail"].(string)
		out[i] = strings.TrimSpace(fmt.Sprint(d["code"], " ", strings.Join(oracleNumber.FindAllString(detail, -1), " ")))
	}
	return out
}

var oracleNumber = regexp.MustCompile(`\b\d+\b`)

// oracleExtra removes what capture cost.
func oracleExtra(extra map[string]any) map[string]any {
	out := map[string]any{}
	for k, x := range extra {
		if !strings.HasPrefix(k, "otelagent.capture.") {
			out[k] = x
		}
	}
	return out
}

// oracleParse reads content: JSON, or text.
func oracleParse(text string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return text
	}
	if _, err := d.Token(); err != io.EOF {
		return text
	}
	return oracleContent(v)
}

// oracleContent spells numbers in one way.
func oracleContent(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = oracleContent(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = oracleContent(v[k])
		}
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
		}
	}
	return v
}

// oracleLong is the size from which a text stays as it is: the long recordings have ids and times of their own.
const oracleLong = 1 << 20

// oracleNames replaces what is different each time, or with another wire, by numbers in the order in which they are
// seen.
type oracleNames struct {
	began  time.Time
	ids    map[string]string
	counts map[string]int
}

var (
	oracleMadeUp = regexp.MustCompile(`\b[A-Z2-7]{26}\b`)
	oracleDigest = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	oracleTime   = regexp.MustCompile(`\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	oracleEpoch  = regexp.MustCompile(`\b1\d{12}(\d{3})?(\d{3})?\b`)
)

func (n *oracleNames) normal(text string) string {
	if len(text) > oracleLong {
		return text
	}
	text = oracleMadeUp.ReplaceAllStringFunc(text, func(id string) string { return n.number("made-up-", id) })
	text = oracleDigest.ReplaceAllStringFunc(text, func(id string) string { return n.number("digest-", id) })
	now := time.Now()
	arrival := func(s string, at time.Time, err error) string {
		if err == nil && !at.Before(n.began.Truncate(time.Second)) && !at.After(now) {
			return "arrival"
		}
		return s
	}
	text = oracleTime.ReplaceAllStringFunc(text, func(s string) string {
		at, err := time.Parse(time.RFC3339Nano, s)
		return arrival(s, at, err)
	})
	return oracleEpoch.ReplaceAllStringFunc(text, func(s string) string {
		ns, err := strconv.ParseInt(s+strings.Repeat("0", 19-len(s)), 10, 64)
		return arrival(s, time.Unix(0, ns), err)
	})
}

func (n *oracleNames) number(kind, id string) string {
	if n.ids[id] == "" {
		n.counts[kind]++
		n.ids[id] = kind + strconv.Itoa(n.counts[kind])
	}
	return n.ids[id]
}
