-- What people and history made, one file a vault; not derived, and backed up.

-- The number n of each domain's current cache file, cache-<domain>.<n>.db.
CREATE TABLE IF NOT EXISTS domain_cache (
    domain TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) WITHOUT ROWID;

-- What one process tells the others: the last reconcile, the embedder's speed, a reload's answer. When, by the
-- wall clock, and by the monotonic one, which no one can set.
CREATE TABLE IF NOT EXISTS fact (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at REAL NOT NULL,
    uptime REAL NOT NULL
) WITHOUT ROWID;
