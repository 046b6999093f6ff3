-- What became of documents, for whoever follows a store: one row a change, under the revision that it made. The table holds
-- the last 16384 changes; its first row is how far back it tells. Whoever has fallen behind that takes everything anew.
-- Every change raises the revision now, those of samples and measurements included. A fingerprint has the revision of the
-- last change to a document of its machine, and no two the same: what is answered of a machine is the same until it moves.

CREATE TABLE change (
  revision           INTEGER PRIMARY KEY, -- of the store, after it
  table_name         TEXT NOT NULL,       -- of the document; '' in the row that only says from where on changes are told
  is_removal         INTEGER NOT NULL,    -- 0: the document was kept, in place of one under the same key if there was one
  fingerprint_digest TEXT NOT NULL,
  kind               TEXT NOT NULL,
  m                  INTEGER NOT NULL,
  n                  INTEGER NOT NULL,
  k                  INTEGER NOT NULL,
  dtype              TEXT NOT NULL,
  world_size         INTEGER NOT NULL,
  purpose            TEXT NOT NULL,       -- '' outside the table of plans
  digest             TEXT NOT NULL,
  row_id             INTEGER NOT NULL,    -- in its table
  nonce              INTEGER NOT NULL     -- drawn anew: the same one under the same revision is the same change
) STRICT;

ALTER TABLE fingerprint ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
UPDATE revision SET value = value + (SELECT count(*) FROM fingerprint);
UPDATE fingerprint SET revision = (SELECT value FROM revision) - (SELECT count(*) FROM fingerprint AS later
  WHERE later.id > fingerprint.id);
INSERT INTO change SELECT value, '', 0, '', '', 0, 0, 0, '', 0, '', '', 0, random() & 9223372036854775807 FROM revision;

CREATE TRIGGER change_noted AFTER INSERT ON change BEGIN
  DELETE FROM change WHERE revision <= NEW.revision - 16384;
  UPDATE fingerprint SET revision = NEW.revision WHERE digest = NEW.fingerprint_digest;
END;

DROP TRIGGER plan_added;
DROP TRIGGER plan_replaced;
DROP TRIGGER plan_removed;
DROP TRIGGER model_added;
DROP TRIGGER model_replaced;
DROP TRIGGER model_removed;

CREATE TRIGGER sample_batch_kept AFTER INSERT ON sample_batch BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'sample_batch', 0, NEW.fingerprint_digest, NEW.kind, NEW.m, NEW.n, NEW.k, NEW.dtype,
    NEW.world_size, '', NEW.digest, NEW.id, random() & 9223372036854775807 FROM revision;
END;
CREATE TRIGGER sample_batch_changed AFTER UPDATE ON sample_batch BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'sample_batch', 0, NEW.fingerprint_digest, NEW.kind, NEW.m, NEW.n, NEW.k, NEW.dtype,
    NEW.world_size, '', NEW.digest, NEW.id, random() & 9223372036854775807 FROM revision;
END;
CREATE TRIGGER sample_batch_removed AFTER DELETE ON sample_batch BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'sample_batch', 1, OLD.fingerprint_digest, OLD.kind, OLD.m, OLD.n, OLD.k, OLD.dtype,
    OLD.world_size, '', OLD.digest, OLD.id, random() & 9223372036854775807 FROM revision;
END;

CREATE TRIGGER model_kept AFTER INSERT ON model BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'model', 0, NEW.fingerprint_digest, NEW.kind, NEW.m, NEW.n, NEW.k, NEW.dtype,
    NEW.world_size, '', NEW.digest, NEW.id, random() & 9223372036854775807 FROM revision;
END;
CREATE TRIGGER model_changed AFTER UPDATE ON model BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'model', 0, NEW.fingerprint_digest, NEW.kind, NEW.m, NEW.n, NEW.k, NEW.dtype,
    NEW.world_size, '', NEW.digest, NEW.id, random() & 9223372036854775807 FROM revision;
END;
CREATE TRIGGER model_removed AFTER DELETE ON model BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'model', 1, OLD.fingerprint_digest, OLD.kind, OLD.m, OLD.n, OLD.k, OLD.dtype,
    OLD.world_size, '', OLD.digest, OLD.id, random() & 9223372036854775807 FROM revision;
END;

CREATE TRIGGER plan_kept AFTER INSERT ON plan BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'plan', 0, NEW.fingerprint_digest, NEW.kind, NEW.m, NEW.n, NEW.k, NEW.dtype,
    NEW.world_size, NEW.purpose, NEW.digest, NEW.id, random() & 9223372036854775807 FROM revision;
END;
CREATE TRIGGER plan_changed AFTER UPDATE ON plan BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'plan', 0, NEW.fingerprint_digest, NEW.kind, NEW.m, NEW.n, NEW.k, NEW.dtype,
    NEW.world_size, NEW.purpose, NEW.digest, NEW.id, random() & 9223372036854775807 FROM revision;
END;
CREATE TRIGGER plan_removed AFTER DELETE ON plan BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'plan', 1, OLD.fingerprint_digest, OLD.kind, OLD.m, OLD.n, OLD.k, OLD.dtype,
    OLD.world_size, OLD.purpose, OLD.digest, OLD.id, random() & 9223372036854775807 FROM revision;
END;

CREATE TRIGGER measurement_kept AFTER INSERT ON measurement BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'measurement', 0, NEW.fingerprint_digest, NEW.kind, NEW.m, NEW.n, NEW.k, NEW.dtype,
    NEW.world_size, '', NEW.digest, NEW.id, random() & 9223372036854775807 FROM revision;
END;
CREATE TRIGGER measurement_changed AFTER UPDATE ON measurement BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'measurement', 0, NEW.fingerprint_digest, NEW.kind, NEW.m, NEW.n, NEW.k, NEW.dtype,
    NEW.world_size, '', NEW.digest, NEW.id, random() & 9223372036854775807 FROM revision;
END;
CREATE TRIGGER measurement_removed AFTER DELETE ON measurement BEGIN
  UPDATE revision SET value = value + 1;
  INSERT INTO change SELECT value, 'measurement', 1, OLD.fingerprint_digest, OLD.kind, OLD.m, OLD.n, OLD.k, OLD.dtype,
    OLD.world_size, '', OLD.digest, OLD.id, random() & 9223372036854775807 FROM revision;
END;
