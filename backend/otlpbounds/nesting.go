// Package otlpbounds examines OTLP messages before they are decoded: how deep they are nested, and how much memory their
// decoded form takes. The decoder of the Collector, pdata, bounds neither.
package otlpbounds

import "errors"

// Max is the depth of nesting that Check accepts. A span's attribute is the sixth message; each list in it takes two
// more and each map three. So Max admits more than 80 of them in one another; OpenTelemetry requires 64 of nobody.
//
// pdata decodes attribute values by recursion without a bound. In protobuf each MiB of nothing but nesting takes
// 120 MiB of memory, and between 11 and 12 MiB the stack overflows, which ends the process and cannot be recovered from.
// JSON takes a fifth of that.
const Max = 256

// ErrTooDeep reports that a message is nested deeper than Max.
var ErrTooDeep = errors.New("nested deeper than 256 messages")

// Check returns ErrTooDeep for a protobuf message that is nested deeper than Max, else nil, also for bytes that are no
// message: their decoder reports that. It knows no message types: it looks into every field that could be a message, as
// leniently as any decoder does. So it looks into text too, which is too deep only if it was made for that. Check takes
// time in proportion to the bytes, a small part of the time of decoding, and no memory.
func Check(b []byte) error {
	if deep(b, 1) {
		return ErrTooDeep
	}
	return nil
}

// CheckJSON is Check for JSON: it counts the objects and arrays that stand in each other.
func CheckJSON(b []byte) error {
	level, text := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			text = !text
		case text:
			if c == '\\' {
				i++
			}
		case c == '{' || c == '[':
			if level++; level > Max {
				return ErrTooDeep
			}
		case c == '}' || c == ']':
			level--
		}
	}
	return nil
}

func deep(b []byte, level int) bool {
	if level > Max {
		return true
	}
	for len(b) > 0 {
		_, inner, rest, ok := next(b)
		if !ok {
			return false
		}
		if inner != nil && deep(inner, level+1) {
			return true
		}
		b = rest
	}
	return false
}

// next reads the first field of b: its number, its content if that could be a message, and what follows. The marks of
// groups are fields without content. ok is false for bytes that are no field, and for a field that is longer than b: then
// inner is what there is of it.
func next(b []byte) (number uint64, inner, rest []byte, ok bool) {
	tag, n := varint(b)
	if n == 0 {
		return 0, nil, nil, false
	}
	number, b = tag>>3, b[n:]
	skip := 0
	switch tag & 7 {
	case 0: // varint
		if _, skip = varint(b); skip == 0 {
			return 0, nil, nil, false
		}
	case 1: // 8 bytes
		skip = 8
	case 2: // a message, or text
		length, n := varint(b)
		if n == 0 {
			return 0, nil, nil, false
		}
		b = b[n:]
		if length > uint64(len(b)) {
			return number, b, nil, false
		}
		return number, b[:length], b[length:], true
	case 3, 4: // begin and end of a group: its fields stand here
	case 5: // 4 bytes
		skip = 4
	default:
		return 0, nil, nil, false
	}
	if skip > len(b) {
		return 0, nil, nil, false
	}
	return number, nil, b[skip:], true
}

// varint reads a number and returns how many bytes it takes, 0 if there is none. It drops bits beyond 64, as lenient
// decoders do.
func varint(b []byte) (v uint64, n int) {
	for n < len(b) && n < 10 {
		v |= uint64(b[n]&0x7f) << (7 * n)
		n++
		if b[n-1] < 0x80 {
			return v, n
		}
	}
	return 0, 0
}
