-- How often what answers questions has changed: a plan or a model was added, replaced or removed, by whatever program.
-- The service keeps answers until it moves, and hands it out as the epoch of an answer.

CREATE TABLE revision (
  id    INTEGER PRIMARY KEY CHECK (id = 1),
  value INTEGER NOT NULL
) STRICT;
INSERT INTO revision (id, value) VALUES (1, 1);

CREATE TRIGGER plan_added AFTER INSERT ON plan BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER plan_replaced AFTER UPDATE ON plan BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER plan_removed AFTER DELETE ON plan BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER model_added AFTER INSERT ON model BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER model_replaced AFTER UPDATE ON model BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER model_removed AFTER DELETE ON model BEGIN UPDATE revision SET value = value + 1; END;

CREATE INDEX model_digest ON model (digest);
