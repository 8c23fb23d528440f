package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// imported reads a file of the guide and returns its sessions.
func imported(t *testing.T, file []byte) []export.Recorded { return arrived(t, sent(t, file, content)) }

func sent(t *testing.T, file []byte, opts ...otelagent.Option) *agenttest.Pipeline {
	t.Helper()
	p := agenttest.New(t, append(opts, writer.WithDerivedIDs)...)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range guide.NewDecoder().Events(bytes.NewReader(file)) {
		if err != nil && !timeless.MatchString(err.Error()) {
			t.Fatal(err)
		}
		if err == nil {
			rec.Record(context.Background(), ev)
		}
	}
	rec.Close(context.Background())
	return p
}

var content = otelagent.WithCapture(otelagent.CaptureContent)

// timeless are the complaints about rows of a session of which no time is known, whose times are 0, and about the key
// of otelagent in the file of TestFurtherRowsComeBack.
var timeless = regexp.MustCompile(
	`(created|updated)_at: want milliseconds from 1970 to 2262$|otelagent: want an object`,
)

// The rows of a producer come back as they came.
func TestProducersRowsComeBack(t *testing.T) {
	lines := readFile(t, "../../../dialects/guide/testdata/session.jsonl")
	document := readFile(t, "../../../dialects/guide/testdata/session.canonical.json")
	ofLines, ofDocument := imported(t, lines), imported(t, document)
	if len(ofLines) != 1 || len(ofDocument) != 1 {
		t.Fatalf("%d and %d sessions", len(ofLines), len(ofDocument))
	}
	got := ofLines[0].Write(t, export.JSONL, export.Options{})
	if d := gocmp.Diff(string(lines), string(got)); d != "" {
		t.Errorf("lines: -want +got:\n%s", d)
	}
	if d := gocmp.Diff(string(lines), string(ofDocument[0].Write(t, export.JSONL, export.Options{}))); d != "" {
		t.Errorf("of the document: -want +got:\n%s", d)
	}
	var compact, again bytes.Buffer
	_ = json.Compact(&compact, document)
	_ = json.Compact(&again, ofLines[0].Write(t, export.JSON, export.Options{}))
	if d := gocmp.Diff(compact.String(), again.String()); d != "" {
		t.Errorf("document: -want +got:\n%s", d)
	}
	export.CheckOrder(t, export.LinesOf(t, got))
	export.CheckSums(t, ofLines[0].Session, ofLines[0].Write(t, export.CSV, export.Options{}))
	export.Golden(t, "producer.csv", ofLines[0].Write(t, export.CSV, export.Options{}))
}

// Further members of lines, and lines of further types, come back as well.
func TestFurtherRowsComeBack(t *testing.T) {
	file := []byte(`{"type":"session","data":{"id":"s","agent":"a","model":{"provider_id":"p","model_id":"m"},` +
		`"permissions":[],"metadata":{},"created_at":1,"updated_at":2,"title":"x"},"more":1}
{"type":"message","data":{"id":"m1","session_id":"s","role":"user","metadata_json":"{\"otelagent\":7,\"k\":1}",` +
		`"created_at":1,"updated_at":1,"hidden_at":null}}
{"type":"part","data":{"id":"p1","message_id":"m1","session_id":"s","index":0,"type":"text",` +
		`"data":{"type":"text","text":"hi"},"created_at":1,"updated_at":1}}
{"type":"system_prompt","data":{"digest":"d","body":"b"}}
{"type":"later","data":[1]}
{"type":"permission","data":{"n":1}}
{"type":"later","data":[2]}
`)
	s := imported(t, file)[0]
	if d := gocmp.Diff(string(file), string(s.Write(t, export.JSONL, export.Options{}))); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	g := must.Get(export.NewGuide(s.Tree, export.Options{}))(t)
	var rows []export.Row
	for r := range g.Rows() {
		rows = append(rows, r)
	}
	document := string(s.Write(t, export.JSON, export.Options{}))
	if !strings.Contains(document, `"later":[
[1],
[2]],
"permissions":[
`) { // a reader of JSON has one member of a name
		t.Error(document)
	}
	if len(rows) != 7 || rows[0].Session.ModelJSON != `{"provider_id":"p","model_id":"m"}` ||
		rows[2].Part.DataJSON != `{"type":"text","text":"hi"}` ||
		rows[1].Message.MetadataJSON != `{"otelagent":7,"k":1}` {
		t.Errorf("%d rows: %+v", len(rows), rows)
	}
}

// Of a file that was read without capture there are the rows that the tree gives; what was lost of one read with it is
// named.
func TestProducersRowsThatAreNotThere(t *testing.T) {
	file := readFile(t, "../../../dialects/guide/testdata/session.jsonl")
	s := arrived(t, sent(t, file))[0]
	var out bytes.Buffer
	missing, err := export.JSONL(&out, s.Tree, export.Options{})
	if err != nil || len(missing) == 0 {
		t.Errorf("%v, %v", missing, err)
	}
	export.CheckOrder(t, export.LinesOf(t, out.Bytes()))

	p := sent(t, file, content)
	s = arrived(t, p)[0]
	var some session.BlockSet
	lost := *s.Fact("message/msg_1fbd5df60000DdO9eGzMcNU77s", "guide.row").Value
	for _, b := range p.Batch().Blocks {
		if b.ID.Short().String() != lost.Block {
			some.Add(b)
		}
	}
	out.Reset()
	_, err = export.JSONL(&out, session.Tree{Session: s.Session, Blocks: &some}, export.Options{})
	var named *export.MissingError
	if !errors.As(err, &named) || out.Len() > 0 {
		t.Fatalf("%d bytes, %v", out.Len(), err)
	}
	if what := fmt.Sprint(named.Missing); !strings.Contains(what,
		"message/msg_1fbd5df60000DdO9eGzMcNU77s: block "+lost.Block) {
		t.Error(what)
	}
	missing, err = export.JSONL(&out, session.Tree{Session: s.Session, Blocks: &some}, export.Options{Partial: true})
	if n := len(export.LinesOf(t, out.Bytes())); err != nil || len(missing) != 1 || n != bytes.Count(file,
		[]byte("\n"))-2 {
		t.Errorf("%d lines, %v, %v", n, missing, err)
	}
}
