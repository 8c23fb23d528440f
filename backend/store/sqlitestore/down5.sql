-- From version 5 back to version 4, without loss: what goes is made of the rest again. `sqlite3 -bail FILE < down5.sql`, with every program
-- that has the file open stopped. docs/upgrade.md says when.
PRAGMA secure_delete = ON;
BEGIN IMMEDIATE;

CREATE TEMP TABLE only_from_version_5 (yes INTEGER CHECK (yes));
INSERT INTO only_from_version_5 SELECT user_version = 5 AND (SELECT application_id FROM pragma_application_id) = 1869898087 FROM pragma_user_version;
DROP TABLE only_from_version_5;

DROP TABLE turns;
DROP TABLE tool_calls;
DROP TABLE compactions;
DROP TABLE permission_evaluations;
PRAGMA user_version = 4;
COMMIT;
