package ndjson

import (
	"reflect"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
)

// A field is one key of a line, or of an object in it. The tables below are all that is known of a key: lines are
// read and written by them, and the schema and the documentation are made from them.
type field struct {
	key, name, brief string // name is that of the Go field, with the type that it is embedded by where that is not clear

	absent   reflect.Value // what the absent key means; invalid for the zero value
	like     string        // the Go field whose value the absent key means
	nullable bool          // the key holds any JSON, of which null is a value
	origins  bool          // the key holds the provenances of messages, without these

	at, likeAt []int  // the indexes of name and of like
	text       string // the key of content that is text
}

func f(key, name, brief string) field { return field{key: key, name: name, brief: brief} }

func (f field) orNull() field            { f.nullable = true; return f }
func (f field) asOrigins() field         { f.origins = true; return f }
func (f field) sameAs(name string) field { f.like = name; return f }
func (f field) unset(v any) field        { f.absent = reflect.ValueOf(v); return f }

// absence returns what the absent key means in v, which has the field; invalid for the zero value.
func (f *field) absence(v reflect.Value) reflect.Value {
	if f.likeAt != nil {
		return v.FieldByIndex(f.likeAt)
	}
	return f.absent
}

// shape is a type of line, or of an object in a line.
type shape struct {
	name, brief string
	typ         reflect.Type
	fields      []field
}

func of[T any](name, brief string, fields ...field) shape {
	s := shape{name: name, brief: brief, typ: reflect.TypeFor[T](), fields: fields}
	if _, isEvent := any(new(T)).(event.Event); isEvent {
		s.fields = append(append([]field(nil), meta...), fields...)
	}
	for i := range s.fields {
		fd := &s.fields[i]
		fd.at, fd.text = s.index(fd.name), fd.key+asText
		if fd.like != "" {
			fd.likeAt = s.index(fd.like)
		}
	}
	return s
}

// index returns where a field of that name stands in the type.
func (s *shape) index(name string) (at []int) {
	typ := s.typ
	for part := range strings.SplitSeq(name, ".") {
		found, _ := typ.FieldByName(part) // a wrong name panics below
		at, typ = append(at, found.Index...), found.Type
	}
	return at
}

// meta are the keys that every line may have.
var meta = []field{
	f("ts", "Meta.Time", "when it happened; absent: not known"),
	f("seq", "Meta.Seq", "its position in the input; absent: the number of the line"),
	f("session", "Meta.Session", "the session; absent: that of the run"),
	f("run", "Meta.Run", "the run; absent: the one that is open, the innermost where the open runs spawned each other"),
}

// anyLine is a line of unknown type.
var anyLine = of[event.Other]("", "")

const startBrief = "when it began, where that is not the time of the line"
const endBrief = "when it ended, where that is not the time of the line"

var permission = []field{
	f("tool", "Tool", "the tool"),
	f("call_id", "CallID", "the call"),
	f("pattern", "Pattern", "the rule that matched (content)"),
	f("action", "Action", "allow, deny or ask"),
	f("source", "Source", "where the rule stands: manifest, session, project or a word of the loop's"),
	f("target", "Target", "tool or input; absent: tool"),
	f("reason", "Reason", "why (content)"),
	f("decided_by", "DecidedBy", "who decided (content)"),
	f("wait_ns", "Wait", "how long somebody was waited for"),
	f("options", "Options", "the answers that were offered (content)"),
	f("option", "Option", "the id of the answer that was chosen"),
	f("outcome", "Outcome", "the loop's own word for how it ended"),
	f("rules_digest", "RulesDigest", "names the set of rules (content)"),
	f("derived", "Derived", "it was inferred from other events"),
	f("start", "Start", startBrief),
	f("end", "End", endBrief),
}

