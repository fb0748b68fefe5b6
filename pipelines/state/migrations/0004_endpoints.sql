-- What endpoints embedded each day (UTC). failures: requests without a usable answer. texts: without probes.
CREATE TABLE IF NOT EXISTS endpoint_use (
    day TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    requests INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    texts INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    dollars REAL NOT NULL,
    PRIMARY KEY (day, endpoint)
) WITHOUT ROWID;

PRAGMA user_version = 4;
