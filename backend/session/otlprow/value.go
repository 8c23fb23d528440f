package otlprow

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/otel/attribute"
)

func attrKey(s string) attribute.Key { return attribute.Key(s) }

// valid returns s with each byte that is not UTF-8 replaced by U+FFFD.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}

// boundID returns an id as the adapter would have written it: one over the bound as its hash.
func boundID(s string) string {
	if len(s) > maxID {
		sum := sha256.Sum256([]byte(s))
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return valid(s)
}

// cut returns s as valid text of at most n bytes, cut at a rune. A cut string does not hold on to the long one.
func cut(s string, n int) string {
	if len(s) <= n {
		return valid(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return valid(strings.Clone(s[:n]))
}

func str(v pcommon.Value) string {
	if v.Type() != pcommon.ValueTypeStr {
		return ""
	}
	return valid(v.Str())
}

func intOf(v pcommon.Value) (int64, bool) {
	switch v.Type() {
	case pcommon.ValueTypeInt:
		return v.Int(), true
	case pcommon.ValueTypeDouble:
		f := v.Double()
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
		}
	case pcommon.ValueTypeStr:
		n, err := strconv.ParseInt(v.Str(), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// get returns the last value of key.
func get(m pcommon.Map, key string) (found pcommon.Value, ok bool) {
	for k, v := range m.All() {
		if k == key {
			found, ok = v, true
		}
	}
	return found, ok
}

// appendJSON appends a structured value as JSON with sorted keys. It fails when the value is nested deeper than maxDepth or its text is
// longer than most.
func appendJSON(dst []byte, v pcommon.Value, depth, most int) ([]byte, bool) {
	if depth > maxDepth || len(dst) > most {
		return nil, false
	}
	switch v.Type() {
	case pcommon.ValueTypeStr:
		dst = appendQuoted(dst, v.Str(), most)
	case pcommon.ValueTypeInt:
		dst = strconv.AppendInt(dst, v.Int(), 10)
	case pcommon.ValueTypeDouble:
		if f := v.Double(); math.IsNaN(f) || math.IsInf(f, 0) {
			dst = appendQuoted(dst, strconv.FormatFloat(f, 'g', -1, 64), most)
		} else {
			dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
		}
	case pcommon.ValueTypeBool:
		dst = strconv.AppendBool(dst, v.Bool())
	case pcommon.ValueTypeBytes:
		if v.Bytes().Len() > most {
			return nil, false
		}
		dst = appendQuoted(dst, base64.StdEncoding.EncodeToString(v.Bytes().AsRaw()), 2*most)
	case pcommon.ValueTypeSlice:
		dst = append(dst, '[')
		for i, e := range v.Slice().All() {
			if i > 0 {
				dst = append(dst, ',')
			}
			var ok bool
			if dst, ok = appendJSON(dst, e, depth+1, most); !ok {
				return nil, false
			}
		}
		dst = append(dst, ']')
	case pcommon.ValueTypeMap:
		type entry struct {
			key   string
			value pcommon.Value
		}
		var l []entry
		for k, e := range v.Map().All() {
			l = append(l, entry{k, e})
		}
		slices.SortStableFunc(l, func(a, b entry) int { return strings.Compare(a.key, b.key) })
		dst = append(dst, '{')
		first := true
		for i, e := range l {
			if i+1 < len(l) && l[i+1].key == e.key {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			if dst = appendQuoted(dst, e.key, most); len(dst) > most {
				return nil, false
			}
			dst = append(dst, ':')
			var ok bool
			if dst, ok = appendJSON(dst, e.value, depth+1, most); !ok {
				return nil, false
			}
		}
		dst = append(dst, '}')
	default:
		dst = append(dst, "null"...)
	}
	return dst, len(dst) <= most
}

func appendQuoted(dst []byte, s string, most int) []byte {
	if len(s) > most {
		return append(dst, make([]byte, most+1)...) // the caller sees that it is too long
	}
	b, err := json.Marshal(valid(s))
	if err != nil { // cannot happen: s is a string
		return append(dst, `""`...)
	}
	return append(dst, b...)
}
