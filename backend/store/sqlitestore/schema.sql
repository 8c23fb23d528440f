-- The tables of a database. Times are unix nanoseconds. docs/adr/0004-store-keys.md says why the keys are as they are.

-- One row: the last dirty mark given out, over all sessions. No mark is used twice.
CREATE TABLE marks (
  last INTEGER NOT NULL
) STRICT;
INSERT INTO marks VALUES (0);

CREATE TABLE sessions (
  session   INTEGER PRIMARY KEY AUTOINCREMENT, -- what the other tables call it; never used again
  tenant    TEXT NOT NULL,
  id        TEXT NOT NULL,
  mark      INTEGER NOT NULL, -- grows with each batch that touches the session
  projected INTEGER NOT NULL, -- mark of the last projection; the session is dirty while mark > projected
  last_ns   INTEGER NOT NULL, -- of the last projection; the greatest integer when there was none
  bytes     INTEGER, -- of rows and bodies as they came, before compression; of rows that replaced others both are counted
  UNIQUE (tenant, id)
) STRICT;
CREATE INDEX sessions_by_last ON sessions (tenant, last_ns DESC, id);
CREATE INDEX sessions_dirty ON sessions (mark) WHERE mark > projected;

-- One row per span, the newest copy of one that is open. The other columns are the key and what decides which copy stays; canonical holds
-- everything (backend/session/README.md): canonical bytes as they are (the first byte is 1) or compressed with the dictionary rows.dict2: behind a byte 2 as an S2 block, behind a
-- byte 3 as a zstd frame.
CREATE TABLE rows (
  session   INTEGER NOT NULL,
  span      BLOB NOT NULL,
  trace     BLOB NOT NULL,
  known     INTEGER NOT NULL, -- 0 live, 1 closed, 2 observed
  end_ns    INTEGER NOT NULL,
  canonical BLOB NOT NULL,
  PRIMARY KEY (session, span, trace)
) STRICT;

