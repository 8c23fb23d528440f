package otelagent

import (
	"math"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/spans"
)

// normalUsage is usage under one rule for all providers: input includes cached tokens, output includes reasoning.
type normalUsage struct {
	input, output, reasoning, cacheRead, cacheWrite int64
}

func (u *Usage) normal() normalUsage {
	n := normalUsage{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite}
	if u.Rule == spans.UsageRuleExcludesReasoning || u.Rule == spans.UsageRuleExcludesCacheAndReasoning {
		n.output = plus(n.output, u.Reasoning)
	}
	if u.Rule == spans.UsageRuleExcludesCache || u.Rule == spans.UsageRuleExcludesCacheAndReasoning {
		n.input = plus(n.input, plus(u.CacheRead, u.CacheWrite))
	}
	return n
}

func (n *normalUsage) add(m normalUsage) {
	n.input = plus(n.input, m.input)
	n.output = plus(n.output, m.output)
	n.reasoning = plus(n.reasoning, m.reasoning)
	n.cacheRead = plus(n.cacheRead, m.cacheRead)
	n.cacheWrite = plus(n.cacheWrite, m.cacheWrite)
}

// plus adds counts, up to the greatest there is: what a source says to be nonsense does not become a negative count.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// usageKeys are the keys of input, output, reasoning, cache read and cache write.
type usageKeys [5]attribute.Key

// copiedUsageKeys are those of a copied turn. Its tokens are counted where they came from, so it has none under the
// standard keys.
var copiedUsageKeys = usageKeys{spans.UsageInputKey, spans.UsageOutputKey, spans.UsageReasoningKey,
	spans.UsageCacheReadKey,
	spans.UsageCacheWriteKey}

var runUsageKeys = usageKeys{spans.RunUsageInputKey, spans.RunUsageOutputKey, spans.RunUsageReasoningKey,
	spans.RunUsageCacheReadKey, spans.RunUsageCacheWriteKey}

var discardedUsageKeys = usageKeys{spans.DiscardedUsageInputKey, spans.DiscardedUsageOutputKey,
	spans.DiscardedUsageReasoningKey,
	spans.DiscardedUsageCacheReadKey, spans.DiscardedUsageCacheWriteKey}

var groupUsageKeys = [6]attribute.Key{spans.GroupUsageInputKey, spans.GroupUsageOutputKey, spans.GroupUsageReasoningKey,
	spans.GroupUsageCacheReadKey, spans.GroupUsageCacheWriteKey, spans.GroupUsageTotalKey}

// usage adds the normalised counts, the rule from which a reader gets the reported ones, and the reported total.
func (a *attrs) usage(u *Usage, keys *usageKeys, total attribute.Key) {
	a.normalUsage(u.normal(), keys)
	a.count(total, u.Total)
	rule := u.Rule
	if rule == "" {
		rule = spans.UsageRuleIncludesCache
	}
	a.name(spans.UsageRuleKeyKey, string(rule))
}

// normalUsage adds input and output, and the other counts where they are not 0.
func (a *attrs) normalUsage(n normalUsage, keys *usageKeys) {
	a.int(keys[0], n.input)
	a.int(keys[1], n.output)
	for i, v := range [...]int64{n.reasoning, n.cacheRead, n.cacheWrite} {
		a.count(keys[2+i], v)
	}
}

func (a *attrs) evaluationUsage(u *Usage) {
	for i, v := range [...]int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite, u.Total} {
		a.int(groupUsageKeys[i], v)
	}
}
