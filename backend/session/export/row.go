package export

import (
	"encoding/json"
	"strconv"
)

// The rows of the agent guide, with the columns of its tables in their order. Times are unix milliseconds. Columns whose name ends in
// JSON hold the text of a JSON value. A nil pointer is SQL's and JSON's null.

// SessionRow is a row of chat_sessions.
type SessionRow struct {
	ID, Agent                                       string
	WorkspaceRoot                                   *string
	ModelJSON                                       string
	ParentID, ParentMessageID                       *string
	PermissionsJSON, MetadataJSON                   string
	PromptTokens, CompletionTokens, ReasoningTokens int64
	CacheRead, CacheWrite, TotalTokens              int64
	CostUSD                                         float64
	CreatedAt, UpdatedAt                            int64
	ArchivedAt                                      *int64
}

// MessageRow is a row of chat_messages. Its role is user, assistant or system.
type MessageRow struct {
	ID, SessionID, Role, MetadataJSON string
	CreatedAt, UpdatedAt              int64
}

// PartRow is a row of chat_parts.
type PartRow struct {
	ID, MessageID, SessionID string
	Index                    int64
	Type, DataJSON           string
	ToolCallID, ToolState    *string
	CreatedAt, UpdatedAt     int64
}

// RowType says what a row is, as the lines of JSONL call it.
type RowType string

// The row types: the three of the guide, then those that hold what they cannot.
const (
	RowSession      RowType = "session"
	RowMessage      RowType = "message"
	RowPart         RowType = "part"
	RowSystemPrompt RowType = "system_prompt"
	RowToolCatalog  RowType = "tool_catalog"
	RowPermission   RowType = "permission"
	RowDefect       RowType = "defect"
	// rowDocument is what a producer's document holds beside session and messages; Digest is its key.
	rowDocument RowType = "document"
)

// Row is one row of a session. One of Session, Message and Part is set where Type says so; of other types JSON is all.
type Row struct {
	Type    RowType
	Session *SessionRow
	Message *MessageRow
	Part    *PartRow
	// JSON is the row as an object on one line. It is valid until the next row.
	JSON []byte
	// Further are members that a producer put beside the row on its line, as an object without its closing brace; nil: none.
	Further []byte
	// Digest and Body are those of a system prompt or tool catalogue.
	Digest, Body string

	cells *cells // of what CSV says of a part, and of a message without one
}

func (r *SessionRow) json() []byte {
	var o object
	o.str("id", r.ID)
	o.str("agent", r.Agent)
	o.strOrNull("workspace_root", r.WorkspaceRoot)
	o.str("model_json", r.ModelJSON)
	o.strOrNull("parent_id", r.ParentID)
	o.strOrNull("parent_message_id", r.ParentMessageID)
	o.str("permissions_json", r.PermissionsJSON)
	o.str("metadata_json", r.MetadataJSON)
	o.int("prompt_tokens", r.PromptTokens)
	o.int("completion_tokens", r.CompletionTokens)
	o.int("reasoning_tokens", r.ReasoningTokens)
	o.int("cache_read", r.CacheRead)
	o.int("cache_write", r.CacheWrite)
	o.int("total_tokens", r.TotalTokens)
	o.raw("cost_usd", number(r.CostUSD))
	o.int("created_at", r.CreatedAt)
	o.int("updated_at", r.UpdatedAt)
	if r.ArchivedAt == nil {
		o.raw("archived_at", null)
	} else {
		o.int("archived_at", *r.ArchivedAt)
	}
	return o.bytes()
}

func (r *MessageRow) json() []byte {
	var o object
	o.str("id", r.ID)
	o.str("session_id", r.SessionID)
	o.str("role", r.Role)
	o.str("metadata_json", r.MetadataJSON)
	o.int("created_at", r.CreatedAt)
	o.int("updated_at", r.UpdatedAt)
	return o.bytes()
}