-- Which sessions hold spans of a trace: a few rows per session, where an index over all spans would cost every insert.
CREATE TABLE session_traces (
  trace   BLOB NOT NULL,
  session INTEGER NOT NULL,
  PRIMARY KEY (trace, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_traces_by_session ON session_traces (session);

-- Bodies of one session as one zstd frame: of each its length as a varint, and its bytes. The id of a body is its SHA-256.
CREATE TABLE packs (
  session INTEGER NOT NULL,
  pack    INTEGER NOT NULL, -- counts in its session
  raw     INTEGER NOT NULL, -- bytes when decompressed
  body    BLOB NOT NULL,
  PRIMARY KEY (session, pack)
) STRICT, WITHOUT ROWID;

-- Which bodies are in the packs, so that each is there once: the first 16 bytes of their ids.
CREATE TABLE blocks (
  session INTEGER NOT NULL,
  id      BLOB NOT NULL,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

-- Bodies that were cut or withheld at the source. A body that also came whole is in packs; its row here is ignored.
CREATE TABLE withheld (
  session INTEGER NOT NULL,
  id      BLOB NOT NULL,    -- SHA-256 of the whole body
  size    INTEGER NOT NULL, -- of the whole body
  body    BLOB NOT NULL,    -- its beginning
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;

-- Projection: may lag, may be deleted.
CREATE TABLE summaries (
  session     INTEGER PRIMARY KEY,
  status      TEXT NOT NULL,
  agent       TEXT NOT NULL,
  agent_id    TEXT NOT NULL,
  model       TEXT NOT NULL,
  dialect     TEXT NOT NULL,
  start_ns    INTEGER, -- NULL: unknown
  last_ns     INTEGER,
  runs        INTEGER NOT NULL,
  turns       INTEGER NOT NULL,
  tool_calls  INTEGER NOT NULL,
  errors      INTEGER NOT NULL,
  denied      INTEGER NOT NULL,
  defects     INTEGER NOT NULL,
  input       INTEGER NOT NULL,
  output      INTEGER NOT NULL,
  reasoning   INTEGER NOT NULL,
  cache_read  INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  lower_bound INTEGER NOT NULL, -- 1: the true counts are these or more
  parent       TEXT NOT NULL DEFAULT '',    -- the session whose run spawned this one; empty for none
  forked_from  TEXT NOT NULL DEFAULT '',    -- the session that it was forked from; empty for none
  title        TEXT NOT NULL DEFAULT '',    -- content: empty where none was captured
  archived     INTEGER NOT NULL DEFAULT 0,  -- 1: put away
  cost         REAL NOT NULL DEFAULT 0,     -- as the loop reported it
  currency     TEXT NOT NULL DEFAULT '',
  heartbeat_ns INTEGER NOT NULL DEFAULT 0,  -- of an open run; 0: none says that it lives
  settled      TEXT NOT NULL DEFAULT '',    -- the status once open runs count as dead
  mapped       TEXT NOT NULL DEFAULT '',    -- the version of the rules that read records of other programs; empty for none
  part         INTEGER NOT NULL DEFAULT 0   -- 1: its rows belong to the session parent, and lists leave it out
) STRICT;
CREATE INDEX summaries_by_parent ON summaries (parent) WHERE parent <> '';
CREATE INDEX summaries_by_fork ON summaries (forked_from) WHERE forked_from <> '';
-- Those of which something is open: few, and what is asked for most.
CREATE INDEX summaries_open ON summaries (session) WHERE status IN ('busy', 'retrying', 'waiting_on_approval', 'waiting_on_user_input');

-- Sessions that were deleted and are being erased, by their number. Whoever opens the file for writing, or deletes, goes on with it.
CREATE TABLE erasing (
  session INTEGER PRIMARY KEY
) STRICT;

-- Figures of turns, tool calls, compactions and permission evaluations, for statistics in plain SQL (docs/stats.md). They are a
-- projection, like summaries: what a session's tree holds, each thing once, whatever was sent twice; they may lag and be deleted. No content.
-- Times are unix nanoseconds. NULL: not known. end_ns is known where the time from the start to it was measured. Sessions that are
-- deleted and not yet erased still have rows here: join sessions.

CREATE TABLE turns (
  session          INTEGER NOT NULL, -- as in sessions
  run              TEXT NOT NULL,
  run_start_ns     INTEGER NOT NULL,
  turn             INTEGER NOT NULL, -- index as the loop counts
  start_ns         INTEGER NOT NULL,
  end_ns           INTEGER,
  model_call_ns    INTEGER,          -- time of the model call alone
  first_chunk_ns   INTEGER,          -- time to the first piece of the reply
  agent            TEXT,
  provider         TEXT,
  model            TEXT,             -- asked
  response_model   TEXT,             -- that answered
  stop_reason      TEXT,
  failed           INTEGER NOT NULL,
  error_type       TEXT,
  attempts         INTEGER,
  input            INTEGER,          -- tokens; cached ones included
  output           INTEGER,          -- reasoning included
  reasoning        INTEGER,
  cache_read       INTEGER,
  cache_write      INTEGER,
  lower_bound      INTEGER NOT NULL, -- 1: the true counts are these or more
  purpose          TEXT,             -- utility: no part of the conversation; NULL: one
  cost             REAL,             -- as the loop reported it
  currency         TEXT,
  request_messages INTEGER,
  request_bytes    INTEGER,
  tool_calls       INTEGER NOT NULL,
  trace            TEXT              -- of the run, in hexadecimal
) STRICT;
CREATE INDEX turns_by_session ON turns (session);
CREATE INDEX turns_by_start ON turns (start_ns);

CREATE TABLE tool_calls (
  session      INTEGER NOT NULL,
  run          TEXT NOT NULL,
  run_start_ns INTEGER NOT NULL,
  turn         INTEGER,          -- NULL: outside any turn, here and below
  call         TEXT NOT NULL,
  start_ns     INTEGER NOT NULL,
  end_ns       INTEGER,
  agent        TEXT,
  model        TEXT,             -- of the turn
  tool         TEXT,
  outcome      TEXT,             -- ok, error, denied, skipped, cancelled
  failed       INTEGER NOT NULL
) STRICT;
CREATE INDEX tool_calls_by_session ON tool_calls (session);
CREATE INDEX tool_calls_by_start ON tool_calls (start_ns);

CREATE TABLE compactions (
  session         INTEGER NOT NULL,
  run             TEXT NOT NULL,
  run_start_ns    INTEGER NOT NULL,
  turn            INTEGER,
  start_ns        INTEGER NOT NULL,
  end_ns          INTEGER,
  kind            TEXT,             -- summary, prune, revert
  "trigger"       TEXT,
  input_tokens    INTEGER,
  output_tokens   INTEGER,
  messages_before INTEGER,
  messages_after  INTEGER,
  used_input      INTEGER,          -- tokens of its own model calls
  used_output     INTEGER,
  lower_bound     INTEGER NOT NULL,
  cost            REAL,             -- of its own model calls, as the loop reported it
  currency        TEXT
) STRICT;
CREATE INDEX compactions_by_session ON compactions (session);
CREATE INDEX compactions_by_start ON compactions (start_ns);

CREATE TABLE permission_evaluations (
  session      INTEGER NOT NULL,
  run          TEXT NOT NULL,
  run_start_ns INTEGER NOT NULL,
  turn         INTEGER,
  at_ns        INTEGER NOT NULL,
  wait_ns      INTEGER,          -- for an answer
  tool         TEXT,
  action       TEXT,             -- allow, deny, ask
  source       TEXT              -- who decided
) STRICT;
CREATE INDEX permission_evaluations_by_session ON permission_evaluations (session);
CREATE INDEX permission_evaluations_by_at ON permission_evaluations (at_ns);

-- The tables of the agent guide, with plain content, so that a bare sqlite3 reads sessions (backend/session/export/README.md).
-- The worker that makes summaries fills them, where the store was opened with WithChatTables, with the rows that
-- `otelagent export --format json` writes. No program of otelagent reads them. Times are unix milliseconds. Sessions of a tenant are not in them: they have no column for it.

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
CREATE TRIGGER chat_prompts_deleted AFTER DELETE ON chat_prompts BEGIN
  DELETE FROM system_prompts WHERE digest = old.digest AND NOT EXISTS (SELECT 1 FROM chat_prompts WHERE digest = old.digest);
END;
