package session

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// ValueType is the type of a Value.
type ValueType uint8

// The types. Maps, byte slices and mixed lists of OTLP become their JSON text as TypeString. The numbers are those of
// the canonical bytes of a row.
const (
	TypeNone ValueType = iota
	TypeString
	TypeInt
	TypeDouble
	TypeBool
	TypeStrings
)

// Value is the value of an attribute: small, immutable, comparable with ==. The zero Value stands for an absent one.
//
// Pipelines rewrite types, so the readers below are lenient: a whole double or a decimal string counts as an int, an
// int or a decimal string as a double, the words true and false as a bool.
type Value struct {
	// str is the text of a string, or the canonical form of a list: varint count, then varint length and bytes of each.
	str string
	num uint64
	typ ValueType
}

// StringValue returns s as a Value.
func StringValue(s string) Value { return Value{typ: TypeString, str: s} }

// IntValue returns n as a Value.
func IntValue(n int64) Value { return Value{typ: TypeInt, num: uint64(n)} }

// DoubleValue returns f as a Value.
func DoubleValue(f float64) Value { return Value{typ: TypeDouble, num: math.Float64bits(f)} }

// BoolValue returns b as a Value.
func BoolValue(b bool) Value { return Value{typ: TypeBool, num: uint64(boolByte(b))} }

// StringsValue returns a copy of l as a Value.
func StringsValue(l []string) Value {
	size := binary.MaxVarintLen32
	for _, s := range l {
		size += binary.MaxVarintLen32 + len(s)
	}
	buf := binary.AppendUvarint(make([]byte, 0, size), uint64(len(l)))
	for _, s := range l {
		buf = appendString(buf, s)
	}
	return Value{typ: TypeStrings, str: string(buf)}
}

// Type returns the type; TypeNone for an absent value.
func (v Value) Type() ValueType { return v.typ }

// IsZero reports whether the value is absent.
func (v Value) IsZero() bool { return v.typ == TypeNone }

// Str returns a string value, or "" for any other type.
func (v Value) Str() string {
	if v.typ != TypeString {
		return ""
	}
	return v.str
}

// Strings returns a new slice with the list of strings, or nil for an empty list and any other type.
func (v Value) Strings() []string {
	if v.typ != TypeStrings {
		return nil
	}
	var l []string
	c := codec{reading: true, in: []byte(v.str)}
	each(&c, &l, 1, c.unique)
	return l
}

// Int returns an int and true, or false for any other value. See Value for what counts as one.
func (v Value) Int() (int64, bool) {
	switch v.typ {
	case TypeInt:
		return int64(v.num), true
	case TypeDouble:
		f := math.Float64frombits(v.num)
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
		}
	case TypeString:
		if n, err := strconv.ParseInt(v.str, 10, 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

// IntOr returns an int value, or other when it is none.
func (v Value) IntOr(other int64) int64 {
	if n, ok := v.Int(); ok {
		return n
	}
	return other
}

// Double returns a number and true, or false for any other value. See Value for what counts as one.
func (v Value) Double() (float64, bool) {
	switch v.typ {
	case TypeDouble:
		return math.Float64frombits(v.num), true
	case TypeInt:
		return float64(int64(v.num)), true
	case TypeString:
		if f, err := strconv.ParseFloat(v.str, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, true
		}
	}
	return 0, false
}

// Bool returns the value and whether it is a bool. See Value for what counts as one.
func (v Value) Bool() (value, ok bool) {
	switch v.typ {
	case TypeBool:
		return v.num == 1, true
	case TypeString:
		return v.str == "true", v.str == "true" || v.str == "false"
	}
	return false, false
}

// Text returns any value as text, for display.
func (v Value) Text() string {
	switch v.typ {
	case TypeString:
		return v.str
	case TypeInt:
		return strconv.FormatInt(int64(v.num), 10)
	case TypeDouble:
		return strconv.FormatFloat(math.Float64frombits(v.num), 'g', -1, 64)
	case TypeBool:
		return strconv.FormatBool(v.num == 1)
	case TypeStrings:
		return strings.Join(v.Strings(), ", ")
	}
	return ""
}

// Any returns the value as JSON shows it: string, int64, float64, bool or []string; a double that JSON cannot hold
// (not a number, infinite) as its text; nil for an absent value.
func (v Value) Any() any {
	switch v.typ {
	case TypeString:
		return v.str
	case TypeInt:
		return int64(v.num)
	case TypeDouble:
		f := math.Float64frombits(v.num)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return v.Text()
		}
		return f
	case TypeBool:
		return v.num == 1
	case TypeStrings:
		return append([]string{}, v.Strings()...)
	}
	return nil
}
