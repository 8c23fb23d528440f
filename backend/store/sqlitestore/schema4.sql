-- Version 4: what many sessions have alike is kept once, sizes, rejects, sub-agents, and deletion in steps. docs/adr/0013-shared-blocks.md
-- says why. Rows and bodies stay where they are; steps after this one count the bytes of sessions that are
-- there, and mark them as dirty, so that projections find their parents.

-- Bodies that many sessions of a tenant have alike, each as one zstd frame: blocks with a negative pack refer to them. A body goes with
-- the last block that does.
CREATE TABLE shared_bodies (
  shared INTEGER PRIMARY KEY,
  tenant TEXT NOT NULL,
  id     BLOB NOT NULL,    -- SHA-256 of the body, which the store has checked
  raw    INTEGER NOT NULL, -- bytes when decompressed
  body   BLOB NOT NULL,
  UNIQUE (tenant, id)
) STRICT;
-- pack of blocks: above 0 a pack of the session, 0 an empty body, below 0 the body -pack of shared_bodies.
CREATE INDEX blocks_shared ON blocks (pack) WHERE pack < 0;

-- Bytes of rows and bodies as they came, before compression; of rows that replaced others both are counted. NULL: not counted yet.
ALTER TABLE sessions ADD COLUMN bytes INTEGER;

-- The session whose run spawned this one; empty for none.
ALTER TABLE summaries ADD COLUMN parent TEXT NOT NULL DEFAULT '';
CREATE INDEX summaries_by_parent ON summaries (parent) WHERE parent <> '';

-- The newest spans and log records that were not stored. No content.
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

-- Sessions that were deleted and are being erased, by their number. Whoever opens the file for writing, or deletes, goes on with it.
CREATE TABLE erasing (
  session INTEGER PRIMARY KEY,
  chat    TEXT,            -- its id while the tables of the agent guide may hold rows of it, else NULL
  erased  INTEGER NOT NULL -- 1: nothing is left but copies in the log
) STRICT;
