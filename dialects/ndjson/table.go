package ndjson

import (
	"reflect"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
)

// A field is one key of a line, or of an object in it. The shapes below are all that is known of a key: lines are read
// by them, and README.md and the schema have the same keys with what they mean.
type field struct {
	key      string
	nullable bool // the key holds any JSON, of which null is a value
	origins  bool // the key holds the provenances of messages, without these

	at, likeAt []int  // the indexes of the Go field, and of the one whose value the absent key means
	text       string // the key of content that is text
}

// shape is a type of line, or of an object in a line.
type shape struct {
	name   string
	typ    reflect.Type
	fields []field
}

// of returns a shape of keys in their order. A key is the name of its Go field in lower case with underlines, unless
// "=" and another name follow it. The Go field whose value its absence means may follow after "^". "?" says that the
// key holds any JSON, of which null is a value.
func of[T any](name, keys string) shape {
	s := shape{name: name, typ: reflect.TypeFor[T]()}
	if _, isEvent := any(new(T)).(event.Event); isEvent {
		keys = "ts=Meta.Time seq=Meta.Seq session=Meta.Session run=Meta.Run " + keys
	}
	for key := range strings.FieldsSeq(keys) {
		var f field
		key, f.nullable = strings.CutSuffix(key, "?")
		key, like, _ := strings.Cut(key, "^")
		key, goName, isNamed := strings.Cut(key, "=")
		for word := range strings.SplitSeq(key, "_") {
			switch {
			case isNamed:
			case word == "id":
				goName += "ID"
			default:
				goName += strings.ToUpper(word[:1]) + word[1:]
			}
		}
		f.key, f.text, f.at, f.likeAt = key, key+asText, s.index(goName), s.index(like)
		f.origins = key == "provenance" && goName == "Messages"
		s.fields = append(s.fields, f)
	}
	return s
}

// index returns where a field of that name is in the type; nil without a name.
func (s *shape) index(name string) (at []int) {
	typ := s.typ
	for part := range strings.SplitSeq(name, ".") {
		found, _ := typ.FieldByName(part) // a wrong name panics below
		at, typ = append(at, found.Index...), found.Type
	}
	return at
}

const permission = "tool call_id pattern action source target reason decided_by wait_ns=Wait options option outcome " +
	"rules_digest derived start end"

// kinds are all types of lines, in the order of the documentation.
var kinds = [...]shape{
	of[event.RunStarted]("run_started", "session_id^Session id^Run agent agent_id model provider dialect "+
		"start parent_id parent_session_id parent_tool_call_id continuation continuation_tag fork_parent_id config "+
		"config_id config_api=API metadata rules group_start group_role recording copied inferred"),
	of[event.RunEnded]("run_ended", "end status status_word=Word rejected rejection error usage messages"),
	of[event.TurnStarted]("turn_started", "index trigger purpose model provider variant start"),
	of[event.RequestPrepared]("request_prepared", "at attempt payload provenance=Messages model reasoning_level=Level "+
		"format max_tokens temperature bytes system tools messages"),
	of[event.MessageAdded]("message_added", "message"),
	of[event.ReplyDelta]("reply_delta", "bytes kind piece=Text"),
	of[event.ReplyReceived]("reply_received", "message usage stop_reason model provider response_id"),
	of[event.AttemptDiscarded]("attempt_discarded", "at attempt reason error usage reply"),
	of[event.TurnEnded]("turn_ended", "end model provider response_id stop_reason failed cancelled error usage cost "+
		"currency model_call_ns=ModelCall first_chunk_ns=FirstChunk output partial results"),
	of[event.ToolStarted]("tool_started", "call_id=ID name tool_type=Type args? start"),
	of[event.ToolProgressed]("tool_progressed", "call_id name event_type=Type body?"),
	of[event.ToolEnded]("tool_ended", "call_id name end outcome error result? truncated child_run_id child_session_id"),
	of[event.PermissionAsked]("permission_asked", permission),
	of[event.PermissionEvaluated]("permission_evaluated", permission),
	of[event.UserAsked]("user_asked", ""),
	of[event.UserAnswered]("user_answered", ""),
	of[event.CompactionStarted]("compaction_started", "kind trigger messages_before input_tokens start"),
	of[event.CompactionEnded]("compaction_ended", "kind trigger start end "+
		"messages_before=CompactionResult.MessagesBefore messages_after input_tokens=CompactionResult.InputTokens "+
		"output_tokens messages_summarized removed_tokens=TokensGone runs usage cost currency removed applied category "+
		"target reason summary before after "+
		"start_messages_before=Compaction.MessagesBefore^CompactionResult.MessagesBefore "+
		"start_input_tokens=Compaction.InputTokens^CompactionResult.InputTokens"),
	of[event.GroupStarted]("group_started", "session_id^Session dialect members start recording inferred"),
	of[event.GroupEnded]("group_ended", "end selected_id selected_index evaluation_usage=Evaluation"),
	of[event.FactStated]("fact_stated", "dialect recording facts"),
	of[event.DefectFound]("defect_found", "code detail"),
	of[event.Other]("other", "event_type=Type body?"),
}

// objects are the objects in lines.
var objects = [...]shape{
	of[event.Usage]("usage", "input output reasoning cache_read cache_write total rule lower_bound"),
	of[event.Moment]("moment", "time source seq"),
	of[event.Message]("message", "raw role tool_call_id time provenance"),
	of[event.Fact]("fact", "subject key value? at"),
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
