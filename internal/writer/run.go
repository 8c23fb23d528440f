package writer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// Run is one open run: a session.run span. The nil Run does nothing. Safe for concurrent use.
type Run struct {
	handle
	own     origin
	members []string // of a parallel group
	// history is the list of the last request, for its end.
	history atomic.Pointer[history]
	// asked is what remembers that it had a request.
	asked atomic.Pointer[memory]
	// cause is how the turn failed that ended last; nil or empty where it did not.
	cause  atomic.Pointer[spans.ErrorType]
	off    bool // no SDK: nothing is started under this run
	copied bool
	model  string
	vendor string
	header []attribute.KeyValue // what every turn repeats; never changed once made

	// guarded by handle.mu
	defects     []string
	nextTurn    int64
	turns       ordinals // by index, only with derived ids
	compactions ordinals

	shownMu sync.Mutex // taken while a memory is locked, and held for moments only
	shown   ordinals   // ids of the tool calls whose spans show their results
}

// StartRun starts a run and returns a context in which its turns, and runs that it spawns, are to be started.
//
// The run is a child of the span in ctx (see Source.NewRoot and Config.SessionTrace); without one it is a child of the
// W3C traceparent that info.Metadata may name. A run that starts in the context of a tool call is that call's child.
// Its parent run, session and tool call are taken from there where info does not say. Where no run of this process
// encloses it, they are taken from the baggage that [ContextWithBaggage] writes, unless the run comes from a recording.
// The returned context has no baggage that names that run and tool call. A run that continues another one of this
// process is linked to it.
func (t *Tracer) StartRun(ctx context.Context, info RunInfo) (context.Context, *Run) {
	return t.startRun(ctx, &info, nil)
}

// startRun starts a run, or the parallel group that group says more of.
func (t *Tracer) startRun(ctx context.Context, info *RunInfo, group *GroupInfo) (context.Context, *Run) {
	if t == nil {
		return ctx, nil
	}
	t.listen()
	r := &Run{copied: info.Copied}
	r.model, r.vendor = cleanName(info.Model), cleanName(info.Provider)
	ctx = orBackground(ctx)
	in := scopeOf(ctx)
	readBaggage := t.readsBaggage(ctx, in, info)
	generated := t.placeInSession(ctx, in, info, readBaggage)
	if group == nil {
		if readBaggage {
			ctx = withoutCaller(ctx)
		}
		if info.ID == "" {
			info.ID = t.generateID(ctx)
		}
		if in != nil && in.group != nil {
			info.GroupStart = cmp.Or(info.GroupStart, time.Unix(0, in.group.startNS))
			info.GroupRole = cmp.Or(info.GroupRole, in.group.roleOf(info.ID))
		}
		r.scope.run = r
	} else if r.scope.group = r; in != nil {
		r.scope.run, r.scope.tool = in.run, in.tool
	}
	at := info.Start.now()
	r.own.init(ctx, t, info, generated)
	r.own.startNS = at.Time.UnixNano()
	r.origin, r.place, r.index = &r.own, &r.handle, noTurn

	a := startAttrs(&r.own)
	if group == nil {
		a.detail[0] = info.Agent
		a.profileModel(operationRun, info.Provider, info.Model)
		r.header = r.own.header(info)
	} else {
		r.members = slices.Clone(group.Members)
	}
	a.runConstants(r, info, group)
	address := attrs{kv: append(r.own.address, spans.RunIDKey.String(r.own.run))}
	address.name(spans.AgentNameKey, info.Agent)
	r.own.address = address.kv
	parent := t.parentOf(ctx, in, info, a)
	above := trace.SpanContextFromContext(ctx)
	if parent != nil {
		above = parent.span.SpanContext()
	}
	r.begin(ctx, parent, &kindRun, at, a, seed{})
	r.vague = r.vague || info.Inferred
	r.own.address = append(r.own.address, spans.RunStartKey.Int64(r.own.startNS)) // which the run has itself

	// Without an SDK there is no new span: what comes back is the one above, or none.
	sc := r.span.SpanContext()
	r.off = (!sc.IsValid() || sc.Equal(above)) && !r.measured
	if r.sent && group == nil {
		n, from := t.sessions.run(r.origin, sc)
		r.span.SetAttributes(spans.RunOrdinalKey.Int64(n), spans.RunOrdinalFromKey.Int64(from))
	}
	if r.capturing() {
		r.content.addBody(r.origin, spans.ListMetadata, info.Metadata)
		if rules := r.content.addBody(r.origin, spans.ListRules, info.Rules); info.Rules != nil {
			r.span.SetAttributes(spans.RulesDigestKey.String(spans.BlockOf(rules).String()))
		}
	}
	if r.measured && group == nil {
		r.sample(spans.MetricRunActive, 1)
	}
	r.sendEarly("start", at)
	r.changed(0)
	return &r.scope, r
}

