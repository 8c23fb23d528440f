package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/otlpbounds"
	"github.com/otelagent/otelagent/backend/session/otlprow"
)

// otlpHead is how the JSON of spans as OTLP begins, as a collector's file exporter writes it.
var otlpHead = regexp.MustCompile(`^[\s\x{feff}]*\{\s*"resourceSpans"\s*:`)

// otlpPeek is how much of an input is looked at to decide that.
const otlpPeek = 512

// readOTLP keeps the spans of those files that hold spans as OTLP already, and takes them out of what is left to read.
// Nothing is recorded again: what stands in them is what a collector would have got, with as much content as they have.
func (r *recording) readOTLP(ctx context.Context) error {
	if r.options.From != auto {
		return nil
	}
	var rest []string
	for _, name := range r.options.Files {
		in, found, err := r.opensOTLP(name)
		if err != nil {
			return err
		}
		if !found {
			rest = append(rest, name)
			continue
		}
		if name == "-" {
			name = "standard input"
		}
		err = r.otlp(ctx, name, in)
		if c, ok := in.(io.Closer); ok {
			_ = c.Close()
		}
		if err != nil {
			return err
		}
	}
	r.options.Files = rest
	return nil
}

// opensOTLP opens a file that holds spans as OTLP. Of any other, and of what cannot be opened, it returns false: the
// later readers report the error.
func (r *recording) opensOTLP(name string) (in io.Reader, found bool, err error) {
	if name == "-" {
		head := bufio.NewReaderSize(r.app.stdin, otlpPeek)
		first, err := head.Peek(otlpPeek)
		if err != nil && err != io.EOF {
			return nil, false, fmt.Errorf("standard input: %w", err)
		}
		r.app = &app{stdin: head, stdout: r.app.stdout, stderr: r.app.stderr}
		return head, otlpHead.Match(first), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, false, nil
	}
	first := make([]byte, otlpPeek)
	n, _ := f.ReadAt(first, 0) // a pipe has no place 0: it is none of these
	if !otlpHead.Match(first[:n]) {
		_ = f.Close()
		return nil, false, nil
	}
	return f, true, nil
}

// otlp keeps the spans of in: JSON documents one behind the other, each an ExportTraceServiceRequest.
func (r *recording) otlp(ctx context.Context, name string, in io.Reader) error {
	dec := json.NewDecoder(io.LimitReader(in, maxRecording))
	var decoder ptrace.JSONUnmarshaler
	foreign, rejected := 0, map[string]int{}
	for n := 1; ; n++ {
		var doc json.RawMessage
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = otlpbounds.CheckJSON(doc)
		}
		if err == nil {
			err = r.grow(len(doc))
			if err != nil {
				return err
			}
		}
		var traces ptrace.Traces
		if err == nil {
			traces, err = decoder.UnmarshalTraces(bytes.TrimSpace(doc))
		}
		if err != nil { // whose text may hold a piece of the input
			return fmt.Errorf("%s: document %d, which ends before byte %d, is no OTLP of spans", name, n, dec.InputOffset()+1)
		}
		batch, report := otlprow.Decode(traces, otlprow.WithTenant(r.options.Tenant))
		foreign += report.Foreign
		for reason, n := range report.Rejected {
			rejected[reason] += n
		}
		if err := r.store.Put(ctx, batch); err != nil {
			return err
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(rejected)) {
		r.app.say("%s: %s rejected: %s", name, count(rejected[reason], "span"), reason)
	}
	if foreign > 0 {
		r.app.say("%s: %s of other instrumentation left out", name, count(foreign, "span"))
	}
	return nil
}
