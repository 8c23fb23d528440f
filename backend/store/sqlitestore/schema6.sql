-- Version 6: what lists of sessions filter by and show besides (docs/upgrade.md). Steps after this one mark all sessions as dirty, so that
-- projections fill it.

ALTER TABLE summaries ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';       -- the session that it was forked from; empty for none
ALTER TABLE summaries ADD COLUMN title TEXT NOT NULL DEFAULT '';             -- content: empty where none was captured
ALTER TABLE summaries ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;        -- 1: put away
ALTER TABLE summaries ADD COLUMN cost REAL NOT NULL DEFAULT 0;               -- as the loop reported it
ALTER TABLE summaries ADD COLUMN currency TEXT NOT NULL DEFAULT '';
ALTER TABLE summaries ADD COLUMN heartbeat_ns INTEGER NOT NULL DEFAULT 0;    -- of an open run; 0: none says that it lives
ALTER TABLE summaries ADD COLUMN settled TEXT NOT NULL DEFAULT '';           -- the status once open runs count as dead
CREATE INDEX summaries_by_fork ON summaries (forked_from) WHERE forked_from <> '';
-- Those of which something is open: few, and what is asked for most.
CREATE INDEX summaries_open ON summaries (session) WHERE status IN ('busy', 'retrying', 'waiting_on_approval', 'waiting_on_user_input');
