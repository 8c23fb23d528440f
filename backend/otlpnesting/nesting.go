// Package otlpnesting refuses OTLP messages that are nested too deep, before they are decoded. The decoder that everybody uses, pdata,
// reads attribute values by recursion without a bound: of protobuf each MiB of nothing but nesting takes 120 MiB of memory, and
// somewhere between 11 and 12 MiB the stack has no room left, which ends the process and no recover stops. JSON takes a fifth of that.
package otlpnesting

import "errors"

// Max is how deep messages may stand in each other. A span's attribute is the sixth, each list in it takes two more and each map three,
// so this is more than 80 of them in one another; OpenTelemetry asks for 64 of nobody.
const Max = 256

// ErrTooDeep says that a message is nested deeper than Max.
var ErrTooDeep = errors.New("nested deeper than 256 messages")

// Check returns ErrTooDeep for a message that is nested deeper than Max, else nil: also for one that is no message, which its decoder
// will say. It knows no message types: whatever could be a message inside a message is looked into as if it were one, as leniently as
// any decoder would. So text is looked into as well; it is too deep only if it was made for that. Check takes time in proportion to
// the bytes, a small part of what decoding takes, and no memory.
func Check(b []byte) error {
	if deep(b, 1) {
		return ErrTooDeep
	}
	return nil
}

// CheckJSON does the same for JSON: it counts the objects and lists that stand in each other.
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
		tag, n := varint(b)
		if n == 0 {
			return false
		}
		b = b[n:]
		skip := 0
		switch tag & 7 {
		case 0: // varint
			_, skip = varint(b)
			if skip == 0 {
				return false
			}
		case 1: // 8 bytes
			skip = 8
		case 2: // a message, or text
			length, n := varint(b)
			if n == 0 || length > uint64(len(b)-n) {
				return false
			}
			inner := b[n : n+int(length)]
			if deep(inner, level+1) {
				return true
			}
			skip = n + int(length)
		case 3, 4: // begin and end of a group: its fields stand here
		case 5: // 4 bytes
			skip = 4
		default:
			return false
		}
		if skip > len(b) {
			return false
		}
		b = b[skip:]
	}
	return false
}

// varint reads a number and how many bytes it takes, 0 where there is none. Bits beyond 64 are dropped, as lenient decoders do.
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
