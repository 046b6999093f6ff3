-- How a service did over time: what its counters and the kept plans said at a moment. The table holds the last 8192 rows.
-- It belongs to this store: it is neither exported nor merged, and is no change that anybody follows.

CREATE TABLE history (
  moment   TEXT PRIMARY KEY, -- ISO 8601 UTC, in whole seconds
  document TEXT NOT NULL     -- an object of numbers by name (schemas/history.schema.json, points)
) STRICT;
CREATE TRIGGER history_bounded AFTER INSERT ON history BEGIN
  DELETE FROM history WHERE moment <= (SELECT moment FROM history ORDER BY moment DESC LIMIT 1 OFFSET 8192);
END;
