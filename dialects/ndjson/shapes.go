package ndjson

import (
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// visitor goes over the keys of a line or of an object in it. Its implementations read (reader), write (writer), and make the schema
// and the documentation (in tests), so that a key stands in one place: the shapes below.
//
// Every method names the key, where its value is, and what it is. A shape visits every field of its event, since events are used
// again without being cleared. An absent key, and null unless told otherwise, is the zero value.
type visitor interface {
	// meta visits the keys that every line may have.
	meta(m *otelagent.Meta)
	// text visits a string. Where absent is not empty it is what an absent key means.
	text(key string, p *string, absent, brief string)
	// count visits an integer that is not negative.
	count(key string, p *int64, brief string)
	// small is count.
	small(key string, p *int, brief string)
	// known visits an integer that is not negative where it is known. Null and every negative number are -1; absent is what an absent key means.
	known(key string, p *int64, absent int64, brief string)
	// limit visits an integer that is not negative, or nil.
	limit(key string, p **int64, brief string)
	// number visits a finite number, or nil.
	number(key string, p **float64, brief string)
	// flag visits a boolean.
	flag(key string, p *bool, brief string)
	// maybe visits a boolean, or nil.
	maybe(key string, p **bool, brief string)
	// nanos visits a duration.
	nanos(key string, p *time.Duration, brief string)
	// time visits a time that input.Time reads.
	time(key string, p *time.Time, brief string)
	// moment visits a time, or an object of momentShape.
	moment(key string, p *otelagent.Moment, brief string)
	// json visits any JSON, and beside it KEY_text: what is no JSON in one line, as a string. Null says whether null is a value.
	json(key string, p *[]byte, null bool, brief string)
	// words visits an array of strings, or nil.
	words(key string, p *[]string, brief string)
	// usage visits an object of usageShape, or nil.
	usage(key string, p **otelagent.Usage, brief string)
	// message visits a message in one of its two forms: see messageShape. Absent is the zero Message.
	message(key string, p *otelagent.Message, brief string)
	// reply is message with nil for none.
	reply(key string, p **otelagent.Message, brief string)
	// messages visits an array of messages, or nil.
	messages(key string, p *[]otelagent.Message, brief string)
	// facts visits an array of objects of factShape, or nil.
	facts(key string, p *[]otelagent.Fact, brief string)
	// provenance visits an object as Provenance.AppendJSON writes it.
	provenance(key string, p *spans.Provenance, brief string)
	// origins visits an array of provenances or null, one for each message of the payload, which says all of the request then but for what was
	// visited before. It reports whether nothing is left to visit.
	origins(key string, p *otelagent.Request, brief string) bool
}

// kind is one type of line.
type kind struct {
	// name follows the prefix in its type.
	name string
	// ends says that the event ends something: what comes beside it comes before it. Names says that it may name a session that
	// nothing before it named.
	ends, names bool
	brief       string
	make        func() otelagent.Event
	// shape visits the event and reports whether it is of this kind.
	shape func(visitor, otelagent.Event) bool
}

func of[T any, P interface {
	*T
	otelagent.Event
}](name, brief string, shape func(visitor, P)) kind {
	return kind{name: name, brief: brief, make: func() otelagent.Event { return P(new(T)) }, shape: func(v visitor, ev otelagent.Event) bool {
		p, ok := ev.(P)
		if ok && p != nil {
			shape(v, p)
		}
		return ok
	}}
}

func (k kind) ending() kind { k.ends = true; return k }
func (k kind) naming() kind { k.names = true; return k }

// kinds are all types of lines, in the order of the documentation.
var kinds = [...]kind{
	of("run_started", "A run begins. Everything is optional; without `run` the run gets an id that is made up.", runStarted).naming(),
	of("run_ended", "A run ends.", runEnded).ending(),
	of("turn_started", "A turn begins: one model request and what it causes.", turnStarted),
	of("request_prepared", "What the model will receive. `payload` alone is enough: what the other keys say is read from it.", requestPrepared),
	of("message_added", "A message other than the reply: a prompt, a tool result, steering.", messageAdded),
	of("reply_delta", "A piece of the reply came in.", replyDelta),
	of("reply_received", "The model call is over. The reply comes with turn_ended; what is told of it here is shown while the turn goes on.", replyReceived),
	of("attempt_discarded", "The loop threw a reply away to ask again. Its tokens were billed, and count apart from those of the turn.", attemptDiscarded),
	of("turn_ended", "The open turn ends, with the reply.", turnEnded).ending(),
	of("tool_started", "A tool call begins.", toolStarted),
	of("tool_progressed", "A tool call tells of a partial result or of its progress.", toolProgressed),
	of("tool_ended", "A tool call ends.", toolEnded).ending(),
	of("permission_asked", "Somebody was asked whether something may run. permission_evaluated of the same tool and call is the answer; the time between is its wait.", permissionAsked),
	of("permission_evaluated", "It was decided whether something may run.", permissionEvaluated),
	of("user_asked", "The loop asked the user something, other than for permission, and waits. Only who looks on while it runs needs it.", userAsked),
	of("user_answered", "There is an answer, or there will be none.", userAnswered),
	of("compaction_started", "A compaction begins.", compactionStarted),
	of("compaction_ended", "A compaction ends; without one that began, a whole one.", compactionEnded).ending(),
	of("group_started", "A parallel group begins: runs of which one will be selected.", groupStarted).naming(),
	of("group_ended", "A parallel group ends.", groupEnded).ending(),
	of("fact_stated", "Facts about the session, or a thing in it, that arise outside any run or later than the thing.", factStated).naming(),
	of("defect_found", "The source says, or shows, that something is wrong with its events.", defectFound),
	of("other", "What has no place among the other types. It is kept and shown.", other),
}

// kindOf finds a kind by its name.
var kindOf = func() map[string]int {
	m := make(map[string]int, len(kinds))
	for i := range kinds {
		m[kinds[i].name] = i
	}
	return m
}()

const startBrief = "when it began, where that is not the time of the line"
const endBrief = "when it ended, where that is not the time of the line"

func runStarted(v visitor, e *otelagent.RunStarted) {
	v.meta(&e.Meta)
	v.text("session_id", &e.SessionID, e.Session, "the session of the run; absent: `session`")
	v.text("id", &e.ID, e.Run, "the run; absent: `run`")
	v.text("agent", &e.Agent, "", "the agent's name")
	v.text("agent_id", &e.AgentID, "", "the agent's id")
	v.text("model", &e.Model, "", "the model asked for; turns may differ")
	v.text("provider", &e.Provider, "", "the provider asked for; turns may differ")
	v.text("dialect", &e.Dialect, Dialect, "the loop or wire that the run comes from; absent: `otelagent`")
	v.moment("start", &e.Start, startBrief)
	v.text("parent_id", &e.ParentID, "", "the run that this one continues or was spawned by")
	v.text("parent_session_id", &e.ParentSessionID, "", "its session, where that is another one")
	v.text("parent_tool_call_id", &e.ParentToolCallID, "", "the tool call that spawned this run")
	v.text("continuation", (*string)(&e.Continuation), "", "initial, default, rerun, branch or compaction; absent: initial")
	v.text("continuation_tag", &e.ContinuationTag, "", "the loop's tag of the continuation")
	v.text("fork_parent_id", &e.ForkParentID, "", "the session from which this session was forked")
	v.json("config", &e.Config, false, "the loop's configuration (content)")
	v.text("config_id", &e.ConfigID, "", "its id")
	v.text("config_api", &e.API, "", "the provider protocol that it names")
	v.json("metadata", &e.Metadata, false, "what the caller attached to the run (content)")
	v.json("rules", &e.Rules, false, "the permission rules in force (content)")
	v.time("group_start", &e.GroupStart, "the start of the parallel group that the run belongs to")
	v.text("group_role", (*string)(&e.GroupRole), "", "member or judge")
	v.text("recording", (*string)(&e.Recording), "", "what the run is told from: events or ledger; absent: events")
	v.flag("copied", &e.Copied, "the session took the run over from the one it was forked from; it counts in no sum")
	v.flag("inferred", &e.Inferred, "its start was not seen")
}

func runEnded(v visitor, e *otelagent.RunEnded) {
	v.meta(&e.Meta)
	v.moment("end", &e.End, endBrief)
	v.text("status", (*string)(&e.Status), "", "completed, rejected, aborted, error, cancelled or vetoed; absent: completed")
	v.text("status_word", &e.Word, "", "the loop's own word for it")
	v.flag("rejected", &e.Rejected, "the input was refused")
	v.text("rejection", &e.Rejection, "", "why it was (content)")
	v.text("error", &e.Error, "", "what was said about a failure (content)")
	v.usage("usage", &e.Usage, "the loop's own roll-up; it counts where no turn reports usage")
	v.messages("messages", &e.Messages, "everything the run added, as the loop reports it at its end")
}

func turnStarted(v visitor, e *otelagent.TurnStarted) {
	v.meta(&e.Meta)
	v.known("index", &e.Index, -1, "the zero-based number of the turn; absent: the run's next")
	v.text("trigger", (*string)(&e.Trigger), "", "user, sub_agent, continuation or branch")
	v.text("model", &e.Model, "", "the model asked for; absent: the run's")
	v.text("provider", &e.Provider, "", "the provider asked for; absent: the run's")
	v.text("variant", &e.Variant, "", "the variant of the model")
	v.moment("start", &e.Start, startBrief)
}

func requestPrepared(v visitor, e *otelagent.RequestPrepared) {
	v.meta(&e.Meta)
	v.moment("at", &e.At, "when it was ready, where that is not the time of the line")
	v.small("attempt", &e.Attempt, "the attempt, from 0")
	v.json("payload", &e.Payload, false, "the request as it was sent to the provider, so that it can be given back byte for byte (content)")
	if v.origins("provenance", &e.Request, "where the messages of payload came from: an object or null for each, in place of `messages`") {
		return
	}
	v.text("model", &e.Model, "", "the model asked for")
	v.text("reasoning_level", &e.Level, "", "the level of reasoning asked for")
	v.text("format", &e.Format, "", "the format asked for")
	v.limit("max_tokens", &e.MaxTokens, "the limit asked for")
	v.number("temperature", &e.Temperature, "the temperature asked for")
	v.count("bytes", &e.Bytes, "the size of the request; absent: that of payload")
	v.json("system", &e.System, false, "the system prompt (content)")
	v.json("tools", &e.Tools, false, "the tool catalogue (content)")
	v.messages("messages", &e.Messages, "the messages; absent: those of payload")
}

func messageAdded(v visitor, e *otelagent.MessageAdded) {
	v.meta(&e.Meta)
	v.message("message", &e.Message, "the message")
}

func replyReceived(v visitor, e *otelagent.ReplyReceived) {
	v.meta(&e.Meta)
	v.message("message", &e.Message, "the reply; it is shown while the turn goes on, and only its time is kept when that ends")
	v.usage("usage", &e.Usage, "the usage, as turn_ended will have it")
	v.text("stop_reason", &e.StopReason, "", "as turn_ended will have it")
	v.text("model", &e.Model, "", "the model that answered")
	v.text("provider", &e.Provider, "", "the provider that answered")
	v.text("response_id", &e.ResponseID, "", "the provider's id of the reply")
}

func replyDelta(v visitor, e *otelagent.ReplyDelta) {
	v.meta(&e.Meta)
	v.small("bytes", &e.Bytes, "the length of the piece")
	v.text("kind", (*string)(&e.Kind), "", "text, reasoning or tool_input")
	v.json("piece", &e.Text, false, "the piece itself, a string; it is kept only where partial output is asked for (content)")
}

func attemptDiscarded(v visitor, e *otelagent.AttemptDiscarded) {
	v.meta(&e.Meta)
	v.moment("at", &e.At, "when, where that is not the time of the line")
	v.small("attempt", &e.Attempt, "the attempt, from 0")
	v.text("reason", &e.Reason, "", "the loop's own word for why, such as max_tokens")
	v.usage("usage", &e.Usage, "its usage as reported")
	v.reply("reply", &e.Reply, "the message thrown away")
}

func turnEnded(v visitor, e *otelagent.TurnEnded) {
	v.meta(&e.Meta)
	v.moment("end", &e.End, endBrief)
	v.text("model", &e.Model, "", "the model that answered")
	v.text("provider", &e.Provider, "", "the provider that answered")
	v.text("response_id", &e.ResponseID, "", "the provider's id of the reply")
	v.text("stop_reason", &e.StopReason, "", "the loop's own word for why the model stopped")
	v.flag("failed", &e.Failed, "the reply is an error")
	v.flag("cancelled", &e.Cancelled, "it failed because user or host stopped it")
	v.text("error", &e.Error, "", "what was said about the failure (content)")
	v.usage("usage", &e.Usage, "the usage as reported")
	v.number("cost", &e.Cost, "money, as the loop reports it")
	v.text("currency", &e.Currency, "", "of the cost: ISO 4217")
	v.nanos("model_call_ns", &e.ModelCall, "the time of the model call alone")
	v.nanos("first_chunk_ns", &e.FirstChunk, "the time to the first piece of the reply")
	v.reply("output", &e.Output, "the reply")
	v.messages("results", &e.Results, "the tool results in the order of the calls")
}

func toolStarted(v visitor, e *otelagent.ToolStarted) {
	v.meta(&e.Meta)
	v.text("call_id", &e.ID, "", "the call")
	v.text("name", &e.Name, "", "the tool")
	v.text("tool_type", &e.Type, "", "function, extension or datastore")
	v.json("args", &e.Args, true, "the arguments (content)")
	v.moment("start", &e.Start, startBrief)
}

func toolProgressed(v visitor, e *otelagent.ToolProgressed) {
	v.meta(&e.Meta)
	v.text("call_id", &e.CallID, "", "the call")
	v.text("name", &e.Name, "", "the tool")
	v.text("event_type", &e.Type, "", "the producer's word for the event")
	v.json("body", &e.Body, true, "the event (content)")
}

func toolEnded(v visitor, e *otelagent.ToolEnded) {
	v.meta(&e.Meta)
	v.text("call_id", &e.CallID, "", "the call")
	v.text("name", &e.Name, "", "the tool")
	v.moment("end", &e.End, endBrief)
	v.text("outcome", (*string)(&e.Outcome), "", "ok, error, denied, skipped or cancelled; absent: ok")
	v.text("error", &e.Error, "", "what was said about a failure (content)")
	v.json("result", &e.Result, true, "the result (content)")
	v.maybe("truncated", &e.Truncated, "whether the result was cut before the model saw it")
	v.text("child_run_id", &e.ChildRunID, "", "the run that the call spawned")
	v.text("child_session_id", &e.ChildSessionID, "", "the session of that run")
}

func permissionEvaluated(v visitor, e *otelagent.PermissionEvaluated) {
	v.meta(&e.Meta)
	permission(v, &e.PermissionEvaluation)
}

func permissionAsked(v visitor, e *otelagent.PermissionAsked) {
	v.meta(&e.Meta)
	permission(v, &e.PermissionEvaluation)
}

func userAsked(v visitor, e *otelagent.UserAsked) { v.meta(&e.Meta) }

func userAnswered(v visitor, e *otelagent.UserAnswered) { v.meta(&e.Meta) }

func permission(v visitor, e *otelagent.PermissionEvaluation) {
	v.text("tool", &e.Tool, "", "the tool")
	v.text("call_id", &e.CallID, "", "the call")
	v.text("pattern", &e.Pattern, "", "the rule that matched (content)")
	v.text("action", (*string)(&e.Action), "", "allow, deny or ask")
	v.text("source", (*string)(&e.Source), "", "where the rule stands: manifest, session, project or a word of the loop's")
	v.text("target", (*string)(&e.Target), "", "tool or input; absent: tool")
	v.text("reason", &e.Reason, "", "why (content)")
	v.text("decided_by", &e.DecidedBy, "", "who decided (content)")
	v.nanos("wait_ns", &e.Wait, "how long somebody was waited for")
	v.json("options", &e.Options, false, "the answers that were offered (content)")
	v.text("option", &e.Option, "", "the id of the answer that was chosen")
	v.text("outcome", &e.Outcome, "", "the loop's own word for how it ended")
	v.text("rules_digest", &e.RulesDigest, "", "names the set of rules (content)")
	v.flag("derived", &e.Derived, "it was inferred from other events")
	v.moment("start", &e.Start, startBrief)
	v.moment("end", &e.End, endBrief)
}

func compactionStarted(v visitor, e *otelagent.CompactionStarted) {
	v.meta(&e.Meta)
	v.text("kind", (*string)(&e.Kind), "", "summary, prune or revert")
	v.text("trigger", &e.Trigger, "", "what made it begin")
	v.known("messages_before", &e.MessagesBefore, -1, "messages before")
	v.known("input_tokens", &e.InputTokens, -1, "tokens before, as the loop estimates them")
	v.moment("start", &e.Start, startBrief)
}

func compactionEnded(v visitor, e *otelagent.CompactionEnded) {
	v.meta(&e.Meta)
	v.text("kind", (*string)(&e.Kind), "", "summary, prune or revert; absent: that of the open one")
	v.text("trigger", &e.Trigger, "", "what made it begin")
	v.moment("start", &e.Start, startBrief+"; of a whole one")
	v.moment("end", &e.End, endBrief)
	v.known("messages_before", &e.CompactionResult.MessagesBefore, -1, "messages before")
	v.known("messages_after", &e.MessagesAfter, -1, "messages after")
	v.known("input_tokens", &e.CompactionResult.InputTokens, -1, "tokens before, as the loop estimates them")
	v.known("output_tokens", &e.OutputTokens, -1, "tokens after, as the loop estimates them")
	v.known("messages_summarized", &e.MessagesSummarized, -1, "messages that were replaced or removed")
	v.known("removed_tokens", &e.TokensGone, -1, "tokens removed, where the loop tells only that")
	v.known("runs", &e.Runs, -1, "runs whose messages were compacted")
	v.words("removed", &e.Removed, "ids of removed messages")
	v.maybe("applied", &e.Applied, "whether it took effect")
	v.text("category", &e.Category, "", "the loop's category of a revert")
	v.text("target", &e.Target, "", "where a revert went back to")
	v.text("reason", &e.Reason, "", "why (content)")
	v.json("summary", &e.Summary, false, "what replaced the messages (content)")
	v.messages("before", &e.Before, "the messages before")
	v.messages("after", &e.After, "the messages after")
	v.known("start_messages_before", &e.Compaction.MessagesBefore, e.CompactionResult.MessagesBefore, "messages before, where another number was known at its start; null: none was")
	v.known("start_input_tokens", &e.Compaction.InputTokens, e.CompactionResult.InputTokens, "the same of the tokens before")
}

func groupStarted(v visitor, e *otelagent.GroupStarted) {
	v.meta(&e.Meta)
	v.text("session_id", &e.SessionID, e.Session, "the session of the group; absent: `session`")
	v.text("dialect", &e.Dialect, Dialect, "the loop or wire that the group comes from; absent: `otelagent`")
	v.words("members", &e.Members, "the runs among which one will be selected")
	v.moment("start", &e.Start, startBrief)
	v.text("recording", (*string)(&e.Recording), "", "what the group is told from: events or ledger; absent: events")
	v.flag("inferred", &e.Inferred, "its start was not seen")
}

func groupEnded(v visitor, e *otelagent.GroupEnded) {
	v.meta(&e.Meta)
	v.moment("end", &e.End, endBrief)
	v.text("selected_id", &e.SelectedID, "", "the run that was selected")
	v.known("selected_index", &e.SelectedIndex, -1, "its zero-based number among the members")
	v.usage("evaluation_usage", &e.Evaluation, "the usage of the evaluation as reported; it is the judge's own and never added to it")
}

func factStated(v visitor, e *otelagent.FactStated) {
	v.meta(&e.Meta)
	v.text("dialect", &e.Dialect, Dialect, "the loop or wire that the facts come from; absent: `otelagent`")
	v.text("recording", (*string)(&e.Recording), "", "what they are told from: events or ledger; absent: events")
	v.facts("facts", &e.Facts, "the facts")
}

func defectFound(v visitor, e *otelagent.DefectFound) {
	v.meta(&e.Meta)
	v.text("code", (*string)(&e.Code), "", "what is wrong: event_lost, runs_mixed or another word")
	v.text("detail", &e.Detail, "", "which, in plain words, from ids and numbers only")
}

func other(v visitor, e *otelagent.Other) {
	v.meta(&e.Meta)
	v.text("event_type", &e.Type, "", "the producer's word for the event")
	v.json("body", &e.Body, true, "the event (content)")
}

func usageShape(v visitor, u *otelagent.Usage) {
	v.count("input", &u.Input, "input tokens")
	v.count("output", &u.Output, "output tokens")
	v.count("reasoning", &u.Reasoning, "reasoning tokens")
	v.count("cache_read", &u.CacheRead, "tokens read from a cache")
	v.count("cache_write", &u.CacheWrite, "tokens written to a cache")
	v.count("total", &u.Total, "the total")
	v.text("rule", (*string)(&u.Rule), "", "how the counts are to be read: includes_cache, excludes_cache, excludes_reasoning or excludes_cache_and_reasoning; absent: what the reader was told, else includes_cache")
}

func momentShape(v visitor, m *otelagent.Moment) {
	v.time("time", &m.Time, "the time")
	v.text("source", (*string)(&m.Source), "", "where it came from: event, arrival, message or bound; absent: event")
	v.count("seq", &m.Seq, "the position in the input; absent: that of the line")
}

// messageShape is the form of a message that says what a message alone does not: an object with raw or raw_text. Any other JSON is the message
// itself: see plainMessage.
func messageShape(v visitor, m *otelagent.Message) {
	v.json("raw", &m.Raw, false, "the message as the loop wrote it (content)")
	v.text("role", &m.Role, "", "user, assistant, toolResult, or what the loop says")
	v.text("tool_call_id", &m.ToolCallID, "", "the call that a tool result answers")
	v.time("time", &m.Time, "the time inside the message")
	v.provenance("provenance", &m.Provenance, "where the message came from, when it is part of a request")
}

func factShape(v visitor, f *otelagent.Fact) {
	v.text("subject", &f.Subject, "", "what it is about: `session`, or a kind and an id such as `message/msg_1`")
	v.text("key", &f.Key, "", "what it says of it: `title`, `archived_at`")
	v.json("value", &f.Value, true, "the value; null takes the fact back (content)")
	v.moment("at", &f.At, "since when; absent: the time of the line")
}
