-- What versions up to 0.3.0 added without a number, so a cache of theirs has some of it.

-- What a note itself says about its privacy.
CREATE TABLE IF NOT EXISTS vault_privacy (
    path TEXT PRIMARY KEY,
    private INTEGER NOT NULL,
    place TEXT NOT NULL,
    tag_lines TEXT NOT NULL
) WITHOUT ROWID;

-- Where in a document a chunk is, if its lines do not say it.
CREATE TABLE IF NOT EXISTS vault_place (
    chunk_id INTEGER PRIMARY KEY,
    locator TEXT NOT NULL
);

-- What is embedded before a chunk's text, if anything.
CREATE TABLE IF NOT EXISTS vault_context (
    chunk_id INTEGER PRIMARY KEY,
    context TEXT NOT NULL
);

-- Where a note's dates come from, if it states any.
CREATE TABLE IF NOT EXISTS vault_date (
    path TEXT PRIMARY KEY,
    created_by TEXT,
    created_after INTEGER NOT NULL,
    changed TEXT,
    changed_by TEXT,
    changed_after INTEGER NOT NULL
) WITHOUT ROWID;

-- A file's first and last commit (ISO 8601, UTC), as of the commit in vault_meta. `changed` is valid while the file
-- has the time `written` (seconds since 1970).
CREATE TABLE IF NOT EXISTS vault_git (
    path TEXT PRIMARY KEY,
    created TEXT,
    changed TEXT,
    written INTEGER
) WITHOUT ROWID;

-- Used by `Leases.take`.
CREATE INDEX IF NOT EXISTS vault_file_noticed ON vault_file
    (priority DESC, wanted_hash IS NULL, dirty_since DESC) WHERE applied_generation < generation AND parked = 0;

-- Used by `Leases.take`.
CREATE INDEX IF NOT EXISTS vault_file_apart ON vault_file (path) WHERE error_kind = 'apart';

UPDATE vault_meta SET value = '5' WHERE key = 'schema_version';
