//go:build linux

package soak

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/encoding/protowire"
)

// packings are the encodings of a body by their names in HTTP. gRPC has the first four.
var packings = []string{"", "gzip", "zstd", "snappy", "zlib", "deflate"}

// packed returns b in an encoding.
func packed(encoding string, b []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "":
		return b
	case "gzip":
		w = gzip.NewWriter(&out)
	case "zstd":
		w, _ = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1)) // no error without bad options
	case "snappy":
		w = snappy.NewBufferedWriter(&out)
	case "zlib", "deflate":
		w = zlib.NewWriter(&out)
	default:
		panic(encoding)
	}
	_, _ = w.Write(b) // memory does not fail
	_ = w.Close()
	return out.Bytes()
}

// inFields puts b into nested fields of protobuf, the outermost first.
func inFields(b []byte, fields ...protowire.Number) []byte {
	for i := len(fields) - 1; i >= 0; i-- {
		b = protowire.AppendBytes(protowire.AppendTag(nil, fields[i], protowire.BytesType), b)
	}
	return b
}

// hostileBodies are requests that are small on the wire and large behind it, in every encoding.
func hostileBodies() map[string][][]byte {
	empty := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nil)
	hollow := inFields(bytes.Repeat(empty, 15<<20), 1, 2)
	huge := inFields(bytes.Repeat([]byte("a"), 60<<20), 1, 2, 2, 5)
	nested := []byte(nil)
	for range 10_000 {
		nested = inFields(nested, 5, 1)
	}
	bodies := map[string][][]byte{}
	for _, encoding := range packings {
		for _, b := range [][]byte{hollow, huge, inFields(nested, 1, 2, 2, 9, 2)} {
			if encoding != "" || len(b) < 1<<20 {
				bodies[encoding] = append(bodies[encoding], packed(encoding, b))
			}
		}
	}
	return bodies
}

// damaged returns b with bits flipped, without its end, or with bytes behind it.
func damaged(rng *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	switch rng.IntN(3) {
	case 0:
		for range 1 + rng.IntN(8) {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
	case 1:
		b = b[:rng.IntN(len(b))]
	default:
		b = append(b, noise(rng, 1+rng.IntN(100))...)
	}
	return b
}

// attacker sends what senders should not, over connections of its own.
type attacker struct {
	rng          *rand.Rand
	addr         addresses
	bodies       map[string][][]byte
	good         []byte // a request that is stored
	http1, http2 *http.Transport
}

func newAttacker(rng *rand.Rand, addr addresses, bodies map[string][][]byte, good []byte) *attacker {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return &attacker{rng: rng, addr: addr, bodies: bodies, good: good, http1: &http.Transport{},
		http2: &http.Transport{Protocols: protocols}}
}

// attack sends one request, and gives up at the end of ctx. It returns its name and the status of the answer.
func (a *attacker) attack(ctx context.Context) (name, answer string) {
	overGRPC := a.rng.IntN(2) == 0
	encoding := packings[a.rng.IntN(len(packings))]
	if overGRPC {
		encoding = packings[a.rng.IntN(4)]
	}
	body := packed(encoding, a.good)
	var rest io.Reader = eof{}
	var announced int
	switch a.rng.IntN(4) {
	case 0:
		name = "small that unpacks to much"
		body = a.bodies[encoding][a.rng.IntN(len(a.bodies[encoding]))]
		announced = len(body)
	case 1:
		name = "damaged"
		body = damaged(a.rng, body)
		if announced = len(body); a.rng.IntN(2) == 0 {
			announced = a.rng.IntN(1 << 32)
		}
	default:
		name = "stalled"
		body = append(body[:len(body)/2:len(body)/2], make([]byte, a.rng.IntN(30<<20))...)
		announced = len(body) + 1 + a.rng.IntN(30<<20)
		rest = stalled{ctx}
	}
	var req *http.Request
	var err error
	if overGRPC {
		name += ", gRPC"
		frame := binary.BigEndian.AppendUint32([]byte{min(byte(len(encoding)), 1)}, uint32(announced))
		req, err = http.NewRequestWithContext(ctx, http.MethodPost,
			"http://"+a.addr.grpc+"/opentelemetry.proto.collector.trace.v1.TraceService/Export",
			io.MultiReader(bytes.NewReader(frame), bytes.NewReader(body), rest))
		if err == nil {
			req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
			if encoding != "" {
				req.Header.Set("Grpc-Encoding", encoding)
			}
		}
	} else {
		name += ", HTTP"
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.addr.http+"/v1/traces",
			io.MultiReader(bytes.NewReader(body), rest))
		if err == nil {
			req.Header = http.Header{"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {encoding}}
			if a.rng.IntN(2) == 0 {
				req.ContentLength = int64(announced)
			}
		}
	}
	if err != nil {
		return name, err.Error()
	}
	client := a.http1
	if overGRPC {
		client = a.http2
	}
	resp, err := client.RoundTrip(req)
	if err != nil {
		return name, "no answer"
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if overGRPC {
		return name, "gRPC " + resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
	}
	return name, fmt.Sprint("HTTP ", resp.StatusCode)
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// stalled is the rest of a body that does not come.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// Attackers send hostile, damaged and stalled requests over both protocols in every encoding. Memory stays within
// bounds, honest senders are served meanwhile, and all that was acknowledged is stored.
func TestAttack(t *testing.T) {
	rng := begin(t)
	c := newCollector(t, "")
	p := c.up()
	honest := newLoad(t, script{Turns: 5, Bytes: 200})
	honest.wait = 50 * time.Millisecond
	honest.start(rng, []wire{newHTTPWire(c.addr.http)}, []wire{newGRPCWire(t, c.addr.grpc)})
	bodies, good := hostileBodies(), spansOf(t, rng, 20, func(int, ptrace.Span) {})
	var mu sync.Mutex
	answers := map[string]int{}
	var attacks atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), lasting(8*time.Second, 6))
	defer cancel()
	var wg sync.WaitGroup
	for i := range 40 {
		a := newAttacker(rand.New(rand.NewPCG(rng.Uint64(), uint64(i))), c.addr, bodies, good)
		wg.Go(func() {
			defer a.http1.CloseIdleConnections()
			defer a.http2.CloseIdleConnections()
			for ctx.Err() == nil {
				one, stop := context.WithTimeout(ctx, between(a.rng, 100, 20_000))
				name, answer := a.attack(one)
				stop()
				attacks.Add(1)
				mu.Lock()
				answers[name+": "+answer]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	p.alive()
	during := honest.ledger.spans()
	now, peak := p.memory()
	honest.finish(time.Minute)
	p.stop()
	f := check(t, c.db, honest.ledger, nil)
	p50, p99, longest := honest.ledger.latency()
	figure(
		t,
		"seed %d: %d attacks, %v; memory %d MiB, peak %d MiB; honest senders: %d spans meanwhile, answers after %v, "+
			"%v (99 %%), %v at most, not: %s",
		seed,
		attacks.Load(),
		answers,
		now,
		peak,
		during,
		p50,
		p99,
		longest,
		honest.ledger.answers(),
	)
	if during == 0 || f.acked == 0 {
		t.Error("no honest sender was served")
	}
	if peak > 1200 { // more than all 40 hold at the same time
		t.Errorf("the collector took %d MiB", peak)
	}
}
