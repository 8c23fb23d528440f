package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/otlpbounds"
)

// otlpHead is how JSON of spans or log records begins: as OTLP, as a collector's file exporter writes it, or as Jaeger
// does in its API of version 3 and in that of its page. The first group names which.
var otlpHead = regexp.MustCompile(`^[\s\x{feff}]*\{\s*"(resourceSpans|resourceLogs|resourceMetrics|` +
	`result"\s*:\s*\{\s*"resourceSpans|data"\s*:\s*\[\s*\{\s*"(?:traceID|spans|processes))"`)

// otlpPeek is how many bytes of an input otlpHead is matched with.
const otlpPeek = 512

// document is one JSON document: spans or log records.
type document struct {
	traces ptrace.Traces
	logs   plog.Logs
	size   int
}

// openOTLP returns the JSON of a file of spans or log records, nil for any other file, of which it then has read
// nothing. A file may be compressed with zstd, as a whole or, as the file exporter does, document by document.
func openOTLP(in io.ReadSeeker) (io.Reader, error) {
	const magic = "\x28\xb5\x2f\xfd"
	head := make([]byte, 8)
	n, _ := io.ReadFull(in, head)
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var r io.Reader = in
	framed := bytes.HasSuffix(head[:n], []byte(magic))
	if framed {
		r = &frames{r: bufio.NewReader(in)}
	}
	if framed || bytes.HasPrefix(head, []byte(magic)) {
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecording))
		if err != nil {
			return nil, err
		}
		r = z
	}
	text := bufio.NewReaderSize(r, otlpPeek)
	if begin, _ := text.Peek(otlpPeek); otlpHead.Match(begin) {
		return io.LimitReader(text, maxRecording), nil
	}
	_, err := in.Seek(0, io.SeekStart)
	return nil, err
}

// frames reads documents that each have their length in front, in four bytes, and omits the lengths.
type frames struct {
	r    *bufio.Reader
	left uint32
}

func (f *frames) Read(p []byte) (int, error) {
	for f.left == 0 {
		if err := binary.Read(f.r, binary.BigEndian, &f.left); err != nil {
			return 0, err
		}
	}
	n, err := f.r.Read(p[:min(len(p), int(f.left))])
	f.left -= uint32(n)
	return n, err
}

// documents yields the documents of a file. An error holds nothing of the input.
func documents(name string, in io.Reader) iter.Seq2[document, error] {
	return func(yield func(document, error) bool) {
		dec := json.NewDecoder(in)
		for n := 1; ; n++ {
			var text json.RawMessage
			err := dec.Decode(&text)
			if errors.Is(err, io.EOF) {
				return
			}
			var d document
			if err == nil {
				err = otlpbounds.CheckJSON(text)
			}
			if err == nil {
				d, err = parseDocument(text)
			}
			if err != nil {
				yield(d, fmt.Errorf("%s: document %d, which ends before byte %d, is no OTLP of spans or log records", name, n,
					dec.InputOffset()+1))
				return
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

func parseDocument(text []byte) (d document, err error) {
	d = document{ptrace.NewTraces(), plog.NewLogs(), len(text)}
	m := otlpHead.FindSubmatch(text[:min(len(text), otlpPeek)])
	if m == nil {
		return d, errors.New("no OTLP")
	}
	switch head, _, _ := strings.Cut(string(m[1]), `"`); head {
	case "result":
		var of struct{ Result json.RawMessage }
		if err = json.Unmarshal(text, &of); err != nil {
			return d, err
		}
		text = of.Result
		fallthrough
	case "resourceSpans":
		var u ptrace.JSONUnmarshaler
		d.traces, err = u.UnmarshalTraces(bytes.TrimSpace(text))
	case "resourceLogs":
		var u plog.JSONUnmarshaler
		d.logs, err = u.UnmarshalLogs(bytes.TrimSpace(text))
	case "data":
		d.traces, err = jaegerTraces(text)
	}
	return d, err
}
