-- From version 4 back to version 3, without loss but of rejects, sizes and parents: `sqlite3 -bail FILE < down4.sql`, with every program that
-- has the file open stopped. docs/upgrade.md says when.
PRAGMA secure_delete = ON;
BEGIN IMMEDIATE;

CREATE TEMP TABLE only_from_version_4 (yes INTEGER CHECK (yes));
INSERT INTO only_from_version_4 SELECT user_version = 4 AND (SELECT application_id FROM pragma_application_id) = 1869898087 FROM pragma_user_version;
DROP TABLE only_from_version_4;

-- What was being erased.
DELETE FROM rows WHERE session IN (SELECT session FROM erasing);
DELETE FROM live_rows WHERE session IN (SELECT session FROM erasing);
DELETE FROM session_traces WHERE session IN (SELECT session FROM erasing);
DELETE FROM blocks WHERE session IN (SELECT session FROM erasing);
DELETE FROM packs WHERE session IN (SELECT session FROM erasing);
DELETE FROM summaries WHERE session IN (SELECT session FROM erasing);
DELETE FROM chat_parts WHERE session_id IN (SELECT chat FROM erasing);
DELETE FROM chat_messages WHERE session_id IN (SELECT chat FROM erasing);
DELETE FROM chat_prompts WHERE session IN (SELECT session FROM erasing);
DELETE FROM system_prompts WHERE digest NOT IN (SELECT digest FROM chat_prompts);
DELETE FROM chat_projected WHERE session IN (SELECT session FROM erasing);
DROP TABLE erasing;

-- Each session gets a pack of its own of what it shared: a shared body is a frame as packs have them.
CREATE TEMP TABLE own AS SELECT session, id, -pack AS shared,
    (SELECT ifnull(max(pack), 0) FROM packs) + row_number() OVER (ORDER BY session, id) AS pack
  FROM blocks WHERE pack < 0;
INSERT INTO packs (pack, session, raw, body) SELECT o.pack, o.session, h.raw, h.body FROM own o JOIN shared_bodies h ON h.shared = o.shared;
UPDATE blocks SET pack = o.pack FROM own o WHERE blocks.session = o.session AND blocks.id = o.id;
DROP TABLE own;
DROP INDEX blocks_shared;
DROP TABLE shared_bodies;

DROP TABLE rejects;
DROP INDEX summaries_by_parent;
ALTER TABLE summaries DROP COLUMN parent;
ALTER TABLE sessions DROP COLUMN bytes;
PRAGMA user_version = 3;
COMMIT;
