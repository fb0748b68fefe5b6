-- Decisions and history, one file per vault. It cannot be derived from the vault, so it is backed up.
-- Versions up to 0.3.0 gave it no number; a file of theirs lacks what later ones added.

-- The number n of each domain's current cache file, cache-<domain>.<n>.db.
CREATE TABLE IF NOT EXISTS domain_cache (
    domain TEXT PRIMARY KEY,
    number INTEGER NOT NULL
) WITHOUT ROWID;

-- Facts that one process tells the others, listed in `pipelines.state.state`. value: JSON. at, uptime: when it was
-- told, by the wall clock and by the monotonic clock, which cannot be set.
CREATE TABLE IF NOT EXISTS fact (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at REAL NOT NULL,
    uptime REAL NOT NULL
) WITHOUT ROWID;

-- The domains that the operator paused. since: UTC, ISO 8601.
CREATE TABLE IF NOT EXISTS paused_domain (
    domain TEXT PRIMARY KEY,
    since TEXT NOT NULL
) WITHOUT ROWID;

-- Parked notes that the operator dismissed, each with the generation that failed; a later failure is shown again.
CREATE TABLE IF NOT EXISTS dismissed_note (
    domain TEXT NOT NULL,
    path TEXT NOT NULL,
    generation INTEGER NOT NULL,
    PRIMARY KEY (domain, path)
) WITHOUT ROWID;

-- An evidence record: a question, how well the notes answered it, and the result that a reader wrote back.
CREATE TABLE IF NOT EXISTS evidence (
    id TEXT PRIMARY KEY,
    question TEXT NOT NULL,
    domain TEXT,
    match TEXT,
    asked_at TEXT NOT NULL,
    notes TEXT,
    curated_at TEXT
);

-- The notes that answered, best first. chunk and text_hash name the passage, NULL if it was already gone.
-- source_hash: the hash of the note's bytes that the passage was cut from.
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

CREATE INDEX IF NOT EXISTS evidence_hit_path ON evidence_hit (path);

-- The quotes of the write-back. text_hashes: a JSON array, the passages that the quote is compared with.
CREATE TABLE IF NOT EXISTS evidence_citation (
    record TEXT NOT NULL,
    position INTEGER NOT NULL,
    path TEXT NOT NULL,
    quote TEXT,
    text_hashes TEXT NOT NULL,
    source_hash TEXT,
    PRIMARY KEY (record, position)
) WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS evidence_citation_path ON evidence_citation (path);

-- The passages themselves: a record is verified against these, whatever happens to the notes.
CREATE TABLE IF NOT EXISTS evidence_text (
    record TEXT NOT NULL,
    text_hash TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (record, text_hash)
) WITHOUT ROWID;

-- A tag suggested for a note, and its outcome. key: the case-folded tag, for lookups.
-- state: waiting, accepted (ticked, not yet in the note), applied, rejected, refused (reason says why).
-- note_hash: the hash of the note's bytes that the proposer saw; NULL for a tag that the operator typed.
CREATE TABLE IF NOT EXISTS tag_proposal (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    domain TEXT NOT NULL,
    path TEXT NOT NULL,
    key TEXT NOT NULL,
    tag TEXT NOT NULL,
    tag_group TEXT NOT NULL,
    confidence REAL NOT NULL,
    proposer TEXT NOT NULL,
    note_hash TEXT,
    state TEXT NOT NULL,
    reason TEXT,
    proposed_at TEXT NOT NULL,
    decided_at TEXT,
    UNIQUE (domain, path, key)
);
CREATE INDEX IF NOT EXISTS tag_proposal_state ON tag_proposal (domain, state);

-- Notes that were examined for tags: a sketch of the text (to measure how much of it changed), the hash of its bytes
-- (to recognise it under another name). outcome: baseline, proposed, nothing, private, failed (retried at
-- next_attempt, wall clock), asked (requested by the operator).
CREATE TABLE IF NOT EXISTS tag_note (
    domain TEXT NOT NULL,
    path TEXT NOT NULL,
    note_hash TEXT NOT NULL,
    sketch BLOB NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_attempt REAL,
    PRIMARY KEY (domain, path)
) WITHOUT ROWID;

-- Notes that are gone while tags for them wait; these tags are shown again when the note is back.
CREATE TABLE IF NOT EXISTS tag_gone (
    domain TEXT NOT NULL,
    path TEXT NOT NULL,
    PRIMARY KEY (domain, path)
) WITHOUT ROWID;

-- The items that each page of a review queue showed to the operator, by the id in the page's first line.
-- Kept because an editor may save a page long after the next one was written.
CREATE TABLE IF NOT EXISTS review_page (
    page TEXT PRIMARY KEY,
    domain TEXT NOT NULL,
    shown TEXT NOT NULL,
    written_at TEXT NOT NULL
) WITHOUT ROWID;

-- Every change that Everindex made to a note, with enough data to undo it exactly.
CREATE TABLE IF NOT EXISTS tag_audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    domain TEXT NOT NULL,
    path TEXT NOT NULL,
    tags TEXT NOT NULL,
    action TEXT NOT NULL,
    head_before BLOB NOT NULL,
    head_after BLOB NOT NULL,
    undone_at TEXT
);

-- The files in which one entry of tag_audit renamed tags: notes and the taxonomy, each with enough data to undo it.
-- Such an entry's action is `renaming` until all of its files are done, then `renamed`; its path is the taxonomy's.
CREATE TABLE IF NOT EXISTS tag_renamed (
    change INTEGER NOT NULL,
    path TEXT NOT NULL,
    head_before BLOB NOT NULL,
    head_after BLOB NOT NULL,
    PRIMARY KEY (change, path)
) WITHOUT ROWID;

