package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// server is `otelagent up` as a process of its own.
type server struct {
	pid        int
	http, grpc string
}

func startServer(t *testing.T) *server {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the peak of memory is read from /proc")
	}
	s := &server{}
	for _, addr := range []*string{&s.http, &s.grpc} {
		var err error
		if *addr, err = freeAddr(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "otelagent", "up", "--db", filepath.Join(t.TempDir(), "s.db"),
		"--otlp-http", s.http, "--otlp-grpc", s.grpc)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	must(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%.4000s", log.String())
		}
	})
	s.pid = cmd.Process.Pid
	for range 1000 {
		if res, err := http.Post("http://"+s.http+"/v1/traces", "application/json", strings.NewReader("{}")); err == nil {
			_ = res.Body.Close()
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the server does not start")
	return nil
}

// memory returns the resident memory in MiB: VmRSS of now, VmHWM at its peak.
func (s *server) memory(t *testing.T, which string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	m := regexp.MustCompile(which + `:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no %s in %s", which, text)
	}
	kib, _ := strconv.Atoi(string(m[1]))
	return kib >> 10
}

// post sends a body and returns the status and its Retry-After.
func (s *server) post(path, kind, packing string, body []byte) (status int, retry, text string, err error) {
	r, err := http.NewRequest(http.MethodPost, "http://"+s.http+path, bytes.NewReader(body))
	if err != nil {
		return 0, "", "", err
	}
	r.Header.Set("Content-Type", kind)
	if packing != "" {
		r.Header.Set("Content-Encoding", packing)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", "", err
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, res.Header.Get("Retry-After"), string(b), nil
}

func gzipped(b []byte) []byte {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(b)
	_ = z.Close()
	return packed.Bytes()
}

// hollow is an export request of 30 MiB of empty messages of a field, in the fields outer.
func hollow(inner protowire.Number, outer ...protowire.Number) []byte {
	one := protowire.AppendBytes(protowire.AppendTag(nil, inner, protowire.BytesType), nil)
	b := bytes.Repeat(one, 30<<20/len(one))
	for i := len(outer) - 1; i >= 0; i-- {
		b = protowire.AppendBytes(protowire.AppendTag(nil, outer[i], protowire.BytesType), b)
	}
	return b
}

// Requests of millions of empty messages are refused before they are decoded: alone and four at once they take at most
// 200 MiB.
func TestHollowRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: sends gigabytes")
	}
	s := startServer(t)
	idle := s.memory(t, "VmRSS")
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.UseCompressor("gzip")))
	must(t, err)
	defer conn.Close()
	const protobuf, json = "application/x-protobuf", "application/json"
	for _, c := range []struct {
		name, path, kind string
		body             []byte
	}{
		{"resource spans", "/v1/traces", protobuf, hollow(1)},
		{"scope spans", "/v1/traces", protobuf, hollow(2, 1)},
		{"spans", "/v1/traces", protobuf, hollow(2, 1, 2)},
		{"attributes", "/v1/traces", protobuf, hollow(9, 1, 2, 2)},
		{"events", "/v1/traces", protobuf, hollow(11, 1, 2, 2)},
		{"values of a list", "/v1/traces", protobuf, hollow(1, 1, 2, 2, 9, 2, 5)},
		{"log records", "/v1/logs", protobuf, hollow(2, 1, 2)},
		{"resource logs", "/v1/logs", protobuf, hollow(1)},
		{"spans, JSON", "/v1/traces", json,
			[]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[` + strings.Repeat("{},", 10<<20) + `{}]}]}]}`)},
	} {
		packed := gzipped(c.body)
		send := func() {
			for packing, body := range map[string][]byte{"": c.body, "gzip": packed} {
				code, _, text, err := s.post(c.path, c.kind, packing, body)
				// A server that refuses a body early may close the connection before all of it is sent.
				if err == nil && (code != http.StatusRequestEntityTooLarge || !strings.Contains(text, "max_request_mib")) {
					t.Errorf("%s, %q: %d %s", c.name, packing, code, text)
				}
			}
			if c.kind != protobuf {
				return
			}
			service := map[string]string{"/v1/traces": "trace.v1.TraceService", "/v1/logs": "logs.v1.LogsService"}[c.path]
			err := conn.Invoke(t.Context(), "/opentelemetry.proto.collector."+service+"/Export", c.body, &[]byte{})
			if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "max_request_mib") {
				t.Errorf("%s, gRPC: %v", c.name, err)
			}
		}
		send()
		var all sync.WaitGroup
		for range 4 {
			all.Go(send)
		}
		all.Wait()
		if grown := s.memory(t, "VmHWM") - idle; grown > 200 {
			t.Errorf("%s: the server took %d MiB more than its %d", c.name, grown, idle)
		}
	}
	t.Logf("idle %d MiB, peak %d MiB", idle, s.memory(t, "VmHWM"))
	if code, _, text, err := s.post("/v1/traces", protobuf, "", nested(50, 9)); code != http.StatusOK {
		t.Errorf("an honest request: %d %s %v", code, text, err)
	}
}

