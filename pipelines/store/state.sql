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

-- An evidence record: a question, how well the notes answered it, and what a reader made of it (the write-back).
CREATE TABLE IF NOT EXISTS evidence (
    id TEXT PRIMARY KEY,
    question TEXT NOT NULL,
    domain TEXT,
    match TEXT,
    asked_at TEXT NOT NULL,
    notes TEXT,
    curated_at TEXT
);

-- The notes that answered, best first. chunk and text_hash name the passage, NULL where it was gone again at once.
-- source_hash: of the note's bytes that the passage was cut from.
CREATE TABLE IF NOT EXISTS evidence_hit (
    record TEXT NOT NULL,
    position INTEGER NOT NULL,
    domain TEXT NOT NULL,
    path TEXT NOT NULL,
    title TEXT NOT NULL,
    section TEXT NOT NULL,
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    excerpt TEXT NOT NULL,
    score REAL NOT NULL,
    chunk INTEGER,
    text_hash TEXT,
    source_hash TEXT,
    PRIMARY KEY (record, position)
) WITHOUT ROWID;

-- What the write-back quotes. text_hashes: a JSON array, the passages that the quote is compared with.
CREATE TABLE IF NOT EXISTS evidence_citation (
    record TEXT NOT NULL,
    position INTEGER NOT NULL,
    path TEXT NOT NULL,
    quote TEXT,
    text_hashes TEXT NOT NULL,
    source_hash TEXT,
    PRIMARY KEY (record, position)
) WITHOUT ROWID;

-- The passages themselves: a record is verified from these, whatever became of the notes.
CREATE TABLE IF NOT EXISTS evidence_text (
    record TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (record, text_hash)
) WITHOUT ROWID;
