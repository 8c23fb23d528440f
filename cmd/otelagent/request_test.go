package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
)

// payloadsOf returns the payloads of the requests in an event stream, in order; to those of one attempt.
func payloadsOf(t testing.TB, events io.Reader) (out []string) {
	t.Helper()
	for dec := json.NewDecoder(events); ; {
		var e struct {
			Type    string
			Payload json.RawMessage
		}
		if err := dec.Decode(&e); err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if e.Type == "TurnRequest" {
			out = append(out, string(e.Payload))
		}
	}
}

// Every request of the demo is printed byte for byte, without an added line feed.
func TestRequestBytes(t *testing.T) {
	db := demoDatabase(t)
	var got []string
	for _, s := range []string{"0b5c/@1/0", "0b5c/@1/1", "c41d/0", "0b5c/@1/2", "0b5c/@1/3", "0b5c/@3/0", "0b5c/@3/1",
		"0b5c/@4/0", "0b5c/@4/1"} {
		code, out, errs := runWith(t, "request", s, "--db", db)
		if code != exitOK || errs != "" {
			t.Fatalf("%s: exit %d: %s", s, code, errs)
		}
		got = append(got, out)
	}
	want := payloadsOf(t, bytes.NewReader(demoEvents))
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A turn is also named by its span.
func TestRequestBySpan(t *testing.T) {
	db := demoDatabase(t)
	_, out, _ := runWith(t, "show", demoSession, "--output", "json", "--db", db)
	var tree struct {
		Runs []struct {
			Turns []struct {
				SpanID string `json:"span_id"`
			}
		}
	}
	must(t, json.Unmarshal([]byte(out), &tree))
	_, want, _ := runWith(t, "request", "0b5c/@1/3", "--db", db)
	code, got, errs := runWith(t, "request", tree.Runs[0].Turns[3].SpanID, "--db", db)
	if code != exitOK || got != want || got == "" {
		t.Errorf("exit %d: %s%s", code, errs, got)
	}
}

// bigTurns are three turns of a session: one that begins with 500 messages, one with an image of 20 MB behind them, one
// more message. Each is what a pipe says of the turn.
func bigTurns() (start string, turns [3]string) {
	loop := "big.a.1"
	usage := `{"input":1,"output":1,"reasoning":0,"cache_read":0,"cache_write":0,"total_tokens":2}`
	start = `{"type":"AgentStart","agent_id":"a","session_id":"big","loop_id":"` + loop +
		`","timestamp":"2026-01-02T03:04:05Z"}` + "\n"
	var messages []string
	for i := range 500 {
		messages = append(
			messages,
			fmt.Sprintf(
				`{"role":"user","content":[{"type":"text","text":"message %d: %s"}],"timestamp":%d}`,
				i,
				randomText(1500),
				i,
			),
		)
	}
	for i := range turns {
		switch i {
		case 1:
			messages = append(
				messages,
				`{"role":"user","content":[{"type":"image","data":"`+randomText(
					20<<20,
				)+`","mimeType":"image/png"}],"timestamp":900}`,
			)
		case 2:
			messages = append(messages, `{"role":"user","content":[{"type":"text","text":"what is it?"}],"timestamp":901}`)
		}
		turns[i] = fmt.Sprintf(`{"type":"TurnStart","loop_id":"%s","turn_index":%d,"timestamp":"2026-01-02T03:04:0%dZ",`+
			`"triggered_by":"User"}`+"\n", loop, i, 5+i) +
			fmt.Sprintf(`{"type":"TurnRequest","loop_id":"%s","turn_index":%d,"payload":{"system_prompt":"s",`+
				`"messages":[%s],"model_id":"m"},"timestamp":"2026-01-02T03:04:0%dZ"}`+"\n",
				loop, i, strings.Join(messages, ","), 5+i) +
			`{"type":"TurnEnd","loop_id":"` + loop +
			`","message":{"role":"assistant","content":[],"stopReason":"stop","model":"m","provider":"p","usage":` + usage +
			`,"timestamp":1},"tool_results":[]}` + "\n"
	}
	return start, turns
}

// randomText is text of n bytes that nothing compresses much.
func randomText(n int) string {
	raw := make([]byte, n*3/4)
	_, _ = rand.Read(raw) // never fails
	return base64.StdEncoding.EncodeToString(raw)
}

// A request that is far larger than receivers take at once arrives whole, with the default limits of receivers, over
// both protocols, and also when the collector is another one after every turn.
func TestBigRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: sends 20 MB a few times")
	}
	start, turns := bigTurns()
	want := payloadsOf(t, strings.NewReader(start+turns[0]+turns[1]+turns[2]))
	for _, protocol := range []string{"grpc", "http"} {
		for _, limits := range []string{"defaults", "up"} {
			t.Run(protocol+" "+limits, func(t *testing.T) {
				db := filepath.Join(t.TempDir(), "s.db")
				addr, err := freeAddr()
				must(t, err)
				collect := func() *collector {
					o := collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db, Log: io.Discard}
					if protocol == "grpc" {
						o.GRPC = addr
					} else {
						o.HTTP = addr
					}
					if limits == "defaults" {
						config := strings.NewReplacer(", max_recv_msg_size_mib: 64", "",
							", max_request_body_size: 67108864", "").Replace(builtinConfig(o))
						if strings.Contains(config, "max_re") {
							t.Fatal("the configuration of up has changed")
						}
						o.Config = []string{"yaml:" + config}
					}
					c, err := startCollector(t.Context(), o)
					must(t, err)
					return c
				}
				c := collect()
				args := []string{"send", "-", "--capture", "content", "--endpoint", "http://" + addr, "--protocol", "grpc"}
				if protocol == "http" {
					args[len(args)-1] = "http/protobuf"
				}
				t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
				r, w := io.Pipe()
				var errs bytes.Buffer
				ended := make(chan int)
				go func() { ended <- run(context.WithoutCancel(t.Context()), args, r, io.Discard, &errs) }()
				_, _ = io.WriteString(w, start)
				for i, turn := range turns {
					_, _ = io.WriteString(w, turn)
					arrived(t, db, fmt.Sprintf("big/%d", i))
					if i < len(turns)-1 {
						must(t, c.stop())
						c = collect()
					}
				}
				w.Close()
				if code := <-ended; code != exitOK {
					t.Errorf("send: exit %d: %s", code, &errs)
				}
				must(t, c.stop())
				for i := range turns {
					code, out, errs := runWith(t, "request", fmt.Sprintf("big/%d", i), "--db", db)
					if code != exitOK || errs != "" || sha256.Sum256([]byte(out)) != sha256.Sum256([]byte(want[i])) {
						t.Errorf("turn %d: exit %d, %d bytes of %d, %s", i, code, len(out), len(want[i]), errs)
					}
				}
			})
		}
	}
}

