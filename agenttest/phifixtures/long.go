package phifixtures

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Long opens the event stream of a long session as the newest release of phi-core sent it: one AgentEvent a line, every
// line with its end. It unpacks while it is read and holds some 40 MB, where the stream has 60 to 500 and a line up to
// 2.5; the caller closes it. repository is the repository's own folder. It fails the test when there is no session of
// that name; what is broken further back comes as an error of Read.
func Long(tb testing.TB, repository, name string) io.ReadCloser {
	tb.Helper()
	file, err := os.Open(filepath.Join(repository, "dialects", "phi", "testdata", "long", name+".events.ndjson.zst"))
	if err != nil {
		tb.Fatal(err)
	}
	// One goroutine, nothing ahead of the reader: who measures the reader measures little else.
	unpacked, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(longWindow))
	if err != nil {
		_ = file.Close()
		tb.Fatalf("%s: %v", name, err)
	}
	return &longStream{unpacked, file}
}

// longWindow is the memory that the packer asks of its readers (interop/phi-core/src/long/mod.rs).
const longWindow = 1 << 25

type longStream struct {
	*zstd.Decoder
	file *os.File
}

// Close ends the decoder, which has nothing to report, and the file.
func (s *longStream) Close() error {
	s.Decoder.Close()
	return s.file.Close()
}
