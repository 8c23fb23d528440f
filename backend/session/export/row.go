package export

import "encoding/json"

// The rows of the agent guide, with the columns of its tables in their order. Times are unix milliseconds. Columns
// whose name ends in JSON hold the text of a JSON value. A nil pointer is SQL's and JSON's null.

// SessionRow is a row of chat_sessions.
type SessionRow struct {
	ID               string  `json:"id"`
	Agent            string  `json:"agent"`
	WorkspaceRoot    *string `json:"workspace_root"`
	ModelJSON        string  `json:"model_json"`
	ParentID         *string `json:"parent_id"`
	ParentMessageID  *string `json:"parent_message_id"`
	PermissionsJSON  string  `json:"permissions_json"`
	MetadataJSON     string  `json:"metadata_json"`
	PromptTokens     int64   `json:"prompt_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	ReasoningTokens  int64   `json:"reasoning_tokens"`
	CacheRead        int64   `json:"cache_read"`
	CacheWrite       int64   `json:"cache_write"`
	TotalTokens      int64   `json:"total_tokens"`
	CostUSD          float64 `json:"cost_usd"`
	CreatedAt        int64   `json:"created_at"`
	UpdatedAt        int64   `json:"updated_at"`
	ArchivedAt       *int64  `json:"archived_at"`
}

// MessageRow is a row of chat_messages. Its role is user, assistant or system.
type MessageRow struct {
	ID           string `json:"id"`
	SessionID    string `json:"session_id"`
	Role         string `json:"role"`
	MetadataJSON string `json:"metadata_json"`
	CreatedAt    int64  `json:"created_at"`
	UpdatedAt    int64  `json:"updated_at"`
}

// PartRow is a row of chat_parts.
type PartRow struct {
	ID         string  `json:"id"`
	MessageID  string  `json:"message_id"`
	SessionID  string  `json:"session_id"`
	Index      int64   `json:"index"`
	Type       string  `json:"type"`
	DataJSON   string  `json:"data_json"`
	ToolCallID *string `json:"tool_call_id"`
	ToolState  *string `json:"tool_state"`
	CreatedAt  int64   `json:"created_at"`
	UpdatedAt  int64   `json:"updated_at"`
}

// RowType is the type of a row, as the lines of JSONL call it.
type RowType string

// The row types: the three of the guide, then those for content that these have no column for.
const (
	RowSession      RowType = "session"
	RowMessage      RowType = "message"
	RowPart         RowType = "part"
	RowSystemPrompt RowType = "system_prompt"
	RowToolCatalog  RowType = "tool_catalog"
	RowPermission   RowType = "permission"
	RowDefect       RowType = "defect"
	// rowDocument is a member of a document other than session and messages; Digest is its key.
	rowDocument RowType = "document"
)

// Row is one row of a session. One of Session, Message and Part is set, by Type; other types have JSON alone.
type Row struct {
	Type    RowType
	Session *SessionRow
	Message *MessageRow
	Part    *PartRow
	// JSON is the row as an object on one line. It is valid until the next row.
	JSON []byte
	// Further are other members of its line in the source, as an object; nil: none.
	Further []byte
	// Digest and Body are those of a system prompt or tool catalogue.
	Digest, Body string

	cells *cells // of a part, and of a message without one, for CSV
}

// jsonColumns are the columns that hold JSON, and their value where they are absent.
var jsonColumns = map[string]string{"model": "{}", "permissions": "[]", "metadata": "{}", "data": "{}"}

// parse reads the columns of JSON. A source may hold parsed values where a column holds JSON, under its name with and
// without _json. A column of another type than it should have is absent. It reports whether JSON is an object.
func (r *Row) parse() bool {
	var cols map[string]json.RawMessage
	if json.Unmarshal(r.JSON, &cols) != nil || cols == nil {
		return false
	}
	for name, absent := range jsonColumns {
		v := valueOf(cols[name+"_json"])
		if v == nil {
			v = valueOf(cols[name])
		}
		switch {
		case v == nil:
			v = quote(absent)
		case v[0] != '"':
			v = quote(string(v))
		}
		cols[name+"_json"] = v
	}
	var into any
	switch r.Type {
	case RowSession:
		r.Session = &SessionRow{}
		into = r.Session
	case RowMessage:
		r.Message = &MessageRow{}
		into = r.Message
	case RowPart:
		r.Part = &PartRow{}
		into = r.Part
	}
	_ = json.Unmarshal(encode(cols), into) // reads the columns after one that does not fit
	return true
}