// kinds are all types of lines, in the order of the documentation.
var kinds = [...]shape{
	of[event.RunStarted]("run_started", "A run begins. Everything is optional; without `run` the run gets a "+
		"generated id.",
		f("session_id", "SessionID", "the session of the run; absent: `session`").sameAs("Session"),
		f("id", "ID", "the run; absent: `run`").sameAs("Run"),
		f("agent", "Agent", "the agent's name"),
		f("agent_id", "AgentID", "the agent's id"),
		f("model", "Model", "the model asked for; turns may differ"),
		f("provider", "Provider", "the provider asked for; turns may differ"),
		f("dialect", "Dialect", "the loop or wire that the run comes from; absent: `otelagent`").unset(Dialect),
		f("start", "Start", startBrief),
		f("parent_id", "ParentID", "the run that this one continues or was spawned by"),
		f("parent_session_id", "ParentSessionID", "its session, where that is another one"),
		f("parent_tool_call_id", "ParentToolCallID", "the tool call that spawned this run"),
		f("continuation", "Continuation", "initial, default, rerun, branch or compaction; absent: initial"),
		f("continuation_tag", "ContinuationTag", "the loop's tag of the continuation"),
		f("fork_parent_id", "ForkParentID", "the session from which this session was forked"),
		f("config", "Config", "the loop's configuration (content)"),
		f("config_id", "ConfigID", "its id"),
		f("config_api", "API", "the provider protocol that it names"),
		f("metadata", "Metadata", "what the caller attached to the run (content)"),
		f("rules", "Rules", "the permission rules in force (content)"),
		f("group_start", "GroupStart", "the start of the parallel group that the run belongs to"),
		f("group_role", "GroupRole", "member or judge"),
		f("recording", "Recording", "where the run was read from: events or ledger; absent: events"),
		f("copied", "Copied", "the session took the run over from the one it was forked from; it counts in no sum"),
		f("inferred", "Inferred", "its start was not seen")),
	of[event.RunEnded]("run_ended", "A run ends.",
		f("end", "End", endBrief),
		f("status", "Status", "completed, rejected, aborted, error, cancelled or vetoed; absent: completed"),
		f("status_word", "Word", "the loop's own word for it"),
		f("rejected", "Rejected", "the input was refused"),
		f("rejection", "Rejection", "why it was (content)"),
		f("error", "Error", "what was said about a failure (content)"),
		f("usage", "Usage", "the loop's own roll-up; it counts where no turn reports usage"),
		f("messages", "Messages", "everything the run added, as the loop reports it at its end")),
	of[event.TurnStarted]("turn_started", "A turn begins: one model request and what it causes.",
		f("index", "Index", "the zero-based number of the turn; absent: the run's next"),
		f("trigger", "Trigger", "user, sub_agent, continuation or branch"),
		f("purpose", "Purpose", "utility: the model call is no part of the conversation; absent: it is one"),
		f("model", "Model", "the model asked for; absent: the run's"),
		f("provider", "Provider", "the provider asked for; absent: the run's"),
		f("variant", "Variant", "the variant of the model"),
		f("start", "Start", startBrief)),
	of[event.RequestPrepared]("request_prepared", "What the model will receive. `payload` alone is enough: "+
		"what the other keys say is read from it.",
		f("at", "At", "when it was ready, where that is not the time of the line"),
		f("attempt", "Attempt", "the attempt, from 0"),
		f("payload", "Payload", "the request as it was sent to the provider, so that it can be given back byte "+
			"for byte (content)"),
		f("provenance", "Messages", "where the messages of payload came from: an object or null for each, in "+
			"place of `messages`").asOrigins(),
		f("model", "Model", "the model asked for"),
		f("reasoning_level", "Level", "the level of reasoning asked for"),
		f("format", "Format", "the format asked for"),
		f("max_tokens", "MaxTokens", "the limit asked for"),
		f("temperature", "Temperature", "the temperature asked for"),
		f("bytes", "Bytes", "the size of the request; absent: that of payload"),
		f("system", "System", "the system prompt (content)"),
		f("tools", "Tools", "the tool catalogue (content)"),
		f("messages", "Messages", "the messages; absent: those of payload")),
	of[event.MessageAdded]("message_added", "A message other than the reply: a prompt, a tool result, steering.",
		f("message", "Message", "the message")),
	of[event.ReplyDelta]("reply_delta", "A piece of the reply came in.",
		f("bytes", "Bytes", "the length of the piece"),
		f("kind", "Kind", "text, reasoning or tool_input"),
		f("piece", "Text", "the piece itself, a string; it is kept only where partial output is asked for (content)")),
	of[event.ReplyReceived]("reply_received", "The model call is over. The reply comes with turn_ended; until "+
		"then the open turn shows the keys of this line.",
		f("message", "Message", "the reply; it is shown while the turn goes on, and only its time is kept when "+
			"that ends"),
		f("usage", "Usage", "the usage, as turn_ended will have it"),
		f("stop_reason", "StopReason", "as turn_ended will have it"),
		f("model", "Model", "the model that answered"),
		f("provider", "Provider", "the provider that answered"),
		f("response_id", "ResponseID", "the provider's id of the reply")),
	of[event.AttemptDiscarded]("attempt_discarded", "The loop threw a reply away to ask again. Its tokens "+
		"were billed, and count apart from those of the turn.",
		f("at", "At", "when, where that is not the time of the line"),
		f("attempt", "Attempt", "the attempt, from 0"),
		f("reason", "Reason", "the loop's own word for why, such as max_tokens"),
		f("error", "Error", "the error of the attempt, as the loop words it (content)"),
		f("usage", "Usage", "its usage as reported"),
		f("reply", "Reply", "the message thrown away")),
	of[event.TurnEnded]("turn_ended", "The open turn ends, with the reply.",
		f("end", "End", endBrief),
		f("model", "Model", "the model that answered"),
		f("provider", "Provider", "the provider that answered"),
		f("response_id", "ResponseID", "the provider's id of the reply"),
		f("stop_reason", "StopReason", "the loop's own word for why the model stopped"),
		f("failed", "Failed", "the reply is an error"),
		f("cancelled", "Cancelled", "it failed because user or host stopped it"),
		f("error", "Error", "what was said about the failure (content)"),
		f("usage", "Usage", "the usage as reported"),
		f("cost", "Cost", "money, as the loop reports it"),
		f("currency", "Currency", "of the cost: ISO 4217"),
		f("model_call_ns", "ModelCall", "the time of the model call alone"),
		f("first_chunk_ns", "FirstChunk", "the time to the first piece of the reply"),
		f("output", "Output", "the reply"),
		f("results", "Results", "the tool results in the order of the calls")),
	of[event.ToolStarted]("tool_started", "A tool call begins.",
		f("call_id", "ID", "the call"),
		f("name", "Name", "the tool"),
		f("tool_type", "Type", "function, extension or datastore"),
		f("args", "Args", "the arguments (content)").orNull(),
		f("start", "Start", startBrief)),
	of[event.ToolProgressed]("tool_progressed", "A tool call reports a partial result or its progress.",
		f("call_id", "CallID", "the call"),
		f("name", "Name", "the tool"),
		f("event_type", "Type", "the producer's word for the event"),
		f("body", "Body", "the event (content)").orNull()),
	of[event.ToolEnded]("tool_ended", "A tool call ends.",
		f("call_id", "CallID", "the call"),
		f("name", "Name", "the tool"),
		f("end", "End", endBrief),
		f("outcome", "Outcome", "ok, error, denied, skipped or cancelled; absent: ok"),
		f("error", "Error", "what was said about a failure (content)"),
		f("result", "Result", "the result (content)").orNull(),
		f("truncated", "Truncated", "whether the result was cut before the model saw it"),
		f("child_run_id", "ChildRunID", "the run that the call spawned"),
		f("child_session_id", "ChildSessionID", "the session of that run")),
	of[event.PermissionAsked]("permission_asked", "Somebody was asked whether something may run. "+
		"permission_evaluated of the same tool and call is the answer; the time between is its wait.",
		permission...),
	of[event.PermissionEvaluated]("permission_evaluated", "It was decided whether something may run.",
		permission...),
	of[event.UserAsked]("user_asked", "The loop asked the user something, other than for permission, and "+
		"waits. Only a live view needs it."),
	of[event.UserAnswered]("user_answered", "There is an answer, or there will be none."),
	of[event.CompactionStarted]("compaction_started", "A compaction begins.",
		f("kind", "Kind", "summary, prune or revert"),
		f("trigger", "Trigger", "what made it begin"),
		f("messages_before", "MessagesBefore", "messages before"),
		f("input_tokens", "InputTokens", "tokens before, as the loop estimates them"),
		f("start", "Start", startBrief)),
	of[event.CompactionEnded]("compaction_ended", "A compaction ends; without one that began, a whole one.",
		f("kind", "Kind", "summary, prune or revert; absent: that of the open one"),
		f("trigger", "Trigger", "what made it begin"),
		f("start", "Start", startBrief+"; of a whole one"),
		f("end", "End", endBrief),
		f("messages_before", "CompactionResult.MessagesBefore", "messages before"),
		f("messages_after", "MessagesAfter", "messages after"),
		f("input_tokens", "CompactionResult.InputTokens", "tokens before, as the loop estimates "+
			"them"),
		f("output_tokens", "OutputTokens", "tokens after, as the loop estimates them"),
		f("messages_summarized", "MessagesSummarized", "messages that were replaced or removed"),
		f("removed_tokens", "TokensGone", "tokens removed, where the loop reports only that"),
		f("runs", "Runs", "runs whose messages were compacted"),
		f("usage", "Usage", "the usage of the compaction's own model calls, which are no turns"),
		f("cost", "Cost", "what these calls cost, as the loop reports it"),
		f("currency", "Currency", "of the cost: ISO 4217"),
		f("removed", "Removed", "ids of removed messages"),
		f("applied", "Applied", "whether it took effect"),
		f("category", "Category", "the loop's category of a revert"),
		f("target", "Target", "where a revert went back to"),
		f("reason", "Reason", "why (content)"),
		f("summary", "Summary", "what replaced the messages (content)"),
		f("before", "Before", "the messages before"),
		f("after", "After", "the messages after"),
		f("start_messages_before", "Compaction.MessagesBefore", "messages before, where another number was known at "+
			"its start; null: none was").sameAs("CompactionResult.MessagesBefore"),
		f("start_input_tokens", "Compaction.InputTokens", "the same of the tokens before").
			sameAs("CompactionResult.InputTokens")),
	of[event.GroupStarted]("group_started", "A parallel group begins: runs of which one will be selected.",
		f("session_id", "SessionID", "the session of the group; absent: `session`").sameAs("Session"),
		f("dialect", "Dialect", "the loop or wire that the group comes from; absent: `otelagent`").unset(Dialect),
		f("members", "Members", "the runs among which one will be selected"),
		f("start", "Start", startBrief),
		f("recording", "Recording", "where the group was read from: events or ledger; absent: events"),
		f("inferred", "Inferred", "its start was not seen")),
	of[event.GroupEnded]("group_ended", "A parallel group ends.",
		f("end", "End", endBrief),
		f("selected_id", "SelectedID", "the run that was selected"),
		f("selected_index", "SelectedIndex", "its zero-based number among the members"),
		f("evaluation_usage", "Evaluation", "the usage of the evaluation as reported; it is the judge's own and "+
			"never added to it")),
	of[event.FactStated]("fact_stated", "Facts about the session, or a part of it, that arise outside any "+
		"run or later than that part.",
		f("dialect", "Dialect", "the loop or wire that the facts come from; absent: `otelagent`").unset(Dialect),
		f("recording", "Recording", "where they were read from: events or ledger; absent: events"),
		f("facts", "Facts", "the facts")),
	of[event.DefectFound]("defect_found", "The source says, or shows, that something is wrong with its events.",
		f("code", "Code", "what is wrong: event_lost, runs_mixed or another word"),
		f("detail", "Detail", "which, in plain words, from ids and numbers only")),
	of[event.Other]("other", "What has no place among the other types. It is kept and shown.",
		f("event_type", "Type", "the producer's word for the event"),
		f("body", "Body", "the event (content)").orNull()),
}

