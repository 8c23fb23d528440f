-- From version 6 back to version 5, without loss: what goes is made of the rest again. `sqlite3 -bail FILE < down6.sql`, with every program
-- that has the file open stopped. docs/upgrade.md says when.
PRAGMA secure_delete = ON;
BEGIN IMMEDIATE;

CREATE TEMP TABLE only_from_version_6 (yes INTEGER CHECK (yes));
INSERT INTO only_from_version_6 SELECT user_version = 6 AND (SELECT application_id FROM pragma_application_id) = 1869898087 FROM pragma_user_version;
DROP TABLE only_from_version_6;

DROP INDEX summaries_open;
DROP INDEX summaries_by_fork;
ALTER TABLE summaries DROP COLUMN settled;
ALTER TABLE summaries DROP COLUMN heartbeat_ns;
ALTER TABLE summaries DROP COLUMN currency;
ALTER TABLE summaries DROP COLUMN cost;
ALTER TABLE summaries DROP COLUMN archived;
ALTER TABLE summaries DROP COLUMN title;
ALTER TABLE summaries DROP COLUMN forked_from;
PRAGMA user_version = 5;
COMMIT;
