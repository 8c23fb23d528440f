package sqlitestore

import (
	"database/sql/driver"
	_ "embed"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"modernc.org/sqlite"

	"github.com/otelagent/otelagent/backend/store"
)

// First bytes of the column canonical. 1 is the version byte of canonical bytes themselves.
const (
	rowPlain = 1
	rowS2    = 2 // the rest is an S2 block with rowDict
	rowZstd  = 3 // the rest is a zstd frame with rowDict
)

// rowLarge is from how many canonical bytes on a row is compressed with zstd. Such a row has lists, whose ids only an
// entropy coder makes smaller; for the others S2 does nearly as well in a tenth of the time.
const rowLarge = 2 << 10

// rowDictID is in every zstd frame that needs the dictionary.
const rowDictID = 2

//go:embed rows.dict2
var rowDictBytes []byte

// rowDict returns the dictionary of rows. Every compressed row of a file was written with it: never change it. A better
// dictionary gets another first byte, and this one stays. It holds attribute keys, and rows of recorded sessions.
var rowDict = sync.OnceValue(func() *s2.Dict { return s2.NewDict(rowDictBytes) })

var errRow = fmt.Errorf("bad compressed row: %w", store.ErrData)

// packRow appends what the column canonical holds for canonical bytes. Which of the two forms it takes depends on
// nothing else.
func packRow(dst, canonical []byte) []byte {
	from := len(dst)
	if len(canonical) >= rowLarge {
		if dst = rowEncoder().EncodeAll(canonical, append(dst, rowZstd)); len(dst)-from > len(canonical) {
			return append(dst[:from], canonical...)
		}
		return dst
	}
	need := s2.MaxEncodedLen(len(canonical))
	dst = append(dst, rowS2)
	if cap(dst)-len(dst) < need {
		grown := make([]byte, len(dst), len(dst)+need)
		copy(grown, dst)
		dst = grown
	}
	n := len(rowDict().Encode(dst[len(dst):len(dst)+need], canonical))
	if n >= len(canonical) {
		return append(dst[:from], canonical...)
	}
	return dst[:len(dst)+n]
}

// unpackRow returns the canonical bytes that the column canonical holds, in buf where they fit, or as they are in
// value.
func unpackRow(buf, value []byte) ([]byte, error) {
	if len(value) == 0 || value[0] == rowPlain {
		return value, nil // session.ParseRow says what is wrong with it
	}
	var out []byte
	var err error
	switch n := 0; value[0] {
	case rowS2:
		if n, err = s2.DecodedLen(value[1:]); err == nil && n > store.MaxValue {
			err = fmt.Errorf("%d bytes, at most %d", n, store.MaxValue)
		}
		if err == nil {
			out, err = rowDict().Decode(buf[:cap(buf)], value[1:])
		}
	case rowZstd:
		out, err = rowDecoder().DecodeAll(value[1:], buf[:0])
	default:
		err = fmt.Errorf("form %d, which this program does not know", value[0])
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRow, err)
	}
	return out, nil
}

// canonicalFunc is the name in SQL of what unpackRow does: which of two rows stays is decided over canonical bytes.
const canonicalFunc = "otelagent_canonical"

func init() {
	sqlite.MustRegisterDeterministicScalarFunction(canonicalFunc, 1,
		func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			value, ok := args[0].([]byte)
			if !ok {
				return nil, errRow
			}
			// A damaged row comes before every other: one that is Put again repairs it.
			canonical, err := unpackRow(nil, value)
			if err != nil {
				return []byte{}, nil //nolint:nilerr // see above
			}
			return canonical, nil
		})
}

// coders is how many compress at once: each keeps some MB, and few writers do.
const coders = 2

// Coders are shared by all stores of the process. They are safe for concurrent use and start no goroutines for whole
// buffers.
var (
	packEncoder = sync.OnceValue(func() *zstd.Encoder { return newEncoder() })
	packDecoder = sync.OnceValue(func() *zstd.Decoder { return newDecoder(zstd.WithDecoderMaxMemory(maxPack)) })
	rowEncoder  = sync.OnceValue(func() *zstd.Encoder {
		return newEncoder(zstd.WithEncoderDictRaw(rowDictID, rowDictBytes), zstd.WithEncoderCRC(false))
	})
	rowDecoder = sync.OnceValue(func() *zstd.Decoder {
		return newDecoder(zstd.WithDecoderDictRaw(rowDictID, rowDictBytes), zstd.WithDecoderMaxMemory(store.MaxValue))
	})
)

func newEncoder(more ...zstd.EOption) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, append(more, zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithEncoderConcurrency(coders), zstd.WithWindowSize(packWindow),
		zstd.WithSingleSegment(true))...) // which writes the size of every frame into it
	if err != nil {
		panic(err) // the options are constants
	}
	return e
}

func newDecoder(more ...zstd.DOption) *zstd.Decoder {
	d, err := zstd.NewReader(nil, append(more, zstd.WithDecoderConcurrency(0))...)
	if err != nil {
		panic(err)
	}
	return d
}

var errPack = fmt.Errorf("bad pack: %w", store.ErrData)

// unpack decompresses the body of a pack of raw bytes, in buf where they fit.
func unpack(buf, body []byte, pack, raw int64) ([]byte, error) {
	var h zstd.Header
	switch err := h.Decode(body); {
	case err != nil:
		return nil, fmt.Errorf("pack %d: %w: %w", pack, errPack, err)
	case !h.HasFCS || raw < 0 || raw > maxPack || h.FrameContentSize != uint64(raw):
		// Checked first, so that no frame gets more memory than the pack says it needs.
		return nil, fmt.Errorf("pack %d: %w: not a frame of %d bytes", pack, errPack, raw)
	}
	out, err := packDecoder().DecodeAll(body, buf[:0])
	switch {
	case err != nil:
		return nil, fmt.Errorf("pack %d: %w: %w", pack, errPack, err)
	case int64(len(out)) != raw:
		return nil, fmt.Errorf("pack %d: %w: %d bytes, want %d", pack, errPack, len(out), raw)
	}
	return out, nil
}
