package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// Unless its flags say otherwise, up listens on loopback only.
func TestListensOnLoopback(t *testing.T) {
	_, out, _ := runWith(t, "up", "--help")
	for _, addr := range []string{"127.0.0.1:4317", "127.0.0.1:4318"} {
		if !strings.Contains(out, "(default \""+addr+"\")") && !strings.Contains(out, "(default "+addr+")") {
			t.Errorf("%s is no default:\n%s", addr, out)
		}
	}
}

// bytesCodec sends bytes as they are.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }
func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (bytesCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

// nested is a message with a record of one attribute of n lists in each other, in protobuf. A span has its attributes
// in field 9, a log record in field 6.
func nested(n int, attributes protowire.Number) []byte {
	const levels = 12 // bytes that a level takes at most
	b := make([]byte, levels*n+100)
	at := len(b)
	put := func(field protowire.Number) {
		head := protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), uint64(len(b)-at))
		at -= len(head)
		copy(b[at:], head)
	}
	for range n {
		put(1) // ArrayValue.values
		put(5) // AnyValue.array_value
	}
	// The value of an attribute of a record of a scope of a resource.
	for _, field := range []protowire.Number{2, attributes, 2, 2, 1} {
		put(field)
	}
	return b[at:]
}

// A message of nothing but nesting, which would end the process, is refused by whatever way it comes, and who sends
// at the same time is not harmed.
func TestNestingBomb(t *testing.T) {
	const levels = 1_400_000 // more than a stack has room for
	db := filepath.Join(t.TempDir(), "s.db")
	c, err := startCollector(t.Context(), collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db,
		Log: io.Discard})
	must(t, err)
	defer func() { _ = c.stop() }()

	honest := make(chan string, 1)
	go func() {
		var out bytes.Buffer
		for range 3 {
			if code := run(t.Context(), []string{"send", "--endpoint", "http://" + c.addr("grpc"), "-"},
				bytes.NewReader(demoEvents), &out, &out); code != exitOK {
				honest <- out.String()
				return
			}
		}
		honest <- ""
	}()

	bombs := map[string][]byte{"trace": nested(levels, 9), "logs": nested(levels, 6)}
	json := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":` +
		strings.Repeat(`{"arrayValue":{"values":[`, 100_000)
	packed := func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(b)
		_ = z.Close()
		return out.Bytes()
	}

	conn, err := grpc.NewClient(c.addr("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallSendMsgSize(64<<20)))
	must(t, err)
	defer conn.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for signal, service := range map[string]string{"trace": "trace.v1.TraceService", "logs": "logs.v1.LogsService"} {
		err := conn.Invoke(t.Context(), "/opentelemetry.proto.collector."+service+"/Export", bombs[signal], &[]byte{})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "nested deeper") {
			t.Errorf("gRPC, %s: %v", service, err)
		}
	}
	if err := conn.Invoke(t.Context(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export", nested(50, 9),
		&[]byte{}); err != nil {
		t.Errorf("gRPC, 50 lists in each other: %v", err)
	}
	post := func(path, kind, packing string, body []byte) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.addr("http")+path,
			bytes.NewReader(body))
		must(t, err)
		r.Header.Set("Content-Type", kind)
		if packing != "" {
			r.Header.Set("Content-Encoding", packing)
		}
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	for signal, path := range map[string]string{"trace": "/v1/traces", "logs": "/v1/logs"} {
		bomb := bombs[signal]
		for name, got := range map[string]func() (int, string){
			"protobuf":         func() (int, string) { return post(path, "application/x-protobuf", "", bomb) },
			"protobuf, packed": func() (int, string) { return post(path, "application/x-protobuf", "gzip", packed(bomb)) },
			"JSON":             func() (int, string) { return post(path, "application/json; charset=utf-8", "", []byte(json)) },
		} {
			if code, text := got(); code != http.StatusBadRequest || !strings.Contains(text, "nested deeper") {
				t.Errorf("HTTP, %s, %s: %d %s", path, name, code, text)
			}
		}
	}
	if code, text := post("/v1/traces", "application/x-protobuf", "", nested(50, 9)); code != http.StatusOK {
		t.Errorf("HTTP, 50 lists in each other: %d %s", code, text)
	}
	if code, text := post("/v1/traces", "application/json", "", []byte(`{"resourceSpans":[]}`)); code != http.StatusOK {
		t.Errorf("HTTP, JSON: %d %s", code, text)
	}
	runtime.ReadMemStats(&after)
	// Refused before they are decoded: a stack for one of them takes 1 GiB.
	if grown := int64(after.StackSys) - int64(before.StackSys); grown > 64<<20 {
		t.Errorf("%d bytes of stack more", grown)
	}
	if failure := <-honest; failure != "" {
		t.Errorf("another sender was harmed: %s", failure)
	}
	if _, err := conn.NewStream(t.Context(), &grpc.StreamDesc{}, "/none"); err != nil {
		t.Errorf("the collector is gone: %v", err)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"ls", "--db", db, "--output", "json"}, nil, &out, &out); code != exitOK ||
		!strings.Contains(out.String(), `"id"`) {
		t.Errorf("ls: exit %d: %s", code, &out)
	}
}
