package session

import (
	"math"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// The set methods below take one attribute each. They report whether it had a place: an unknown key has none, and neither
// has a value that is not what the key stands for; such an attribute is kept in Span.Extra.

// setHeader takes what a run's own span and each of its turns say of the run.
func (r *Run) setHeader(key string, v Value) bool {
	switch key {
	case string(spans.AgentNameKey):
		r.Agent = v.Text()
	case string(spans.AgentIDKey):
		r.AgentID = v.Text()
	case string(spans.DialectKey):
		r.Dialect = v.Text()
	case string(spans.RequestModelKey):
		r.Model = v.Text()
	case string(spans.ProviderNameKey):
		r.Provider = v.Text()
	case string(spans.RunOrdinalKey):
		return setInt(&r.Ordinal, v)
	case string(spans.RunOrdinalFromKey):
		n, ok := v.Int()
		if !ok {
			return false
		}
		r.OrdinalFrom = nsTime(n)
	case string(spans.RunParentIDKey):
		r.ParentID = v.Text()
	case string(spans.RunParentSessionIDKey):
		r.ParentSessionID = v.Text()
	case string(spans.RunParentToolCallIDKey):
		r.ParentToolCallID = v.Text()
	case string(spans.RunContinuationKey):
		r.Continuation = spans.Continuation(v.Text())
	case string(spans.RunContinuationTagKey):
		r.ContinuationTag = v.Text()
	case string(spans.RunForkParentIDKey):
		r.ForkParentID = v.Text()
	case string(spans.GroupStartKey):
		n, ok := v.Int()
		if !ok {
			return false
		}
		r.GroupStart = nsTime(n)
	case string(spans.GroupRoleKeyKey):
		r.GroupRole = spans.GroupRole(v.Text())
	case string(spans.RunCopiedKey):
		return setBool(&r.Copied, v)
	case string(spans.CaptureLevelKey):
		r.Capture = spans.Capture(v.Text())
	default:
		return false
	}
	return true
}

// causes are the errors of a turn, which the span of a run repeats when the turn ended the run. The turn has it; of the run the tree
// says that the loop reported an error.
var causes = map[spans.ErrorType]bool{spans.ErrorTypeProvider: true, spans.ErrorTypeCancelled: true}

// set takes what only a run's own span says.
func (r *Run) set(key string, v Value) bool {
	switch key {
	case string(spans.RunConfigKey):
		r.Config = RawJSON(v.Text())
	case string(spans.RunDefectsKey):
		return r.setDefects(v)
	case string(spans.RunConfigIDKey):
		r.ConfigID = v.Text()
	case string(spans.RunConfigAPIKey):
		r.ConfigAPI = v.Text()
	case string(spans.RunStatusKeyKey):
		r.Status = spans.RunStatus(v.Text())
	case string(spans.RunStatusWordKey):
		r.StatusWord = v.Text()
	case string(spans.RunRejectedKey):
		return setBool(&r.Rejected, v)
	case string(spans.RunRejectionKey):
		r.Rejection = v.Text()
	case string(spans.ErrorTypeKeyKey):
		if r.ErrorType = spans.ErrorType(v.Text()); causes[r.ErrorType] {
			r.ErrorType = spans.ErrorTypeOther
		}
	case string(spans.ErrorMessageKey):
		r.Error = v.Text()
	case string(spans.UsageRuleKeyKey): // sorted after the counts
		r.Rule = spans.UsageRule(v.Text())
		need(&r.Reported).derive(*need(&r.RollUp), r.Rule)
	case string(spans.RulesDigestKey):
		r.RulesDigest = v.Text()
	case string(spans.RunKindKeyKey):
		return v.Text() == string(spans.RunKindLoop)
	case string(spans.RunUsageInputKey):
		return setInt(&need(&r.RollUp).Input, v)
	case string(spans.RunUsageOutputKey):
		return setInt(&need(&r.RollUp).Output, v)
	case string(spans.RunUsageReasoningKey):
		return setInt(&need(&r.RollUp).Reasoning, v)
	case string(spans.RunUsageCacheReadKey):
		return setInt(&need(&r.RollUp).CacheRead, v)
	case string(spans.RunUsageCacheWriteKey):
		return setInt(&need(&r.RollUp).CacheWrite, v)
	case string(spans.RunUsageReportedTotalKey):
		return setInt(&need(&r.Reported).Total, v)
	default:
		return false
	}
	return true
}

// setDefects takes what the source said to be wrong with its events. Words that this version does not know as defects are kept as they
// came.
func (r *Run) setDefects(v Value) bool {
	var l []string
	if !setStrings(&l, v) {
		return false
	}
	for _, text := range l[:min(len(l), 64)] {
		code, detail, _ := strings.Cut(text, " ")
		r.Defects = append(r.Defects, Defect{Code: spans.DefectCode(code), Detail: detail})
	}
	return true
}

func (g *Group) set(key string, v Value) bool {
	switch key {
	case string(spans.RunKindKeyKey):
		return v.Text() == string(spans.RunKindParallel)
	case string(spans.GroupStartKey): // its own start
	case string(spans.GroupMembersKey):
		return setStrings(&g.Members, v)
	case string(spans.GroupSelectedIDKey):
		g.SelectedID = v.Text()
	case string(spans.GroupSelectedIndexKey):
		return setInt(&g.SelectedIndex, v)
	case string(spans.GroupUsageInputKey):
		return setInt(&need(&g.Evaluation).Input, v)
	case string(spans.GroupUsageOutputKey):
		return setInt(&need(&g.Evaluation).Output, v)
	case string(spans.GroupUsageReasoningKey):
		return setInt(&need(&g.Evaluation).Reasoning, v)
	case string(spans.GroupUsageCacheReadKey):
		return setInt(&need(&g.Evaluation).CacheRead, v)
	case string(spans.GroupUsageCacheWriteKey):
		return setInt(&need(&g.Evaluation).CacheWrite, v)
	case string(spans.GroupUsageTotalKey):
		return setInt(&need(&g.Evaluation).Total, v)
	case string(spans.RunStatusKeyKey):
		g.Status = spans.RunStatus(v.Text())
	default:
		return false
	}
	return true
}

func (t *Turn) set(key string, v Value) bool {
	switch key {
	case string(spans.TurnTriggerKey):
		t.Trigger = spans.Trigger(v.Text())
	case string(spans.RequestModelKey):
		t.Model = v.Text()
	case string(spans.ResponseModelKey):
		t.Answered = v.Text()
	case string(spans.ProviderNameKey):
		t.Provider = v.Text()
	case string(spans.ModelVariantKey):
		t.Variant = v.Text()
	case string(spans.RequestReasoningLevelKey):
		t.Level = v.Text()
	case string(spans.RequestFormatKey):
		t.Format = v.Text()
	case string(spans.RequestMaxTokensKey):
		return setIntPtr(&t.MaxTokens, v)
	case string(spans.RequestTemperatureKey):
		return setDoublePtr(&t.Temperature, v)
	case string(spans.TurnAttemptsKey):
		return setInt(&t.Attempts, v)
	case string(spans.RepliedKey):
		return setBool(&t.Replied, v)
	case string(spans.PartialKey):
		return setBool(&t.Partial, v)
	case string(spans.WaitingForKey):
		t.Waiting = spans.Waiting(v.Text())
	case string(spans.TurnStopReasonKey):
		t.StopReason = v.Text()
	case string(spans.ErrorTypeKeyKey):
		t.ErrorType = spans.ErrorType(v.Text())
	case string(spans.ErrorMessageKey):
		t.Error = v.Text()
	case string(spans.UsageRuleKeyKey): // sorted after the counts
		t.Rule = spans.UsageRule(v.Text())
		need(&t.Reported).derive(t.Usage, t.Rule)
	case string(spans.CaptureLevelKey):
		t.Capture = spans.Capture(v.Text())
	// Ours come after the standard keys, attributes being sorted, and count where both are there.
	case string(spans.UsageInputKey), string(spans.GenAIUsageInputKey):
		return setInt(&t.Usage.Input, v)
	case string(spans.UsageOutputKey), string(spans.GenAIUsageOutputKey):
		return setInt(&t.Usage.Output, v)
	case string(spans.UsageReasoningKey), string(spans.GenAIUsageReasoningKey):
		return setInt(&t.Usage.Reasoning, v)
	case string(spans.UsageCacheReadKey), string(spans.GenAIUsageCacheReadKey):
		return setInt(&t.Usage.CacheRead, v)
	case string(spans.UsageCacheWriteKey), string(spans.GenAIUsageCacheWriteKey), string(spans.GenAIUsageCacheCreationKey):
		return setInt(&t.Usage.CacheWrite, v)
	case string(spans.UsageReportedTotalKey):
		return setInt(&need(&t.Reported).Total, v)
	case string(spans.AttemptsDiscardedKey):
		return setInt(&t.DiscardedAttempts, v)
	case string(spans.DiscardedUsageInputKey):
		return setInt(&need(&t.Discarded).Input, v)
	case string(spans.DiscardedUsageOutputKey):
		return setInt(&need(&t.Discarded).Output, v)
	case string(spans.DiscardedUsageReasoningKey):
		return setInt(&need(&t.Discarded).Reasoning, v)
	case string(spans.DiscardedUsageCacheReadKey):
		return setInt(&need(&t.Discarded).CacheRead, v)
	case string(spans.DiscardedUsageCacheWriteKey):
		return setInt(&need(&t.Discarded).CacheWrite, v)
	case string(spans.TurnCostKey):
		// Sums of what is kept stay finite.
		f, ok := v.Double()
		if ok = ok && math.Abs(f) < 1e15; ok {
			t.Cost = &f
		}
		return ok
	case string(spans.TurnCostCurrencyKey):
		t.Currency = v.Text()
	case string(spans.TurnModelCallDurationKey):
		return setInt(&t.ModelCallNS, v)
	case string(spans.TimeToFirstChunkKey):
		f, ok := v.Double()
		if ok = ok && f >= 0 && f < math.MaxInt64/1e9; !ok {
			return false
		}
		t.FirstChunkNS = int64(math.Round(f * 1e9))
	case string(spans.ResponseIDKey):
		t.ResponseID = v.Text()
	case string(spans.RequestMessagesKey):
		return setInt(&t.RequestMessages, v)
	case string(spans.RequestBytesKey):
		return setInt(&t.RequestBytes, v)
	case string(spans.PromptDigestKey):
		t.PromptDigest = v.Text()
	case string(spans.OutputTypeKey): // sorted before the loop's own spelling of the format
		t.Format = v.Text()
	case string(spans.FinishReasonsKey): // the standard's value of the stop reason
	default:
		return false
	}
	return true
}

func (t *ToolCall) set(key string, v Value) bool {
	switch key {
	case string(spans.ToolCallIDKey): // part of the address
	case string(spans.ToolNameKey):
		t.Name = v.Text()
	case string(spans.ToolTypeKey):
		t.Type = v.Text()
	case string(spans.ToolOutcomeKey):
		t.Outcome = spans.Outcome(v.Text())
	case string(spans.ErrorTypeKeyKey):
		t.ErrorType = spans.ErrorType(v.Text())
	case string(spans.ErrorMessageKey):
		t.Error = v.Text()
	case string(spans.ToolTruncatedKey):
		return setBoolPtr(&t.Truncated, v)
	case string(spans.ToolChildRunIDKey):
		t.ChildRunID = v.Text()
	case string(spans.ToolChildSessionIDKey):
		t.ChildSessionID = v.Text()
	case string(spans.ToolProgressCountKey):
		return setInt(&t.Progress, v)
	default:
		return false
	}
	return true
}

func (c *Compaction) set(key string, v Value) bool {
	switch key {
	case string(spans.CompactionKindKeyKey): // part of the address
	case string(spans.CompactionTriggerKey):
		c.Trigger = v.Text()
	case string(spans.CompactionMessagesBeforeKey):
		return setIntPtr(&c.MessagesBefore, v)
	case string(spans.CompactionMessagesAfterKey):
		return setIntPtr(&c.MessagesAfter, v)
	case string(spans.CompactionMessagesSummarizedKey):
		return setIntPtr(&c.MessagesSummarized, v)
	case string(spans.CompactionInputTokensKey):
		return setIntPtr(&c.InputTokens, v)
	case string(spans.CompactionOutputTokensKey):
		return setIntPtr(&c.OutputTokens, v)
	case string(spans.CompactionRemovedTokensKey):
		return setIntPtr(&c.RemovedTokens, v)
	case string(spans.CompactionRunsKey):
		return setIntPtr(&c.Runs, v)
	case string(spans.CompactionRemovedKey):
		return setStrings(&c.Removed, v)
	case string(spans.CompactionAppliedKey):
		return setBoolPtr(&c.Applied, v)
	case string(spans.CompactionCategoryKey):
		c.Category = v.Text()
	case string(spans.CompactionTargetKey):
		c.Target = v.Text()
	case string(spans.CompactionReasonKey):
		c.Reason = v.Text()
	default:
		return false
	}
	return true
}

func (p *Permission) set(key string, v Value) bool {
	switch key {
	case string(spans.ToolCallIDKey): // part of the address
	case string(spans.ToolNameKey):
		p.Tool = v.Text()
	case string(spans.PermissionActionKey):
		p.Action = spans.Action(v.Text())
	case string(spans.PermissionSourceKeyKey):
		p.Source = spans.PermissionSource(v.Text())
	case string(spans.PermissionPatternKey):
		p.Pattern = v.Text()
	case string(spans.PermissionTargetKeyKey):
		p.Target = spans.PermissionTarget(v.Text())
	case string(spans.PermissionReasonKey):
		p.Reason = v.Text()
	case string(spans.PermissionDecidedByKey):
		p.DecidedBy = v.Text()
	case string(spans.PermissionWaitKey):
		return setInt(&p.WaitNS, v)
	case string(spans.PermissionOptionKey):
		p.Option = v.Text()
	case string(spans.PermissionOutcomeKey):
		p.Outcome = v.Text()
	case string(spans.DerivedKey):
		return setBool(&p.Derived, v)
	case string(spans.RulesDigestKey):
		p.RulesDigest = v.Text()
	default:
		return false
	}
	return true
}

// Indices of facts.counts.
const (
	countTurns = iota
	countToolCalls
	countCompactions
	countPermissions
	countKinds
)

// aside are attributes that Assemble uses and the tree does not show.
type aside struct {
	// counts is how many children of each kind the source says there were, -1 when it does not. counted says that the
	// span is over, so that the counts are final.
	counts   [countKinds]int64
	counted  bool
	inferred bool
	schema   int64
}

func (f *aside) reset() {
	*f = aside{counts: [countKinds]int64{-1, -1, -1, -1}, schema: spans.SchemaVersion}
}

func (f *aside) set(key string, v Value) bool {
	switch key {
	case string(spans.SchemaKey):
		return setInt(&f.schema, v)
	case string(spans.CountTurnsKey):
		return setInt(&f.counts[countTurns], v)
	case string(spans.CountToolCallsKey):
		return setInt(&f.counts[countToolCalls], v)
	case string(spans.CountCompactionsKey):
		return setInt(&f.counts[countCompactions], v)
	case string(spans.CountPermissionsKey):
		return setInt(&f.counts[countPermissions], v)
	case string(spans.RunInferredKey):
		return setBool(&f.inferred, v)
	}
	return false
}

func (f *aside) schemaDefect(d *[]Defect) {
	if f.schema != spans.SchemaVersion {
		*d = append(*d, Defect{Code: spans.DefectSchemaUnknown, Detail: strconv.FormatInt(f.schema, 10)})
	}
}

// check names children that were counted and did not arrive. A permission evaluation hangs in a turn or run or in one of
// its tool calls; both count it, each its own.
func (f *aside) check(d *[]Defect, c *children) {
	if !f.counted {
		return
	}
	f.short(d, spans.DefectToolCallMissing, len(c.tools), f.counts[countToolCalls])
	f.short(d, spans.DefectCompactionMissing, len(c.compactions), f.counts[countCompactions])
	f.short(d, spans.DefectPermissionMissing, len(c.permissions), plus(max(0, f.counts[countPermissions]), c.counted))
}

func (f *aside) short(d *[]Defect, code spans.DefectCode, got int, want int64) {
	if int64(got) < want {
		*d = append(*d, Defect{Code: code, Detail: strconv.Itoa(got) + " of " + strconv.FormatInt(want, 10) + " arrived"})
	}
}

// need returns *p, made when it is nil.
func need[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

func setInt(dst *int64, v Value) bool {
	n, ok := v.Int()
	if ok {
		*dst = n
	}
	return ok
}

func setIntPtr(dst **int64, v Value) bool {
	n, ok := v.Int()
	if ok {
		*dst = &n
	}
	return ok
}

func setDoublePtr(dst **float64, v Value) bool {
	f, ok := v.Double()
	if ok = ok && !math.IsNaN(f) && !math.IsInf(f, 0); ok {
		*dst = &f
	}
	return ok
}

func setBool(dst *bool, v Value) bool {
	b, ok := v.Bool()
	if ok {
		*dst = b
	}
	return ok
}

func setBoolPtr(dst **bool, v Value) bool {
	b, ok := v.Bool()
	if ok {
		*dst = &b
	}
	return ok
}

func setStrings(dst *[]string, v Value) bool {
	switch v.Type() {
	case TypeStrings:
		*dst = v.Strings()
	case TypeString:
		*dst = []string{v.Str()}
	default:
		return false
	}
	return true
}
