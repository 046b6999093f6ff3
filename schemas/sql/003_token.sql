-- Who may ask the service. Nothing in here lets anybody in: `hash` is the BLAKE2b-256 of a token of 256 random bits, which
-- is shown once. Rows stay when a token is revoked: revoking the last one must not open the service to everyone.
-- Tokens belong to this store: they are neither exported nor merged.

CREATE TABLE token (
  id         TEXT PRIMARY KEY, -- 8 hexadecimal digits, which the token begins with
  name       TEXT NOT NULL,
  role       TEXT NOT NULL,    -- 'read', 'write' or 'admin'
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL,    -- '': never
  revoked_at TEXT NOT NULL,    -- '': it is not
  hash       TEXT NOT NULL,
  checksum   TEXT NOT NULL     -- SHA-256 over the table's name and all of the above
) STRICT;

-- The service looks at tokens again when the revision moves.
CREATE TRIGGER token_added AFTER INSERT ON token BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER token_changed AFTER UPDATE ON token BEGIN UPDATE revision SET value = value + 1; END;
CREATE TRIGGER token_removed AFTER DELETE ON token BEGIN UPDATE revision SET value = value + 1; END;
