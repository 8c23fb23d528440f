-- Version 3: the tables of the agent guide, with plain content, so that a bare sqlite3 reads sessions (docs/formats.md, "Guide exports").
-- They are a projection: filled where the store was opened with WithChatTables, from the same rows that `otelagent export --format json`
-- writes; never read by our own programs. Times are unix milliseconds. Sessions of a tenant are not in them: they have no column for it.

CREATE TABLE chat_sessions (
  id                TEXT PRIMARY KEY,
  agent             TEXT NOT NULL,
  workspace_root    TEXT,
  model_json        TEXT NOT NULL,
  parent_id         TEXT,
  parent_message_id TEXT,
  permissions_json  TEXT NOT NULL DEFAULT '[]',
  metadata_json     TEXT NOT NULL DEFAULT '{}',
  prompt_tokens     INTEGER NOT NULL DEFAULT 0, -- these five: what is in the model's context, no sum of what was billed
  completion_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens  INTEGER NOT NULL DEFAULT 0,
  cache_read        INTEGER NOT NULL DEFAULT 0,
  cache_write       INTEGER NOT NULL DEFAULT 0,
  total_tokens      INTEGER NOT NULL DEFAULT 0,
  cost_usd          REAL NOT NULL DEFAULT 0,
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL,
  archived_at       INTEGER
) STRICT;
CREATE INDEX chat_sessions_by_agent ON chat_sessions (agent, updated_at);
CREATE INDEX chat_sessions_by_workspace ON chat_sessions (workspace_root, updated_at);
CREATE INDEX chat_sessions_by_parent ON chat_sessions (parent_id);
CREATE INDEX chat_sessions_by_archived ON chat_sessions (archived_at);

CREATE TABLE chat_messages (
  id            TEXT PRIMARY KEY,
  session_id    TEXT NOT NULL REFERENCES chat_sessions (id) ON DELETE CASCADE,
  role          TEXT NOT NULL,
  metadata_json TEXT NOT NULL DEFAULT '{}',
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_messages_by_session ON chat_messages (session_id, created_at);

CREATE TABLE chat_parts (
  id           TEXT PRIMARY KEY,
  message_id   TEXT NOT NULL REFERENCES chat_messages (id) ON DELETE CASCADE,
  session_id   TEXT NOT NULL,
  "index"      INTEGER NOT NULL,
  type         TEXT NOT NULL,
  data_json    TEXT NOT NULL,
  tool_call_id TEXT,
  tool_state   TEXT,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_parts_by_message ON chat_parts (message_id, "index");
CREATE INDEX chat_parts_by_session ON chat_parts (session_id, "index");
CREATE INDEX chat_parts_by_call ON chat_parts (tool_call_id);

CREATE TABLE system_prompts (
  digest TEXT PRIMARY KEY, -- lower-case hex SHA-256 of body
  body   TEXT NOT NULL
) STRICT;

-- Ours: of which mark the rows of a session are, and which prompts it uses.
CREATE TABLE chat_projected (
  session INTEGER PRIMARY KEY,
  mark    INTEGER NOT NULL
) STRICT;
CREATE TABLE chat_prompts (
  session INTEGER NOT NULL,
  digest  TEXT NOT NULL,
  PRIMARY KEY (session, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX chat_prompts_by_digest ON chat_prompts (digest);
