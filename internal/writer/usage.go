package writer

import (
	"math"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// normalUsage is usage under one rule for all providers: input includes cached tokens, output includes reasoning. Its
// counts are input, output, reasoning, cache read and cache write.
type normalUsage [5]int64

func normalised(u *Usage) normalUsage {
	n := normalUsage{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite}
	if u.Rule == spans.UsageRuleExcludesReasoning || u.Rule == spans.UsageRuleExcludesCacheAndReasoning {
		n[1] = plus(n[1], u.Reasoning)
	}
	if u.Rule == spans.UsageRuleExcludesCache || u.Rule == spans.UsageRuleExcludesCacheAndReasoning {
		n[0] = plus(n[0], plus(u.CacheRead, u.CacheWrite))
	}
	return n
}

func (n *normalUsage) add(m normalUsage) {
	for i := range n {
		n[i] = plus(n[i], m[i])
	}
}

// plus adds counts, up to the greatest there is: what a source says to be nonsense does not become a negative count.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// usageKeys are the keys of a normalUsage.
type usageKeys [5]attribute.Key

// copiedUsageKeys are those of a copied turn. Its tokens are counted where they came from, so it has none under the
// standard keys.
var copiedUsageKeys = usageKeys{spans.UsageInputKey, spans.UsageOutputKey, spans.UsageReasoningKey,
	spans.UsageCacheReadKey, spans.UsageCacheWriteKey}

var runUsageKeys = usageKeys{spans.RunUsageInputKey, spans.RunUsageOutputKey, spans.RunUsageReasoningKey,
	spans.RunUsageCacheReadKey, spans.RunUsageCacheWriteKey}

var discardedUsageKeys = usageKeys{spans.DiscardedUsageInputKey, spans.DiscardedUsageOutputKey,
	spans.DiscardedUsageReasoningKey, spans.DiscardedUsageCacheReadKey, spans.DiscardedUsageCacheWriteKey}

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

// normalUsage adds input and output, and the other counts where they are not 0.
func (a *attrs) normalUsage(n normalUsage, keys *usageKeys) {
	for i, v := range n {
		if i < 2 || v != 0 {
			a.int(keys[i], v)
		}
	}
}

func (a *attrs) evaluationUsage(u *Usage) {
	for i, v := range [...]int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite, u.Total} {
		a.int(groupUsageKeys[i], v)
	}
}
