package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
)

// captured is a line of the sample: when it went which way.
type captured struct {
	TS        time.Time       `json:"ts"`
	Direction string          `json:"direction"`
	Message   json.RawMessage `json:"message"`
}

func sample(t *testing.T) (list []captured) {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/sample.ndjson"))(t)
	for line := range strings.Lines(string(text)) {
		var c captured
		must.Do(t, json.Unmarshal([]byte(line), &c))
		list = append(list, c)
	}
	return list
}

// asIs is what events of a capture are compared without, where its envelope does not state it.
var (
	tsOf   = regexp.MustCompile(`"(meta\.)?time":"[^"]*",`)
	seqOf  = regexp.MustCompile(`"seq":\d+,`)
	waitOf = regexp.MustCompile(`"wait":\d+,`)
)

// TestEnvelopes writes the sample in each form of capture that is read, and reads the same events.
func TestEnvelopes(t *testing.T) {
	list := sample(t)
	forms := []struct {
		name   string
		format func(c captured) string
		drop   []*regexp.Regexp
	}{
		{"ts, direction, message", func(c captured) string {
			return fmt.Sprintf(`{"ts":%d,"direction":%q,"message":%s}`, c.TS.UnixMilli(), c.Direction, c.Message)
		}, nil},
		{"bare", func(c captured) string { return string(c.Message) }, []*regexp.Regexp{tsOf, waitOf}},
		{"bare with ts and direction", func(c captured) string {
			return fmt.Sprintf(`{"ts":%q,"direction":%q,`, c.TS.Format(time.RFC3339Nano), c.Direction) + string(c.Message[1:])
		}, nil},
		{"bare with ts", func(c captured) string {
			return fmt.Sprintf(`{"ts":%q,`, c.TS.Format(time.RFC3339Nano)) + string(c.Message[1:])
		}, nil},
		{"server-sent events", func(c captured) string {
			return fmt.Sprintf("data: {\"ts\":%q,\"direction\":%q,\"message\":%s}\n", c.TS.Format(time.RFC3339Nano),
				c.Direction, c.Message)
		}, []*regexp.Regexp{seqOf}},
	}
	read := func(text string, drop []*regexp.Regexp) []string {
		out := lines(text)
		for i := range out {
			for _, r := range drop {
				out[i] = r.ReplaceAllString(out[i], "")
			}
		}
		return out
	}
	golden := strings.Builder{}
	for _, c := range list {
		b, _ := json.Marshal(c)
		golden.Write(append(b, '\n'))
	}
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			var b strings.Builder
			for _, c := range list {
				b.WriteString(f.format(c) + "\n")
			}
			if diff := gocmp.Diff(read(golden.String(), f.drop), read(b.String(), f.drop)); diff != "" {
				t.Errorf("other events (-want +got):\n%s", diff)
			}
			first := strings.TrimPrefix(b.String(), "data: ")
			if why := Recognise(input.OutlineOf([]byte(first[:min(len(first), 300)]))); why == "" ||
				strings.Contains(why, "sample") {
				t.Errorf("not recognised from its beginning: %q", why)
			}
		})
	}
}
