PRAGMA application_id=1869898087;
PRAGMA user_version=7;
CREATE TABLE marks (
  last INTEGER NOT NULL
) STRICT;
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
CREATE TABLE rows (
  session      INTEGER NOT NULL,
  span         BLOB NOT NULL,
  trace        BLOB NOT NULL,
  kind         INTEGER NOT NULL, -- 1 run, 2 turn, 3 compaction, 4 permission evaluation, 5 tool call, 6 payload
  known        INTEGER NOT NULL, -- 0 live, 1 closed, 2 observed
  end_ns       INTEGER NOT NULL,
  run          TEXT NOT NULL,
  run_start_ns INTEGER NOT NULL,
  canonical    BLOB NOT NULL,
  PRIMARY KEY (session, span, trace)
) STRICT;
CREATE TABLE live_rows (
  session      INTEGER NOT NULL,
  span         BLOB NOT NULL,
  trace        BLOB NOT NULL,
  kind         INTEGER NOT NULL,
  known        INTEGER NOT NULL,
  end_ns       INTEGER NOT NULL,
  run          TEXT NOT NULL,
  run_start_ns INTEGER NOT NULL,
  canonical    BLOB NOT NULL,
  PRIMARY KEY (session, span, trace)
) STRICT;
CREATE TABLE session_traces (
  trace   BLOB NOT NULL,
  session INTEGER NOT NULL,
  PRIMARY KEY (trace, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_traces_by_session ON session_traces (session);
CREATE TABLE packs (
  pack    INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  raw     INTEGER NOT NULL, -- bytes when decompressed
  body    BLOB NOT NULL
) STRICT;
CREATE INDEX packs_by_session ON packs (session, raw);
CREATE TABLE blocks (
  session INTEGER NOT NULL,
  id      BLOB NOT NULL,    -- SHA-256 of the body; of a recipe the short id of what it makes and the beginning of its text's SHA-256
  recipe  INTEGER NOT NULL, -- 1: the text of a recipe
  size    INTEGER NOT NULL, -- original size of a body that was cut or withheld at the source, else 0
  pack    INTEGER NOT NULL, -- 0: the body is empty
  start   INTEGER NOT NULL, -- of the body in the decompressed pack
  length  INTEGER NOT NULL,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;
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
  parent       TEXT NOT NULL DEFAULT '',    -- the session whose run spawned this one; empty for none
  forked_from  TEXT NOT NULL DEFAULT '',    -- the session that it was forked from; empty for none
  title        TEXT NOT NULL DEFAULT '',    -- content: empty where none was captured
  archived     INTEGER NOT NULL DEFAULT 0,  -- 1: put away
  cost         REAL NOT NULL DEFAULT 0,     -- as the loop reported it
  currency     TEXT NOT NULL DEFAULT '',
  heartbeat_ns INTEGER NOT NULL DEFAULT 0,  -- of an open run; 0: none says that it lives
  settled      TEXT NOT NULL DEFAULT ''     -- the status once open runs count as dead
) STRICT;
CREATE INDEX summaries_by_parent ON summaries (parent) WHERE parent <> '';
CREATE INDEX summaries_by_fork ON summaries (forked_from) WHERE forked_from <> '';
CREATE INDEX summaries_open ON summaries (session) WHERE status IN ('busy', 'retrying', 'waiting_on_approval', 'waiting_on_user_input');
CREATE TABLE shared_bodies (
  shared INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id     BLOB NOT NULL,    -- SHA-256 of the body, which the store has checked
  raw    INTEGER NOT NULL, -- bytes when decompressed
  body   BLOB NOT NULL,
  UNIQUE (tenant, id)
) STRICT;
CREATE INDEX blocks_shared ON blocks (pack) WHERE pack < 0;
CREATE TABLE rejects (
  reject  INTEGER PRIMARY KEY, -- the newest is the greatest
  time_ns INTEGER NOT NULL,
  reason  TEXT NOT NULL,
  signal  TEXT NOT NULL,
  name    TEXT NOT NULL,
  service TEXT NOT NULL,
  tenant  TEXT NOT NULL,
  id      TEXT NOT NULL, -- of the session; empty: it does not say
  trace   BLOB,          -- NULL: unknown
  span    BLOB
) STRICT;
CREATE INDEX rejects_by_session ON rejects (tenant, id);
CREATE TABLE erasing (
  session INTEGER PRIMARY KEY,
  chat    TEXT,            -- its id while the tables of the agent guide may hold rows of it, else NULL
  erased  INTEGER NOT NULL -- 1: nothing is left but copies in the log
) STRICT;
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
  cost             REAL,             -- as the loop reported it
  currency         TEXT,
  request_messages INTEGER,
  request_bytes    INTEGER,
  tool_calls       INTEGER NOT NULL
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
  messages_after  INTEGER
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
INSERT INTO blocks VALUES (1,X'230D8358DC8E8890B4C58DEEB62912EE2F20357AE92A5CC861B98E68FE31ACB5',0,0,1,0,4);
INSERT INTO blocks VALUES (1,X'378BFCE5CDA2599A6CDA399F1CACEF861E4E575EC794744DCF0E55E9C4780633',0,99,0,0,0);
INSERT INTO blocks VALUES (1,X'771824DE42287642FA42BF10B9F6934D6FDC39B46253475C9402F9DBD9D799BE',1,0,2,0,19);
INSERT INTO blocks VALUES (1,X'BBDFF7B7B58DAC9D5FA0A0CB18DE97456485DCE1FCAC91C15DF7217469467EB8',0,0,-1,0,1400);
INSERT INTO blocks VALUES (1,X'C697C0B47E7225B74D41F27C3A3CA647AC4C8C19956703D8D37F10655F7D1110',0,0,2,19,250);
INSERT INTO chat_messages VALUES ('m0','b','user','{}',0,0);
INSERT INTO chat_parts VALUES ('p0','m0','b',0,'text','hi',NULL,NULL,0,0);
INSERT INTO chat_projected VALUES (2,4);
INSERT INTO chat_prompts VALUES (2,'959c5805d5c257bf3270f6fddfaaf04a72e02b5871d950154c42148369ee5378');
INSERT INTO chat_sessions VALUES ('b','coder',NULL,'{"provider_id":"p","model_id":"m"}',NULL,NULL,'[]','{}',0,0,0,0,0,0,0.5,1,2,NULL);
INSERT INTO compactions VALUES (1,'r',1700000000000000000,0,1700000000000000004,1700000000000000006,'summary','limit',9000,0,40,4);
INSERT INTO compactions VALUES (1,'r',1700000000000000000,NULL,1700000000000000007,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO live_rows VALUES (1,X'2FD3AF39542A86A4',X'BE94B770AD92E0757ECE16F482D65AE3',2,0,1700000000000003500,'run-0',1700000000000000000,X'0285026401BE94B770AD92E0757ECE16F482D65AE32FD3AF39542A86A4000D01680461636D6501610572756E2D308080D0E2C6BFCE972F060200F0AE0D0C04D8B60D092406080005636F6465720456C707000FCDF41C6F7075732D342D3676310B04A4137A310B4070097A2E737472696E677305020161000122243104020616180C0C00010E411901382073740102074D7973746572790B4201011842424242424204');
INSERT INTO marks VALUES (4);
INSERT INTO packs VALUES (1,1,4,X'28B52FFD2404210000626F64790F2D3D31');
INSERT INTO packs VALUES (2,1,269,X'28B52FFD640D0005010074016478676B336B496F646B492036203D323A61206C6F6E67015413032BE70887E5C2A2');
INSERT INTO permission_evaluations VALUES (1,'r',1700000000000000000,0,1700000000000000005,12,'bash','deny','project');
INSERT INTO permission_evaluations VALUES (1,'r',1700000000000000000,NULL,1700000000000000006,NULL,NULL,NULL,NULL);
INSERT INTO rejects VALUES (1,1700000000000000000,'no_session','span','session.turn','coder','acme','a',X'01000000000000000000000000000000',X'0200000000000000');
INSERT INTO rows VALUES (1,X'58039A0B228CF5AB',X'BE94B770AD92E0757ECE16F482D65AE3',2,2,1700000000000001500,'run-0',1700000000000000000,X'0285026401BE94B770AD92E0757ECE16F482D65AE358039A0B228CF5AB000D01680461636D6501610572756E2D308080D0E2C6BFCE972F020202D08F0D0C04B8970D092402040005636F6465720456C707000FCDF41C6F7075732D342D3676310B04A4137A310B4070097A2E737472696E677305020161000122243104020616180C0C00010E411901382073740102074D7973746572790B4201011842424242424204');
INSERT INTO rows VALUES (1,X'770F098A51C05893',X'BE94B770AD92E0757ECE16F482D65AE3',2,2,1700000000000002500,'run-0',1700000000000000000,X'0285026401BE94B770AD92E0757ECE16F482D65AE3770F098A51C05893000D01680461636D6501610572756E2D308080D0E2C6BFCE972F040202A09F0D0C0488A70D092404060005636F6465720456C707000FCDF41C6F7075732D342D3676310B04A4137A310B4070097A2E737472696E677305020161000122243104020616180C0C00010E411901382073740102074D7973746572790B4201011842424242424204');
INSERT INTO rows VALUES (2,X'10B15002E4E8BF89',X'BE94B770AD92E0757ECE16F482D65AE3',2,2,1700000000000004500,'run-0',1700000000000000000,X'0281026401BE94B770AD92E0757ECE16F482D65AE310B15002E4E8BF890011015401620572756E2D308080D0E2C6BFCE972F080202C0BE0D0C04A8C60D0924080A0005636F6465720456C307000FCDF01C6F7075732D342D36762D0B04A4137A2D0B4070097A2E737472696E677305020161000122203104020616140C0C00010E411901382073740102074D7973746572790B4201011842424242424204');
INSERT INTO rows VALUES (1,X'1392239BC91CD46B',X'BE94B770AD92E0757ECE16F482D65AE3',2,2,1700000000000005500,'run-0',1700000000000000000,X'02AA026401BE94B770AD92E0757ECE16F482D65AE31392239BC91CD46B000D01680461636D6501610572756E2D308080D0E2C6BFCE972F0A020290CE0D0C04F8D50D09240A0C0005636F6465720456C707000FCDF41C6F7075732D342D3676310B04A4137A310B4070097A2E737472696E677305020161000222243104020616180C0C00010E411901082073741EEE301921781275395F337437574E724A302073797374656D0102074D7973746572790B4201011842424242424204');
INSERT INTO session_traces VALUES (X'BE94B770AD92E0757ECE16F482D65AE3',1);
INSERT INTO session_traces VALUES (X'BE94B770AD92E0757ECE16F482D65AE3',2);
INSERT INTO sessions VALUES (1,'acme','a',4,4,1700000100999999999,2754);
INSERT INTO sessions VALUES (2,'','b',2,1,9223372036854775807,257);
INSERT INTO shared_bodies VALUES (1,'acme',X'BBDFF7B7B58DAC9D5FA0A0CB18DE97456485DCE1FCAC91C15DF7217469467EB8',1400,X'28B52FFD6478047D00003870726F6D707420015407032E6E29318B9546');
INSERT INTO summaries VALUES (1,'idle','coder','c1','m','phi-core',1700000000000000001,1700000100999999999,1,2,3,4,5,6,7,8,9,10,11,'parent','f1','Ranges',1,0.125,'USD',15000000000,'error');
INSERT INTO system_prompts VALUES ('959c5805d5c257bf3270f6fddfaaf04a72e02b5871d950154c42148369ee5378','be kind');
INSERT INTO tool_calls VALUES (1,'r',1700000000000000000,0,'c1',1700000000000000002,1700000000000000009,'coder','claude-opus-4-6','bash','error',1);
INSERT INTO tool_calls VALUES (1,'r',1700000000000000000,NULL,'',1700000000000000003,NULL,NULL,NULL,NULL,NULL,0);
INSERT INTO turns VALUES (1,'r',1700000000000000000,0,1700000000000000001,1700000005000000000,4000000000,700000000,'coder','anthropic','claude-opus-4-6','claude-opus-4-6-20260101','tool_use',1,'rate_limit',2,1000,200,0,900,50,0.0125,'USD',3,1099511627776,2);
INSERT INTO turns VALUES (1,'r',1700000000000000000,1,1700000001000000000,NULL,NULL,NULL,NULL,NULL,'gpt',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,0);
