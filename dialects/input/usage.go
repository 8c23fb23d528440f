package input

import (
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// UsageKeys are the keys under which a dialect counts tokens; empty where it does not count them.
type UsageKeys struct{ Input, Output, Reasoning, CacheRead, CacheWrite, Total string }

// Read reads the counts of o. It returns nil when none of them is there, or one is no count, which is a problem of the
// line.
func (k UsageKeys) Read(o *object.Object, rule spans.UsageRule) *event.Usage {
	u, failed, found := &event.Usage{Rule: rule}, o.Failed(), false
	for _, count := range []struct {
		key string
		to  *int64
	}{
		{k.Input, &u.Input}, {k.Output, &u.Output}, {k.Reasoning, &u.Reasoning}, {k.CacheRead, &u.CacheRead},
		{k.CacheWrite, &u.CacheWrite}, {k.Total, &u.Total},
	} {
		if n := o.Count(count.key); n != nil {
			*count.to, found = *n, true
		}
	}
	if !found || o.Failed() > failed {
		return nil
	}
	return u
}
