// Package otlpbounds examines OTLP messages before they are decoded: how deep they are nested, and how much memory
// their decoded form takes. The decoder of the Collector, pdata, bounds neither.
package otlpbounds

import (
	"errors"
	"math"
)

// Max is the depth of nesting that a Meter accepts. A span's attribute is the sixth message; each list in it takes two
// more and each map three. So Max admits more than 80 of them in one another; OpenTelemetry requires 64 of nobody.
//
// pdata decodes attribute values by recursion without a bound. In protobuf each MiB of nothing but nesting takes 120
// MiB of memory, and between 11 and 12 MiB the stack overflows, which ends the process and cannot be recovered from.
// JSON takes a fifth of that.
const Max = 256

var (
	// ErrTooDeep reports that a message is nested deeper than Max.
	ErrTooDeep = errors.New("nested deeper than 256 messages")
	// ErrTooLarge reports that the decoded form of a request takes more memory than a Meter allows.
	ErrTooLarge = errors.New("the decoded form takes too much memory")
)

// Check returns ErrTooDeep for spans in protobuf that are nested deeper than Max, else nil, also for bytes that are no
// message: their decoder reports that.
func Check(b []byte) error {
	_, err := NewMeter(Traces, math.MaxInt64).Write(b)
	return err
}

// CheckJSON is Check for JSON of any signal.
func CheckJSON(b []byte) error {
	_, err := NewJSONMeter(math.MaxInt64).Write(b)
	return err
}

// Signal is the kind of an OTLP request.
type Signal int

// The signals. AnySignal is for requests of which the kind is not known.
const (
	AnySignal Signal = iota
	Traces
	Logs
	Metrics
)

// message is a type of OTLP message: what pdata allocates for one on a 64-bit machine, with its place in the slice that
// holds it, and the fields that are messages.
type message struct {
	bytes  int64
	fields [16]*message
}

// The types, by their numbers in opentelemetry-proto.
var (
	value     = &message{bytes: 32}
	keyValue  = &message{bytes: 72}
	resource  = &message{bytes: 64}
	scope     = &message{bytes: 96}
	traces    = request(200, 120, span())
	logs      = request(200, 120, &message{bytes: 240, fields: [16]*message{5: value, 6: keyValue}})
	metrics   = request(200, 120, metric())
	bySignals = map[Signal][]*message{
		AnySignal: {traces, logs, metrics}, Traces: {traces}, Logs: {logs}, Metrics: {metrics},
	}
)

func init() {
	value.fields = [16]*message{
		5: {bytes: 48, fields: [16]*message{1: value}},
		6: {bytes: 48, fields: [16]*message{1: keyValue}},
	}
	keyValue.fields = [16]*message{2: value}
	resource.fields = [16]*message{1: keyValue}
	scope.fields = [16]*message{3: keyValue}
}

// request is an export request of records, which are in scopes, which are in resources.
func request(ofResource, ofScope int64, record *message) *message {
	inScope := &message{bytes: ofScope, fields: [16]*message{1: scope, 2: record}}
	inResource := &message{bytes: ofResource, fields: [16]*message{1: resource, 2: inScope}}
	return &message{fields: [16]*message{1: inResource}}
}

func span() *message {
	event := &message{bytes: 120, fields: [16]*message{3: keyValue}}
	link := &message{bytes: 160, fields: [16]*message{4: keyValue}}
	return &message{bytes: 420, fields: [16]*message{9: keyValue, 11: event, 13: link, 15: {bytes: 48}}}
}

func metric() *message {
	exemplar := &message{bytes: 160, fields: [16]*message{7: keyValue}}
	number := &message{bytes: 200, fields: [16]*message{5: exemplar, 7: keyValue}}
	histogram := &message{bytes: 300, fields: [16]*message{8: exemplar, 9: keyValue}}
	buckets := &message{bytes: 64}
	exponential := &message{bytes: 400, fields: [16]*message{1: keyValue, 8: buckets, 9: buckets, 11: exemplar}}
	summary := &message{bytes: 200, fields: [16]*message{6: {bytes: 48}, 7: keyValue}}
	data := func(point *message) *message { return &message{bytes: 64, fields: [16]*message{1: point}} }
	return &message{bytes: 200, fields: [16]*message{
		5: data(number), 7: data(number), 9: data(histogram), 10: data(exponential), 11: data(summary), 12: keyValue,
	}}
}

// Meter estimates, as the bytes of an export request are written to it, how much memory the decoded form takes: the
// bytes themselves and a fixed number for each message in them. A request of nothing but empty spans takes 200 times
// its size. The pieces may be cut anywhere. Not safe for concurrent use.
type Meter struct {
	limit, read, used int64
	walks             []walk
}

// walk examines the next bytes. It returns the memory of all messages so far, without their bytes, and ErrTooDeep.
type walk interface {
	write(p []byte) (int64, error)
}

