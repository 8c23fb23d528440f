-- Version 1. Times are unix nanoseconds. docs/adr/0004-store-keys.md says why the keys are as they are.

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
  UNIQUE (tenant, id)
) STRICT;
CREATE INDEX sessions_by_last ON sessions (tenant, last_ns DESC, id);
CREATE INDEX sessions_dirty ON sessions (mark) WHERE mark > projected;

-- One row per span. The columns before canonical are there for SQL; canonical holds everything (docs/formats.md section 3).
CREATE TABLE rows (
  session      INTEGER NOT NULL,
  span         BLOB NOT NULL,
  trace        BLOB NOT NULL,
  parent       BLOB,             -- NULL: none
  kind         INTEGER NOT NULL, -- 1 run, 2 turn, 3 compaction, 4 permission evaluation, 5 tool call, 6 payload
  known        INTEGER NOT NULL, -- 0 live, 1 closed, 2 observed
  start_ns     INTEGER NOT NULL,
  end_ns       INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  status       TEXT,             -- run status, stop reason of a turn, outcome of a tool call, action of a permission evaluation
  run          TEXT NOT NULL,
  run_start_ns INTEGER NOT NULL,
  turn         INTEGER,          -- NULL: the run itself
  model        TEXT,
  tool         TEXT,
  input        INTEGER,          -- usage of a turn, in tokens
  output       INTEGER,
  reasoning    INTEGER,
  cache_read   INTEGER,
  cache_write  INTEGER,
  canonical    BLOB NOT NULL,
  PRIMARY KEY (session, span, trace)
) STRICT;

-- The same for spans that were sent while open. One that also stands in rows is superseded: readers skip it, projections
-- remove it.
CREATE TABLE live_rows (
  session      INTEGER NOT NULL,
  span         BLOB NOT NULL,
  trace        BLOB NOT NULL,
  parent       BLOB,
  kind         INTEGER NOT NULL,
  known        INTEGER NOT NULL,
  start_ns     INTEGER NOT NULL,
  end_ns       INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  status       TEXT,
  run          TEXT NOT NULL,
  run_start_ns INTEGER NOT NULL,
  turn         INTEGER,
  model        TEXT,
  tool         TEXT,
  input        INTEGER,
  output       INTEGER,
  reasoning    INTEGER,
  cache_read   INTEGER,
  cache_write  INTEGER,
  canonical    BLOB NOT NULL,
  PRIMARY KEY (session, span, trace)
) STRICT;

-- Which sessions hold spans of a trace: a few rows per session, where an index over all spans would cost every insert.
CREATE TABLE session_traces (
  trace   BLOB NOT NULL,
  session INTEGER NOT NULL,
  PRIMARY KEY (trace, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_traces_by_session ON session_traces (session);

-- With rowid: WITHOUT ROWID would send large bodies to overflow pages.
CREATE TABLE blocks (
  session INTEGER NOT NULL,
  id      BLOB NOT NULL,    -- SHA-256 of the body
  codec   INTEGER NOT NULL, -- 0: body as it is
  size    INTEGER NOT NULL, -- original size of a body that was cut or withheld at the source, else 0
  body    BLOB NOT NULL,
  PRIMARY KEY (session, id)
) STRICT;

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
  cache_write INTEGER NOT NULL
) STRICT;
