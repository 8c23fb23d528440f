-- Version 5: figures of turns, tool calls, compactions and permission evaluations, for statistics in plain SQL (docs/stats.md). They are a
-- projection, like summaries: what a session's tree holds, each thing once, whatever was sent twice; they may lag and be deleted. No content.
-- Times are unix nanoseconds. NULL: not known. end_ns is known where the time from the start to it was measured. Sessions that are
-- deleted and not yet erased still have rows here: join sessions. Steps after this one mark all sessions as dirty, so that projections fill them.

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
