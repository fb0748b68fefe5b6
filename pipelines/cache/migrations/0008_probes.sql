-- The vectors of the sentences that identify a model which endpoints serve, by their number in
-- `pipelines.embedding.remote.PROBES`; none for a model that ran on this machine.
CREATE TABLE vault_probe (
    position INTEGER PRIMARY KEY,
    embedding BLOB NOT NULL
);

UPDATE vault_meta SET value = '8' WHERE key = 'schema_version';
