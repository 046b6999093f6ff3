-- A store that is a copy of another one's documents, kept current by a service (mc2 serve --follow): nobody else changes
-- documents in it, and its revisions are the other's. Tokens and history stay its own, so tokens have a number of their own
-- now, which rises with every change of one; services look at tokens again when it moves. `identity` is drawn once for
-- each store: copies of it have the same, and a replica takes no other's documents.

CREATE TABLE replica (
  id     INTEGER PRIMARY KEY CHECK (id = 1),
  leader TEXT NOT NULL -- the URL of the service that it follows, or followed last
) STRICT;

ALTER TABLE revision ADD COLUMN token_value INTEGER NOT NULL DEFAULT 1;
ALTER TABLE revision ADD COLUMN identity INTEGER NOT NULL DEFAULT 0;
UPDATE revision SET identity = random();

DROP TRIGGER token_added;
DROP TRIGGER token_changed;
DROP TRIGGER token_removed;
CREATE TRIGGER token_added AFTER INSERT ON token BEGIN UPDATE revision SET token_value = token_value + 1; END;
CREATE TRIGGER token_changed AFTER UPDATE ON token BEGIN UPDATE revision SET token_value = token_value + 1; END;
CREATE TRIGGER token_removed AFTER DELETE ON token BEGIN UPDATE revision SET token_value = token_value + 1; END;
