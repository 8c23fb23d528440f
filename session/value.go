package session

import (
	"math"
	"strconv"
)

// ValueType is the type of a Value.
type ValueType uint8

// The types. Maps, byte slices and mixed lists of OTLP become their JSON text as TypeString.
const (
	TypeNone ValueType = iota
	TypeString
	TypeInt
	TypeDouble
	TypeBool
	TypeStrings
)

// Value is the value of an attribute. The zero Value stands for an absent one.
type Value struct {
	typ  ValueType
	num  uint64
	str  string
	list []string
}

// String, Int, Double, Bool and Strings make values. StringsValue keeps the slice.
func StringValue(s string) Value    { return Value{typ: TypeString, str: s} }
func IntValue(n int64) Value        { return Value{typ: TypeInt, num: uint64(n)} }
func DoubleValue(f float64) Value   { return Value{typ: TypeDouble, num: math.Float64bits(f)} }
func StringsValue(l []string) Value { return Value{typ: TypeStrings, list: l} }
func BoolValue(b bool) Value {
	v := Value{typ: TypeBool}
	if b {
		v.num = 1
	}
	return v
}

// Type returns the type; TypeNone for an absent value.
func (v Value) Type() ValueType { return v.typ }

// Str returns a string value, or "" for any other type.
func (v Value) Str() string { return v.str }

// Strings returns a list of strings, or nil for any other type.
func (v Value) Strings() []string { return v.list }

// Int returns an int value and true. A double without fraction counts as one: pipelines rewrite numbers.
func (v Value) Int() (int64, bool) {
	switch v.typ {
	case TypeInt:
		return int64(v.num), true
	case TypeDouble:
		f := math.Float64frombits(v.num)
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
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

// Double returns a numeric value and true.
func (v Value) Double() (float64, bool) {
	switch v.typ {
	case TypeDouble:
		return math.Float64frombits(v.num), true
	case TypeInt:
		return float64(int64(v.num)), true
	}
	return 0, false
}

// Bool returns the value and whether it is a bool.
func (v Value) Bool() (value, ok bool) { return v.num == 1, v.typ == TypeBool }

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
		return strconv.Quote(joinComma(v.list))
	}
	return ""
}

func joinComma(l []string) string {
	out := ""
	for i, s := range l {
		if i > 0 {
			out += ","
		}
		out += s
	}
	return out
}