// Many requests that unpack to much do not take more memory than a few.
func TestManyPackedRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: unpacks gigabytes")
	}
	s := startServer(t)
	idle := s.memory(t, "VmRSS")
	// A span with a name of 60 MiB.
	body := bytes.Repeat([]byte("a"), 60<<20)
	for _, field := range []protowire.Number{5, 2, 2, 1} {
		body = protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), body)
	}
	enc, err := zstd.NewWriter(nil)
	must(t, err)
	packed := enc.EncodeAll(body, nil)
	var all sync.WaitGroup
	var mu sync.Mutex
	answers := map[int]int{}
	for range 80 {
		all.Go(func() {
			code, retry, text, err := s.post("/v1/traces", "application/x-protobuf", "zstd", packed)
			if err != nil {
				t.Error(err)
				return
			}
			if code == http.StatusServiceUnavailable && retry == "" && strings.Contains(text, "otlp_limits") {
				t.Errorf("no Retry-After: %s", text)
			}
			mu.Lock()
			answers[code]++
			mu.Unlock()
		})
	}
	all.Wait()
	peak := s.memory(t, "VmHWM")
	t.Logf("%d bytes packed; idle %d MiB, peak %d MiB; answers %v", len(packed), idle, peak, answers)
	if peak-idle > 900 {
		t.Errorf("80 requests took %d MiB", peak-idle)
	}
	if answers[http.StatusOK]+answers[http.StatusServiceUnavailable] != 80 || answers[http.StatusOK] == 0 {
		t.Errorf("answers: %v", answers)
	}
	if code, _, text, err := s.post("/v1/traces", "application/x-protobuf", "", nested(50, 9)); code != http.StatusOK {
		t.Errorf("an honest request afterwards: %d %s %v", code, text, err)
	}
}

// TestStalledMessages sends most of many large gRPC messages and no more. The server holds a few of them for a while
// and ends the others, and honest senders are served.
func TestStalledMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: sends gigabytes")
	}
	s := startServer(t)
	idle := s.memory(t, "VmRSS")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Transport{Protocols: protocols}
	defer client.CloseIdleConnections()
	const size = 20 << 20
	ended := make(chan string, 100)
	for range cap(ended) {
		all.Go(func() {
			rest, w := io.Pipe()
			defer w.Close()
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost,
				"http://"+s.grpc+"/opentelemetry.proto.collector.trace.v1.TraceService/Export",
				io.MultiReader(strings.NewReader("\x00"+string(binary.BigEndian.AppendUint32(nil, size+1))),
					bytes.NewReader(make([]byte, size)), rest))
			req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
			resp, err := client.RoundTrip(req)
			if err != nil {
				ended <- err.Error()
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			ended <- "status " + resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
		})
	}
	answers := map[string]int{}
	for range cap(ended) - 8 {
		select {
		case answer := <-ended:
			answers[answer]++
		case <-time.After(20 * time.Second):
			t.Fatalf("the others are held; answers %v, memory %d MiB", answers, s.memory(t, "VmHWM"))
		}
	}
	t.Logf("idle %d MiB, peak %d MiB; answers %v", idle, s.memory(t, "VmHWM"), answers)
	if answers["status 1"] != cap(ended)-8 { // CANCELLED, after which OTLP senders send again
		t.Errorf("answers: %v", answers)
	}
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{})))
	must(t, err)
	defer conn.Close()
	for try := 0; ; try++ { // memory_limiter may refuse data until the memory of the others is free
		err := conn.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Export", nested(50, 9), &[]byte{})
		if err == nil {
			break
		}
		if status.Code(err) != codes.Unavailable || try == 60 {
			t.Fatalf("an honest request: %v", err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}