// node is as that of [Handle].
func (r *Run) node() *handle {
	if r == nil || r.off {
		return nil
	}
	return &r.handle
}

// placeInSession fills in the session, and what info does not say of the run's parents. It reports whether it generated
// the session id.
func (t *Tracer) placeInSession(ctx context.Context, in *scope, info *RunInfo, readBaggage bool) (generated bool) {
	generated = info.fill(in.caller())
	if readBaggage {
		generated = info.fill(callerInBaggage(ctx)) || generated
	}
	if info.SessionID == "" {
		info.SessionID, generated = t.generateID(ctx), true
	}
	return generated
}

// runConstants adds the attributes that the span of the run, or group, carries, and spans in it do not.
func (a *attrs) runConstants(r *Run, info *RunInfo, group *GroupInfo) {
	if group != nil {
		a.name(spans.RunKindKeyKey, string(spans.RunKindParallel))
		a.ids(spans.GroupMembersKey, group.Members)
	}
	a.add(r.header...)
	a.name(spans.DialectKey, info.Dialect)
	a.id(spans.AgentIDKey, info.AgentID)
	a.id(spans.RunContinuationTagKey, info.ContinuationTag)
	a.yes(spans.RunInferredKey, info.Inferred)
	var config *object.Object
	if a.origin.capture == spans.CaptureContent && len(info.Config) > 0 {
		a.piece(spans.RunConfigKey,
			spans.Redactable{Body: withoutUserinfo(info.Config), JSON: true, Place: spans.PlaceConfig})
		config = object.Of("", []byte(a.added(spans.RunConfigKey)))
	}
	if id := cleanID(info.ConfigID); config.String("config_id") != id {
		a.id(spans.RunConfigIDKey, id)
	}
	if api := cleanName(info.API); config.String("api") != api {
		a.name(spans.RunConfigAPIKey, api)
	}
}

// header makes the attributes of the run that every turn repeats: its place among other runs, what is captured, and
// whether its usage counts. A reader builds the run from them when the span of the run is lost.
func (o *origin) header(info *RunInfo) []attribute.KeyValue {
	a := attrs{kv: make([]attribute.KeyValue, 0, 8)}
	if o.capture != spans.CaptureContent {
		a.name(spans.CaptureLevelKey, string(o.capture))
	}
	a.id(spans.RunParentIDKey, info.ParentID)
	a.id(spans.RunParentSessionIDKey, info.ParentSessionID)
	a.id(spans.RunParentToolCallIDKey, info.ParentToolCallID)
	if info.Continuation != spans.ContinuationInitial {
		a.name(spans.RunContinuationKey, string(info.Continuation))
	}
	a.id(spans.RunForkParentIDKey, info.ForkParentID)
	if !info.GroupStart.IsZero() {
		a.int(spans.GroupStartKey, info.GroupStart.UnixNano())
	}
	a.name(spans.GroupRoleKeyKey, string(info.GroupRole))
	a.yes(spans.RunCopiedKey, info.Copied)
	return a.kv
}

// parentOf decides whose child the run is. It adds links and root options to a, and returns the handle that is the
// parent, nil to take the span in ctx.
func (t *Tracer) parentOf(ctx context.Context, in *scope, info *RunInfo, a *attrs) *handle {
	session := cmp.Or(info.ParentSessionID, info.SessionID)
	if info.ParentID != "" && info.Continuation != "" && info.Continuation != spans.ContinuationInitial {
		if sc := t.sessions.contextOf(cleanID(session), cleanID(info.ParentID)); sc.IsValid() {
			a.opts = append(a.opts, trace.WithLinks(trace.Link{SpanContext: sc}))
		}
	}
	if in != nil { // inside a run or group of this process: a child
		return in.span
	}
	caller, stated := trace.SpanContextFromContext(ctx), traceparent(info.Metadata)
	newRoot := sourceOf(ctx).NewRoot || t.config.SessionTrace
	if newRoot {
		a.opts = append(a.opts, trace.WithNewRoot())
	}
	for _, sc := range [...]trace.SpanContext{caller, stated} {
		if sc.IsValid() && (newRoot || (caller.IsValid() && !sc.Equal(caller))) {
			a.opts = append(a.opts, trace.WithLinks(trace.Link{SpanContext: sc}))
		}
	}
	if stated.IsValid() && !caller.IsValid() && !newRoot {
		return &handle{span: trace.SpanFromContext(trace.ContextWithRemoteSpanContext(context.Background(), stated))}
	}
	return nil
}

