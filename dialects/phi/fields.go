package phi

import (
	"math"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// fields reads typed values and keeps the first problem. A value that is absent or null reads as the zero value, or as
// told; one of another type is a problem.
type fields struct {
	words *names
	wrong *input.LineError
}

func (f *fields) problem(path, reason string) {
	if f.wrong == nil {
		f.wrong = &input.LineError{Field: path, Reason: reason}
	}
}

func (f *fields) mismatch(path string, value []byte, want string) {
	f.problem(path, "want "+want+", got "+rawjson.KindOf(value))
}

// required reports a problem if value is absent or null.
func (f *fields) required(path string, value []byte, want string) {
	switch {
	case value == nil:
		f.problem(path, "missing, want "+want)
	case value[0] == 'n':
		f.mismatch(path, value, want)
	}
}

func absent(value []byte) bool { return value == nil || value[0] == 'n' }

// id reads a string that is an id, name or word: such strings repeat and are stored once.
func (f *fields) id(path string, value []byte) string {
	if absent(value) {
		return ""
	}
	if value[0] != '"' {
		f.mismatch(path, value, "a string")
		return ""
	}
	return f.words.of(value)
}

// text reads a string that is content.
func (f *fields) text(path string, value []byte) string {
	if absent(value) {
		return ""
	}
	s, ok := rawjson.String(value)
	if !ok {
		f.mismatch(path, value, "a string")
	}
	return s
}

const wantCount = "an integer from 0 to 9223372036854775807"

// count reads an integer that is not negative; none when there is none.
func (f *fields) count(path string, value []byte, none int64) int64 {
	if absent(value) {
		return none
	}
	n, ok := parseCount(value)
	switch {
	case ok:
		return n
	case value[0] == '-' || value[0] >= '0' && value[0] <= '9':
		f.problem(path, "want "+wantCount+", got another number")
	default:
		f.mismatch(path, value, wantCount)
	}
	return none
}

func parseCount(value []byte) (int64, bool) {
	if len(value) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return int64(n), n <= math.MaxInt64
}

// flag reads a boolean; nil when there is none.
func (f *fields) flag(path string, value []byte) *bool {
	if absent(value) {
		return nil
	}
	if value[0] != 't' && value[0] != 'f' {
		f.mismatch(path, value, "a boolean")
		return nil
	}
	b := value[0] == 't'
	return &b
}

const wantTime = "a time in RFC 3339 between 1678 and 2262"

// time reads an RFC 3339 time; zero when there is none.
func (f *fields) time(path string, value []byte) time.Time {
	if absent(value) {
		return time.Time{}
	}
	if value[0] != '"' {
		f.mismatch(path, value, wantTime)
		return time.Time{}
	}
	t, ok := parseTime(value)
	if !ok {
		f.problem(path, "want "+wantTime+", got another string")
	}
	return t
}

// parseTime reads a quoted time. A blank may stand for the T, as some versions of phi-core's reader allow.
func parseTime(value []byte) (time.Time, bool) {
	var room [40]byte
	text := append(room[:0], value[1:len(value)-1]...)
	if len(text) > 10 && text[10] == ' ' {
		text[10] = 'T'
	}
	var t time.Time
	if t.UnmarshalText(text) != nil || !inNanoseconds(t) {
		return time.Time{}, false
	}
	return t.UTC(), true
}

// inNanoseconds reports whether t can be told in nanoseconds since 1970.
func inNanoseconds(t time.Time) bool {
	return t.Year() >= 1678 && t.Year() < 2262
}

// usage reads six counts; nil when there are none.
func (f *fields) usage(path string, value []byte, rule spans.UsageRule) *otelagent.Usage {
	if absent(value) {
		return nil
	}
	if value[0] != '{' {
		f.mismatch(path, value, "an object")
		return nil
	}
	u := &otelagent.Usage{Rule: rule}
	c := rawjson.NewCursor(value, maxDepth)
	for c.Open('{'); c.More('}'); {
		name, v := c.Key(), c.Value()
		if at := countNamed(u, name); at != nil {
			*at = f.count(path+"."+string(name), v, 0)
		}
	}
	return u
}

// soundUsage reads six counts into u, and reports whether there are any and all of them are sound.
func soundUsage(value []byte, u *otelagent.Usage) bool {
	if absent(value) || value[0] != '{' {
		return false
	}
	c := rawjson.NewCursor(value, maxDepth)
	for c.Open('{'); c.More('}'); {
		name, v := c.Key(), c.Value()
		if at := countNamed(u, name); at != nil && !absent(v) {
			n, ok := parseCount(v)
			if !ok {
				return false
			}
			*at = n
		}
	}
	return true
}

// countNamed returns the count of that name, nil where there is none.
func countNamed(u *otelagent.Usage, name []byte) *int64 {
	switch string(name) {
	case "input":
		return &u.Input
	case "output":
		return &u.Output
	case "reasoning":
		return &u.Reasoning
	case "cache_read":
		return &u.CacheRead
	case "cache_write":
		return &u.CacheWrite
	case "total_tokens":
		return &u.Total
	}
	return nil
}

// counts appends the decimal forms of an array of integers to list.
func (f *fields) counts(path string, value []byte, list []string) []string {
	if absent(value) {
		return list
	}
	if value[0] != '[' {
		f.mismatch(path, value, "an array")
		return list
	}
	c := rawjson.NewCursor(value, maxDepth)
	for c.Open('['); c.More(']'); {
		list = append(list, strconv.FormatInt(f.count(path+"[]", c.Value(), 0), 10))
	}
	return list
}

// object calls fn for each member of an object, or reports a problem. Raw is valid JSON.
func (f *fields) object(path string, value []byte, fn func(name, value []byte)) {
	if absent(value) {
		return
	}
	if value[0] != '{' {
		f.mismatch(path, value, "an object")
		return
	}
	c := rawjson.NewCursor(value, maxDepth)
	for c.Open('{'); c.More('}'); {
		name := c.Key()
		fn(name, c.Value())
	}
}

// list reports a problem if value is not an array.
func (f *fields) list(path string, value []byte) {
	if !absent(value) && value[0] != '[' {
		f.mismatch(path, value, "an array")
	}
}

// names stores short strings once. It forgets what was not used for a while.
type names struct{ known recent[string] }

func (n *names) of(quoted []byte) string {
	inner := quoted[1 : len(quoted)-1]
	const longest = 256
	if len(inner) > longest {
		s, _ := rawjson.String(quoted)
		return s
	}
	// Looked up as it is spelled: two spellings of one string are stored twice, which is harmless.
	if s, ok := n.known.get(inner); ok {
		return s
	}
	s, _ := rawjson.String(quoted)
	n.known.put(string(inner), s)
	return s
}

// recent is a map that forgets: it keeps the last recentMost keys put or got, and up to as many older ones.
type recent[V any] struct{ young, old map[string]V }

const recentMost = 1 << 14

func (r *recent[V]) get(k []byte) (V, bool) {
	if v, ok := r.young[string(k)]; ok {
		return v, true
	}
	v, ok := r.old[string(k)]
	if ok {
		r.put(string(k), v)
	}
	return v, ok
}

func (r *recent[V]) getString(k string) (V, bool) {
	if v, ok := r.young[k]; ok {
		return v, true
	}
	v, ok := r.old[k]
	if ok {
		r.put(k, v)
	}
	return v, ok
}

func (r *recent[V]) put(k string, v V) {
	if r.young == nil || len(r.young) >= recentMost {
		r.young, r.old = make(map[string]V), r.young
	}
	r.young[k] = v
}