func (r *PartRow) json() []byte {
	var o object
	o.str("id", r.ID)
	o.str("message_id", r.MessageID)
	o.str("session_id", r.SessionID)
	o.int("index", r.Index)
	o.str("type", r.Type)
	o.str("data_json", r.DataJSON)
	o.strOrNull("tool_call_id", r.ToolCallID)
	o.strOrNull("tool_state", r.ToolState)
	o.int("created_at", r.CreatedAt)
	o.int("updated_at", r.UpdatedAt)
	return o.bytes()
}

func (o *object) strOrNull(k string, v *string) {
	if v == nil {
		o.raw(k, null)
	} else {
		o.str(k, *v)
	}
}

// number writes f as encoding/json does; what JSON cannot say is 0.
func number(f float64) []byte {
	b, err := json.Marshal(f)
	if err != nil {
		return []byte("0")
	}
	return b
}

// parseRow reads the columns of a row that a producer wrote, for tables. Parsed values are accepted where a column holds JSON, under its
// own name and under the one without _json. ok is false when it is no object.
func parseRow(typ RowType, raw []byte) (r Row, ok bool) {
	r = Row{Type: typ, JSON: raw}
	l := members(raw)
	if l == nil {
		return r, false
	}
	c := columns(l)
	switch typ {
	case RowSession:
		r.Session = &SessionRow{
			ID: c.text("id"), Agent: c.text("agent"), WorkspaceRoot: c.optional("workspace_root"), ModelJSON: c.json("model", "{}"),
			ParentID: c.optional("parent_id"), ParentMessageID: c.optional("parent_message_id"),
			PermissionsJSON: c.json("permissions", "[]"), MetadataJSON: c.json("metadata", "{}"),
			PromptTokens: c.int("prompt_tokens"), CompletionTokens: c.int("completion_tokens"), ReasoningTokens: c.int("reasoning_tokens"),
			CacheRead: c.int("cache_read"), CacheWrite: c.int("cache_write"), TotalTokens: c.int("total_tokens"),
			CostUSD: c.float("cost_usd"), CreatedAt: c.int("created_at"), UpdatedAt: c.int("updated_at"),
		}
		if c.present("archived_at") {
			at := c.int("archived_at")
			r.Session.ArchivedAt = &at
		}
	case RowMessage:
		r.Message = &MessageRow{
			ID: c.text("id"), SessionID: c.text("session_id"), Role: c.text("role"), MetadataJSON: c.json("metadata", "{}"),
			CreatedAt: c.int("created_at"), UpdatedAt: c.int("updated_at"),
		}
	case RowPart:
		r.Part = &PartRow{
			ID: c.text("id"), MessageID: c.text("message_id"), SessionID: c.text("session_id"), Index: c.int("index"), Type: c.text("type"),
			DataJSON: c.json("data", "{}"), ToolCallID: c.optional("tool_call_id"), ToolState: c.optional("tool_state"),
			CreatedAt: c.int("created_at"), UpdatedAt: c.int("updated_at"),
		}
	}
	return r, true
}

// columns are those of a row as they are spelled. What is of another type than it should be is taken as absent.
type columns []member

func (c columns) text(name string) string {
	s, _ := text(find(c, name))
	return s
}

func (c columns) present(name string) bool {
	v := find(c, name)
	return v != nil && string(v) != "null"
}

func (c columns) optional(name string) *string {
	if s, ok := text(find(c, name)); ok {
		return &s
	}
	return nil
}

func (c columns) json(name, absent string) string {
	for _, name := range []string{name + "_json", name} {
		v := find(c, name)
		if v == nil || string(v) == "null" {
			continue
		}
		if s, ok := text(v); ok && json.Valid([]byte(s)) {
			return s
		}
		return string(v)
	}
	return absent
}

func (c columns) int(name string) int64 {
	if n, err := strconv.ParseInt(string(find(c, name)), 10, 64); err == nil {
		return n
	}
	return int64(c.float(name))
}

func (c columns) float(name string) float64 {
	f, err := strconv.ParseFloat(string(find(c, name)), 64)
	if err != nil {
		return 0
	}
	return f
}