// traceparent returns the span context that the member traceparent of a metadata object names, invalid without a valid
// one.
func traceparent(metadata []byte) trace.SpanContext {
	if !bytes.Contains(metadata, []byte(`"traceparent"`)) {
		return trace.SpanContext{}
	}
	var members map[string]json.RawMessage
	var value string
	if json.Unmarshal(metadata, &members) != nil || json.Unmarshal(members["traceparent"], &value) != nil {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": value})
	return trace.SpanContextFromContext(ctx)
}

// AddMessage records a message that arrived outside any turn. It is kept only when the run ends without reporting its
// messages itself. Limit: 4,096 messages; later ones are only counted, and the span has their number.
func (r *Run) AddMessage(m Message) { r.node().addMessage(spans.ListOutside, &m) }

// addMessage appends to a list that grows message by message.
func (h *handle) addMessage(list string, m *Message) {
	if h == nil || !h.capturing() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return
	}
	if l := h.content.list(list); len(l.Items) == maxGrowing {
		l.Count++ // the reader finds the list broken
		h.drop(spans.DroppedKindMessage)
		return
	}
	mem := h.tracer.sessions.open(h.origin)
	defer mem.close()
	h.content.addMessage(mem, h.origin, list, m)
	h.changed(0)
}

// maxSourceDefects bounds what a run keeps of them.
const maxSourceDefects = 64

// Defect records a defect in the source of the run: events lost, lines that cannot be attributed. Detail says which,
// from ids and numbers only; 256 bytes of it are kept. Limit: 64 a run, later ones are dropped; the same one twice is
// kept once.
func (r *Run) Defect(code spans.DefectCode, detail string) {
	if r == nil || !r.recording {
		return
	}
	text := cleanName(string(code))
	if detail != "" {
		text += " " + cleanName(detail)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended && len(r.defects) < maxSourceDefects && !slices.Contains(r.defects, text) {
		r.defects = append(r.defects, text)
	}
}

// End ends the run, once; later calls do nothing.
func (r *Run) End(res RunResult) { r.end(&res, nil) }

// end ends a run, or the group whose result is group.
func (r *Run) end(res *RunResult, group *GroupResult) {
	if r == nil || !r.ends() {
		return
	}
	a := endAttrs(r.origin, 28)
	if res.End.Closed {
		res.Status = spans.RunStatusAborted
	}
	status, failed := res.status()
	if cause := r.cause.Load(); failed == spans.ErrorTypeOther && cause != nil && *cause != "" {
		failed = *cause
	}
	a.name(spans.RunStatusKeyKey, string(status))
	if r.recording {
		a.runEnd(res, group)
	}
	if r.capturing() {
		if r.content.setMessages(r.origin, spans.ListMessages, res.Messages); res.Messages != nil {
			r.content.drop(spans.ListOutside, 0)
		}
		m := r.tracer.sessions.open(r.origin)
		if l, ok := m.last(r.history.Swap(nil)); ok {
			l.Name = spans.ListHistory
			r.content.lists = append(r.content.lists, l)
		}
		m.close()
	}
	if len(r.defects) > 0 {
		a.kv = append(a.kv, spans.RunDefectsKey.StringSlice(r.defects))
	}
	if end := r.finish(res.End, &a, failed); r.measured && group == nil {
		r.measureEnd(status, end)
	}
}

// status is the status of the run, and the error type if it failed.
func (res *RunResult) status() (status spans.RunStatus, failed spans.ErrorType) {
	switch res.Status {
	case "":
		return spans.RunStatusCompleted, ""
	case spans.RunStatusRejected:
		failed = spans.ErrorTypeRejected
	case spans.RunStatusAborted:
		failed = spans.ErrorTypeAborted
	case spans.RunStatusError:
		failed = spans.ErrorTypeOther
	}
	return res.Status, failed
}

// runEnd adds what a run ends with, or a group.
func (a *attrs) runEnd(res *RunResult, group *GroupResult) {
	a.name(spans.RunStatusWordKey, res.Word)
	a.yes(spans.RunRejectedKey, res.Rejected)
	a.text(spans.RunRejectionKey, res.Rejection)
	a.text(spans.ErrorMessageKey, res.Error)
	if res.Usage != nil {
		a.usage(res.Usage, &runUsageKeys, spans.RunUsageReportedTotalKey)
	}
	if group != nil {
		a.id(spans.GroupSelectedIDKey, group.SelectedID)
		a.known(spans.GroupSelectedIndexKey, group.SelectedIndex)
		if group.Evaluation != nil {
			a.evaluationUsage(group.Evaluation)
		}
	}
}