// objects are the objects in lines.
var objects = [...]shape{
	of[event.Usage]("usage", "Counts in tokens as they are reported.",
		f("input", "Input", "input tokens"),
		f("output", "Output", "output tokens"),
		f("reasoning", "Reasoning", "reasoning tokens"),
		f("cache_read", "CacheRead", "tokens read from a cache"),
		f("cache_write", "CacheWrite", "tokens written to a cache"),
		f("total", "Total", "the total"),
		f("rule", "Rule", "how the counts are to be read: includes_cache, excludes_cache, excludes_reasoning or "+
			"excludes_cache_and_reasoning; absent: the setting of the reader, else includes_cache"),
		f("lower_bound", "LowerBound", "the true usage is this or more")),
	of[event.Moment]("moment", "A time, or an object of these.",
		f("time", "Time", "the time"),
		f("source", "Source", "where it came from: event, arrival, message or bound; absent: event"),
		f("seq", "Seq", "the position in the input; absent: that of the line")),
	of[event.Message]("message", "Any JSON: the message itself; or an object of these, of which `raw` or `raw_text` "+
		"is there.",
		f("raw", "Raw", "the message as the loop wrote it (content)"),
		f("role", "Role", "user, assistant, toolResult, or what the loop says"),
		f("tool_call_id", "ToolCallID", "the call that a tool result answers"),
		f("time", "Time", "the time inside the message"),
		f("provenance", "Provenance", "where the message came from, when it is part of a request")),
	of[event.Fact]("fact", "One fact that is true from a time on.",
		f("subject", "Subject", "what it is about: `session`, or a kind and an id such as `message/msg_1`"),
		f("key", "Key", "what it says of it: `title`, `archived_at`"),
		f("value", "Value", "the value; null takes the fact back (content)").orNull(),
		f("at", "At", "since when; absent: the time of the line")),
}

// kindOf finds a type of line by its name, shapeOf any shape by its Go type.
var kindOf, shapeOf = func() (map[string]*shape, map[reflect.Type]*shape) {
	names, types := map[string]*shape{}, map[reflect.Type]*shape{}
	for i := range kinds {
		names[kinds[i].name], types[kinds[i].typ] = &kinds[i], &kinds[i]
	}
	for i := range objects {
		types[objects[i].typ] = &objects[i]
	}
	return names, types
}()
