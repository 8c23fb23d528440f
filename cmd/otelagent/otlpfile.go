package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// document is one JSON document: spans or log records, or metrics, which are not read.
type document struct {
	traces  ptrace.Traces
	logs    plog.Logs
	size    int
	metrics int // 1 where it has them
}

// otlpFile is a file of spans or log records.
type otlpFile struct {
	name string
	text io.Reader // JSON
}

// openOTLP opens the files that hold spans or log records. It returns the names of the others, of which it then has
// read nothing. Open returns nil for a file that cannot be read twice.
func openOTLP(names []string, open func(string) (io.ReadSeeker, error)) (files []otlpFile, others []string, err error) {
	for _, name := range names {
		in, err := open(name)
		var text io.Reader
		if err == nil && in != nil {
			text, err = otlpText(in)
		}
		switch {
		case err != nil:
			return nil, nil, err
		case text == nil:
			others = append(others, name)
		case name == "-":
			files = append(files, otlpFile{"standard input", text})
		default:
			files = append(files, otlpFile{name, text})
		}
	}
	return files, others, nil
}

// otlpText returns the JSON of a file of spans or log records, nil for any other file. A file may be compressed with
// zstd, as a whole or, as the file exporter does, document by document.
func otlpText(in io.ReadSeeker) (io.Reader, error) {
	const magic = "\x28\xb5\x2f\xfd"
	text := bufio.NewReaderSize(in, otlpPeek)
	head, _ := text.Peek(2 * len(magic))
	if framed := bytes.HasSuffix(head, []byte(magic)); framed || bytes.HasPrefix(head, []byte(magic)) {
		var r io.Reader = text
		if framed {
			r = &frames{r: text}
		}
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxRecording))
		if err != nil {
			return nil, err
		}
		text = bufio.NewReaderSize(z, otlpPeek)
	}
	if begin, _ := text.Peek(otlpPeek); otlpHead.Match(begin) {
		return text, nil
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

// each hands the documents of the file to put. One of more than most bytes is an error. An error of what it reads holds
// nothing of the input.
func (f otlpFile) each(most int64, put func(document) error) error {
	in := &io.LimitedReader{R: f.text}
	dec := json.NewDecoder(in)
	for n := 1; ; n++ {
		in.N = most
		var text json.RawMessage
		err := dec.Decode(&text)
		if in.N == 0 && err != nil {
			return fmt.Errorf("%s: document %d is larger than %d bytes", f.name, n, most)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		d, bad := parseDocument(text)
		if err != nil || bad != nil {
			return fmt.Errorf("%s: document %d, which ends before byte %d, is no OTLP of spans or log records", f.name, n,
				dec.InputOffset()+1)
		}
		if err := put(d); err != nil {
			return err
		}
	}
}

func parseDocument(text []byte) (d document, err error) {
	d = document{traces: ptrace.NewTraces(), logs: plog.NewLogs(), size: len(text)}
	m := otlpHead.FindSubmatch(text[:min(len(text), otlpPeek)])
	if err = otlpbounds.CheckJSON(text); err != nil || m == nil {
		return d, cmp.Or(err, errors.New("no OTLP"))
	}
	switch head, _, _ := strings.Cut(string(m[1]), `"`); head {
	case "result":
		var of struct{ Result json.RawMessage }
		_ = json.Unmarshal(text, &of) // it is JSON
		text = of.Result
		fallthrough
	case "resourceSpans":
		var u ptrace.JSONUnmarshaler
		d.traces, err = u.UnmarshalTraces(bytes.TrimSpace(text))
	case "resourceLogs":
		var u plog.JSONUnmarshaler
		d.logs, err = u.UnmarshalLogs(bytes.TrimSpace(text))
	case "resourceMetrics":
		d.metrics = 1
	case "data":
		d.traces, err = jaegerTraces(text)
	}
	return d, err
}
