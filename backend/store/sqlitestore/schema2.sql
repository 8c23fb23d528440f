-- Version 2: bodies are compressed in stretches (docs/adr/0007-compression.md says why). What stood in blocks is moved into
-- packs when the file is opened for writing, in steps; until the last of them the table is called blocks_v1.
--
-- The column canonical of rows and live_rows holds canonical bytes as they are (the first byte is 1) or compressed with the
-- dictionary rows.dict2: behind a byte 2 as an S2 block, behind a byte 3 as a zstd frame. Rows of version 1 stay as they were
-- written.
ALTER TABLE blocks RENAME TO blocks_v1;

-- Bodies of one session, one behind the other, as one zstd frame.
CREATE TABLE packs (
  pack    INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  raw     INTEGER NOT NULL, -- bytes when decompressed
  body    BLOB NOT NULL
) STRICT;
CREATE INDEX packs_by_session ON packs (session, raw);

-- Where each body is. These are small: without rowid they stand in the index itself.
CREATE TABLE blocks (
  session INTEGER NOT NULL,
  id      BLOB NOT NULL,    -- SHA-256 of the body
  size    INTEGER NOT NULL, -- original size of a body that was cut or withheld at the source, else 0
  pack    INTEGER NOT NULL, -- 0: the body is empty
  start   INTEGER NOT NULL, -- of the body in the decompressed pack
  length  INTEGER NOT NULL,
  PRIMARY KEY (session, id)
) STRICT, WITHOUT ROWID;