// arrived waits until a turn is in a database.
func arrived(t *testing.T, db, turn string) {
	t.Helper()
	var errs string
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var code int
		if code, _, errs = runWith(t, "request", turn, "--db", db); code == exitOK {
			return
		}
	}
	t.Fatalf("%s did not arrive: %s", turn, errs)
}

// longDatabase is a database with the long session long-200 in it.
func longDatabase(tb testing.TB) string {
	tb.Helper()
	db := filepath.Join(tb.TempDir(), "s.db")
	stream := phifixtures.Long(tb, repository, "long-200")
	defer stream.Close()
	sendAll(tb, stream, "--capture", "content", "--db", db)
	return db
}

// BenchmarkRequest is what it takes to give back the last request of 200 turns: 399 messages, 1 MB.
func BenchmarkRequest(b *testing.B) {
	db := longDatabase(b)
	d, err := quiet.open(b.Context(), db)
	must(b, err)
	defer d.close()
	key, err := d.Resolve(b.Context(), "last")
	must(b, err)
	last := func(t session.Tree) *session.Request {
		turns := t.Runs[0].Turns
		return turns[len(turns)-1].Requests[0]
	}
	b.Run("reconstruct", func(b *testing.B) { // rows, blocks, tree and payload
		for b.Loop() {
			t, err := d.Read(b.Context(), key)
			must(b, err)
			if p := last(t).Payload(t.Blocks); !p.Exact {
				b.Fatal(p)
			}
		}
	})
}