-- The tags of proposals before an entry of tag_audit renamed them, for its undoing.
CREATE TABLE IF NOT EXISTS tag_retagged (
    change INTEGER NOT NULL,
    proposal INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (change, proposal)
) WITHOUT ROWID;

-- The cost of a day's proposals by a paid service.
CREATE TABLE IF NOT EXISTS tag_spend (
    day TEXT NOT NULL,
    proposer TEXT NOT NULL,
    notes INTEGER NOT NULL,
    dollars REAL NOT NULL,
    PRIMARY KEY (day, proposer)
) WITHOUT ROWID;

-- Notes that were chosen, if the operator has that recorded. at: seconds since 1970. how: opened, read, cited, promoted.
-- note_hash: the hash of the note's bytes, by which it is recognised under another name; NULL until it is known.
CREATE TABLE IF NOT EXISTS attention (
    path TEXT NOT NULL,
    at REAL NOT NULL,
    how TEXT NOT NULL,
    note_hash TEXT,
    PRIMARY KEY (path, at)
) WITHOUT ROWID;

-- Every job that a worker started, kept for a while. started_at, finished_at: UTC, ISO 8601, milliseconds.
-- state: running, done, failed, put off (a full disk, an unavailable queue), lost (its worker died).
-- path: the note of a job about a single note, else NULL; paths: the first ones, separated by U+001F.
-- log: a JSON array of lines. waited_ms: from enqueue to start. saved_ms: a JSON array, for each save that it made
-- findable the time since its discovery; NULL: none.
CREATE TABLE IF NOT EXISTS job_history (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL,
    task TEXT NOT NULL,
    domain TEXT NOT NULL,
    path TEXT,
    paths TEXT NOT NULL,
    notes INTEGER NOT NULL,
    state TEXT NOT NULL,
    worker TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    waited_ms REAL,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    ran_ms REAL,
    error TEXT,
    log TEXT NOT NULL,
    saved_ms TEXT
);
CREATE INDEX IF NOT EXISTS job_history_running ON job_history (id) WHERE state = 'running';
-- Covers every filter of the job list, so that a page is found without reading a row.
CREATE INDEX IF NOT EXISTS job_history_page ON job_history (id, task, domain, state, paths, error);
CREATE INDEX IF NOT EXISTS job_history_ended ON job_history (finished_at, state, ran_ms, notes);
CREATE INDEX IF NOT EXISTS job_history_saved ON job_history (finished_at, domain, saved_ms)
    WHERE saved_ms IS NOT NULL;

-- What happened to each note, kept as long as the jobs. at: UTC, ISO 8601, milliseconds.
-- action: indexed, embedded, re-embedded, renamed, removed, parked. other_path: of a renamed note, its path before or
-- after. error: why the note was parked, or removed (deleted, ignored). file_key: a hash of the file's bytes and inode,
-- to recognise it under another name; NULL: unknown.
CREATE TABLE IF NOT EXISTS note_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at TEXT NOT NULL,
    domain TEXT NOT NULL,
    path TEXT NOT NULL,
    action TEXT NOT NULL,
    passages INTEGER,
    texts_embedded INTEGER NOT NULL,
    vectors_pending INTEGER NOT NULL,
    ms REAL NOT NULL,
    model TEXT NOT NULL,
    pipeline TEXT NOT NULL,
    error TEXT,
    other_path TEXT,
    file_key INTEGER
);
CREATE INDEX IF NOT EXISTS note_log_path ON note_log (path, id);
CREATE INDEX IF NOT EXISTS note_log_file ON note_log (file_key) WHERE file_key IS NOT NULL;

-- How many jobs ever ended, and their measurements: a metric must not fall when history is pruned.
CREATE TABLE IF NOT EXISTS job_count (
    task TEXT NOT NULL,
    state TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (task, state)
) WITHOUT ROWID;

-- name: what was observed; le: the bucket's upper bound, infinity for the last; total: the sum of the observations.
CREATE TABLE IF NOT EXISTS job_histogram (
    name TEXT NOT NULL,
    le REAL NOT NULL,
    count INTEGER NOT NULL,
    total REAL NOT NULL,
    PRIMARY KEY (name, le)
) WITHOUT ROWID;

-- Processes that run, or that died without notice. name: host:pid/start time. at, uptime: its last report, as in `fact`.
CREATE TABLE IF NOT EXISTS process (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    version TEXT NOT NULL,
    started_at TEXT NOT NULL,
    rss_bytes INTEGER NOT NULL,
    at REAL NOT NULL,
    uptime REAL NOT NULL
) WITHOUT ROWID;

-- The current problems that processes report. kind: a constant name; subject: a domain, a path, or ''.
-- since: UTC, ISO 8601, when it was first reported.
CREATE TABLE IF NOT EXISTS problem (
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    message TEXT NOT NULL,
    since TEXT NOT NULL,
    PRIMARY KEY (kind, subject)
) WITHOUT ROWID;

-- Notes whose files vanished: they wait to be forgotten (forgotten = 0), or were forgotten within the last minutes.
-- at, uptime: when, as in `fact`.
CREATE TABLE IF NOT EXISTS vanished (
    domain TEXT NOT NULL,
    path TEXT NOT NULL,
    at REAL NOT NULL,
    uptime REAL NOT NULL,
    forgotten INTEGER NOT NULL,
    PRIMARY KEY (domain, path)
) WITHOUT ROWID;

-- The formats of a domain that does not state its own: set when the file is made, or is first opened by a version that
-- reads more than Markdown.
CREATE TABLE IF NOT EXISTS vault_format (
    name TEXT PRIMARY KEY
) WITHOUT ROWID;

PRAGMA user_version = 1;
