package search

import "testing"

// TestSameThing holds that sameThing joins hits on what a turn holds twice, and not on what was said twice.
func TestSameThing(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b Hit
		want bool
	}{
		{"result and its message", Hit{Place: "result", Before: "text: ", Match: "x"},
			Hit{Place: "result", Call: "c", Match: "x"}, true},
		{"results of two calls", Hit{Place: "result", Call: "a", Match: "x"}, Hit{Place: "result", Call: "b", Match: "x"},
			false},
		{"another match", Hit{Place: "result", Match: "x"}, Hit{Place: "result", Call: "c", Match: "y"}, false},
		{"arguments and the reply that has them", Hit{Place: "reply", Before: "cmd: ", Match: "x"},
			Hit{Place: "arguments", Call: "c", Before: "cmd: ", Match: "x"}, true},
		{"arguments, and a reply that says it first", Hit{Place: "reply", Before: "text: ", Match: "x"},
			Hit{Place: "arguments", Call: "c", Before: "cmd: ", Match: "x"}, false},
		{"summary and its message", Hit{Place: "user", Before: "text: so far ", Match: "x", After: " y"},
			Hit{Place: "summary", Before: "so far ", Match: "x", After: " y"}, true},
		{"summary, and a question of the same word", Hit{Place: "user", Before: "text: ", Match: "x"},
			Hit{Place: "summary", Before: "so far ", Match: "x"}, false},
		{"summary, and the arguments that asked for it", Hit{Place: "reply", Match: "x"}, Hit{Place: "summary", Match: "x"},
			false},
		{"summary of what was said", Hit{Place: "user", Match: "x"}, Hit{Place: "summary", Before: "they said ", Match: "x"},
			false},
	} {
		if got := sameThing(&c.a, &c.b); got != c.want || sameThing(&c.b, &c.a) != got {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