// NewMeter returns a Meter for a request in protobuf. For AnySignal it is the greater of traces and logs, and the depth
// of all: it counts no memory of metrics, because the text of a log record can look like many data points.
func NewMeter(s Signal, limit int64) *Meter {
	m := &Meter{limit: limit}
	for _, root := range bySignals[s] {
		m.walks = append(m.walks, &protoWalk{open: []openMessage{{root, math.MaxInt64}},
			free: s == AnySignal && root == metrics})
	}
	return m
}

// NewJSONMeter returns a Meter for a request in JSON, of any signal. It counts the objects: those of the first four
// levels, which are resources, scopes and spans, as the largest of these.
func NewJSONMeter(limit int64) *Meter { return &Meter{limit: limit, walks: []walk{&jsonWalk{}}} }

// Write implements io.Writer. It returns ErrTooLarge once the memory exceeds the limit, and ErrTooDeep once messages
// are nested deeper than Max.
func (m *Meter) Write(p []byte) (int, error) {
	m.read += int64(len(p))
	for _, w := range m.walks {
		used, err := w.write(p)
		if m.used = max(m.used, m.read+used); err != nil {
			return len(p), err
		}
	}
	if m.used > m.limit {
		return len(p), ErrTooLarge
	}
	return len(p), nil
}

// Used returns the estimate for what was written.
func (m *Meter) Used() int64 { return m.used }

// openMessage is a message that begins before the next byte and ends after it.
type openMessage struct {
	*message
	end int64
}

// protoWalk reads fields as decoders do, and bytes that are no message as the rest of their message.
type protoWalk struct {
	used, at int64
	free     bool          // its messages count no memory
	deep     bool          // a message is nested too deep
	open     []openMessage // outermost first
	skip     int64         // bytes until the next field
	state    byte          // what the varint that is being read is
	number   uint64        // of the field
	varint   uint64
	bits     uint
}

const (
	inTag byte = iota
	inValue
	inLength
)

func (w *protoWalk) write(p []byte) (int64, error) {
	for len(p) > 0 && !w.deep {
		top := w.open[len(w.open)-1]
		if w.at >= top.end {
			w.open = w.open[:len(w.open)-1]
			w.state, w.varint, w.bits = inTag, 0, 0
			continue
		}
		if w.skip > 0 {
			n := min(w.skip, int64(len(p)))
			w.skip, w.at, p = w.skip-n, w.at+n, p[n:]
			continue
		}
		c := p[0]
		p = p[1:]
		w.at++
		if w.bits < 64 {
			w.varint |= uint64(c&0x7f) << w.bits
		}
		if w.bits += 7; c >= 0x80 && w.bits < 70 {
			continue
		}
		v := w.varint
		w.varint, w.bits = 0, 0
		if c >= 0x80 { // no varint has that many bytes
			w.skip = top.end - w.at
			continue
		}
		w.field(top, v)
	}
	if w.deep {
		return w.used, ErrTooDeep
	}
	return w.used, nil
}

// field takes the varint v of a field of top.
func (w *protoWalk) field(top openMessage, v uint64) {
	rest := top.end - w.at
	switch w.state {
	case inValue:
		w.state = inTag
	case inLength:
		w.state = inTag
		length := rest
		if v < uint64(rest) {
			length = int64(v)
		}
		var child *message
		if w.number < uint64(len(top.fields)) {
			child = top.fields[w.number]
		}
		if child == nil {
			w.skip = length
			return
		}
		if !w.free {
			w.used += child.bytes
		}
		w.deep = len(w.open) == Max
		w.open = append(w.open, openMessage{child, w.at + length})
	default:
		w.number = v >> 3
		switch v & 7 {
		case 0:
			w.state = inValue
		case 1:
			w.skip = min(8, rest)
		case 2:
			w.state = inLength
		case 3, 4: // begin and end of a group: its fields are here
		case 5:
			w.skip = min(4, rest)
		default:
			w.skip = rest
		}
	}
}

type jsonWalk struct {
	used           int64
	objects, level int // that are open: objects, and both objects and arrays
	text, escaped  bool
}

func (w *jsonWalk) write(p []byte) (int64, error) {
	for _, c := range p {
		switch {
		case w.escaped:
			w.escaped = false
		case c == '"':
			w.text = !w.text
		case w.text:
			w.escaped = c == '\\'
		case c == '[':
			w.level++
		case c == ']':
			w.level--
		case c == '{':
			w.level++
			if w.objects++; w.objects <= 4 {
				w.used += 420
			} else {
				w.used += 160
			}
		case c == '}':
			w.level--
			w.objects--
		}
		if w.level > Max {
			return w.used, ErrTooDeep
		}
	}
	return w.used, nil
}
