-- Everything mc2 keeps, one document per row. A migration is never edited once released: add the next number instead.
--
-- Every document is canonical JSON (schemas/*.schema.json). `digest` is the SHA-256 of the document; `checksum` is the
-- SHA-256 over the table's name, the key columns, created_at and the digest, so that a changed key or a document moved
-- under another key is detected as surely as a changed document. Sizes m, n, k count elements; times are ISO 8601 UTC.

CREATE TABLE fingerprint (
  id       INTEGER PRIMARY KEY,
  digest   TEXT NOT NULL UNIQUE, -- SHA-256 of the fingerprint's canonical text, not of the document
  document TEXT NOT NULL,        -- mc2.fingerprint/1
  checksum TEXT NOT NULL
) STRICT;

-- One row per append: samples are added while a profile runs, and each row is kept or lost as a whole.
CREATE TABLE sample_batch (
  id                 INTEGER PRIMARY KEY,
  fingerprint_digest TEXT NOT NULL REFERENCES fingerprint (digest),
  kind               TEXT NOT NULL,
  m                  INTEGER NOT NULL,
  n                  INTEGER NOT NULL,
  k                  INTEGER NOT NULL,
  dtype              TEXT NOT NULL,
  world_size         INTEGER NOT NULL,
  created_at         TEXT NOT NULL,
  digest             TEXT NOT NULL,
  document           TEXT NOT NULL, -- mc2.profile/1
  checksum           TEXT NOT NULL
) STRICT;
CREATE INDEX sample_batch_key ON sample_batch (fingerprint_digest, kind, m, n, k, dtype, world_size);
CREATE INDEX sample_batch_checksum ON sample_batch (checksum);

CREATE TABLE model (
  id                 INTEGER PRIMARY KEY,
  fingerprint_digest TEXT NOT NULL REFERENCES fingerprint (digest),
  kind               TEXT NOT NULL,
  m                  INTEGER NOT NULL,
  n                  INTEGER NOT NULL,
  k                  INTEGER NOT NULL,
  dtype              TEXT NOT NULL,
  world_size         INTEGER NOT NULL,
  created_at         TEXT NOT NULL,
  digest             TEXT NOT NULL,
  document           TEXT NOT NULL, -- mc2.cost_model/1
  checksum           TEXT NOT NULL,
  UNIQUE (fingerprint_digest, kind, n, k, dtype, world_size, m)
) STRICT;

CREATE TABLE plan (
  id                 INTEGER PRIMARY KEY,
  fingerprint_digest TEXT NOT NULL REFERENCES fingerprint (digest),
  kind               TEXT NOT NULL,
  m                  INTEGER NOT NULL,
  n                  INTEGER NOT NULL,
  k                  INTEGER NOT NULL,
  dtype              TEXT NOT NULL,
  world_size         INTEGER NOT NULL,
  purpose            TEXT NOT NULL, -- 'tuned', or the digest of the options of a plan made from a model
  created_at         TEXT NOT NULL,
  digest             TEXT NOT NULL,
  document           TEXT NOT NULL, -- mc2.plan/1
  checksum           TEXT NOT NULL,
  UNIQUE (fingerprint_digest, kind, m, n, k, dtype, world_size, purpose)
) STRICT;
CREATE INDEX plan_digest ON plan (digest);

CREATE TABLE measurement (
  id                 INTEGER PRIMARY KEY,
  fingerprint_digest TEXT NOT NULL REFERENCES fingerprint (digest),
  kind               TEXT NOT NULL,
  m                  INTEGER NOT NULL,
  n                  INTEGER NOT NULL,
  k                  INTEGER NOT NULL,
  dtype              TEXT NOT NULL,
  world_size         INTEGER NOT NULL,
  created_at         TEXT NOT NULL,
  digest             TEXT NOT NULL,
  document           TEXT NOT NULL, -- mc2.measurement/1
  checksum           TEXT NOT NULL
) STRICT;
CREATE INDEX measurement_key ON measurement (fingerprint_digest, kind, m, n, k, dtype, world_size);
CREATE INDEX measurement_checksum ON measurement (checksum);
