package writer

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// normalUsage is usage under one rule for all providers: input includes cached tokens, output includes reasoning. Its
// counts are input, output, reasoning, cache read and cache write.
type normalUsage struct {
	counts     [5]int64
	lowerBound bool
}

func normalised(usage *Usage) normalUsage {
	u := usage.Normalised()
	return normalUsage{[5]int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite}, u.LowerBound}
}

func (n *normalUsage) add(m normalUsage) {
	for i := range n.counts {
		n.counts[i] = spans.AddCounts(n.counts[i], m.counts[i])
	}
	n.lowerBound = n.lowerBound || m.lowerBound
}

// usageKeys are the keys of the counts of a normalUsage, and of its lower bound.
type usageKeys [6]attribute.Key

// copiedUsageKeys are those of a copied turn. Its tokens are counted where they came from, so it has none under the
// standard keys.
var copiedUsageKeys = usageKeys{spans.UsageInputKey, spans.UsageOutputKey, spans.UsageReasoningKey,
	spans.UsageCacheReadKey, spans.UsageCacheWriteKey, spans.UsageLowerBoundKey}

var runUsageKeys = usageKeys{spans.RunUsageInputKey, spans.RunUsageOutputKey, spans.RunUsageReasoningKey,
	spans.RunUsageCacheReadKey, spans.RunUsageCacheWriteKey, spans.RunUsageLowerBoundKey}

var discardedUsageKeys = usageKeys{spans.DiscardedUsageInputKey, spans.DiscardedUsageOutputKey,
	spans.DiscardedUsageReasoningKey, spans.DiscardedUsageCacheReadKey, spans.DiscardedUsageCacheWriteKey,
	spans.DiscardedUsageLowerBoundKey}

var compactionUsageKeys = usageKeys{spans.CompactionUsageInputKey, spans.CompactionUsageOutputKey,
	spans.CompactionUsageReasoningKey, spans.CompactionUsageCacheReadKey, spans.CompactionUsageCacheWriteKey,
	spans.CompactionUsageLowerBoundKey}

var groupUsageKeys = [6]attribute.Key{spans.GroupUsageInputKey, spans.GroupUsageOutputKey, spans.GroupUsageReasoningKey,
	spans.GroupUsageCacheReadKey, spans.GroupUsageCacheWriteKey, spans.GroupUsageTotalKey}

// usage adds the normalised counts, the rule from which a reader gets the reported ones, and the reported total.
func (a *attrs) usage(u *Usage, keys *usageKeys, total attribute.Key) {
	a.normalUsage(normalised(u), keys)
	a.count(total, u.Total)
	rule := u.Rule
	if rule == "" {
		rule = spans.UsageRuleIncludesCache
	}
	a.name(spans.UsageRuleKeyKey, string(rule))
}

// normalUsage adds input and output, the other counts where they are not 0, and the lower bound.
func (a *attrs) normalUsage(n normalUsage, keys *usageKeys) {
	for i, v := range n.counts {
		if i < 2 || v != 0 {
			a.int(keys[i], v)
		}
	}
	a.yes(keys[5], n.lowerBound)
}

func (a *attrs) evaluationUsage(u *Usage) {
	for i, v := range [...]int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite, u.Total} {
		a.int(groupUsageKeys[i], v)
	}
}

// UsageKeys are the keys under which a usage counts tokens; empty where it does not count them. OBJECT.KEY is a count
// of an object in it.
type UsageKeys struct{ Input, Output, Reasoning, CacheRead, CacheWrite, Total string }

// Read reads the counts of o. It returns nil when none of them is there, or one is no count, which is a problem of the
// line.
func (k UsageKeys) Read(o *object.Object, rule spans.UsageRule) *Usage {
	u, failed, found := &Usage{Rule: rule}, o.Failed(), false
	for _, count := range []struct {
		key string
		to  *int64
	}{
		{k.Input, &u.Input}, {k.Output, &u.Output}, {k.Reasoning, &u.Reasoning}, {k.CacheRead, &u.CacheRead},
		{k.CacheWrite, &u.CacheWrite}, {k.Total, &u.Total},
	} {
		in, key := o, count.key
		if outer, inner, ok := strings.Cut(key, "."); ok {
			in, key = o.Object(outer), inner
		}
		if n := in.Count(key); n != nil {
			*count.to, found = *n, true
		}
	}
	if !found || o.Failed() > failed {
		return nil
	}
	return u
}
