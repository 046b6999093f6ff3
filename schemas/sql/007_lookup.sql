-- Look-ups that went through a whole table: a document by its digest, and the newest measurements of a machine. The newest
-- are those of the latest date, which after an import are not the last rows.

CREATE INDEX sample_batch_digest ON sample_batch (digest);
CREATE INDEX measurement_digest ON measurement (digest);
CREATE INDEX measurement_newest ON measurement (fingerprint_digest, created_at);
