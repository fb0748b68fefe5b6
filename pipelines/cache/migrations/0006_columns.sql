-- What belongs to one note or to one chunk is in its row.

-- What a note itself says about its privacy (`model.OwnPrivacy`); private: NULL if that is not known.
-- tag_lines: its tags, each on a line of its own, with a line end before the first; empty without tags.
ALTER TABLE vault_node ADD COLUMN private INTEGER;
ALTER TABLE vault_node ADD COLUMN place TEXT;
ALTER TABLE vault_node ADD COLUMN tag_lines TEXT;
UPDATE vault_node SET (private, place, tag_lines) =
    (SELECT private, place, tag_lines FROM vault_privacy p WHERE p.path = vault_node.path);
DROP TABLE vault_privacy;

-- Which dates a note states and where, besides published_at, its date of creation (`model.Dates`).
-- *_after: a date by git takes precedence.
ALTER TABLE vault_node ADD COLUMN created_by TEXT;
ALTER TABLE vault_node ADD COLUMN created_after INTEGER NOT NULL DEFAULT 0;
ALTER TABLE vault_node ADD COLUMN changed TEXT;
ALTER TABLE vault_node ADD COLUMN changed_by TEXT;
ALTER TABLE vault_node ADD COLUMN changed_after INTEGER NOT NULL DEFAULT 0;
UPDATE vault_node SET created_by = d.created_by, created_after = d.created_after, changed = d.changed,
    changed_by = d.changed_by, changed_after = d.changed_after FROM vault_date d WHERE d.path = vault_node.path;
DROP TABLE vault_date;

-- Where in a document a chunk is (JSON, `model.Locator`), if its lines do not say it.
ALTER TABLE vault_chunk ADD COLUMN locator TEXT;
UPDATE vault_chunk SET locator = p.locator FROM vault_place p WHERE p.chunk_id = vault_chunk.id;
DROP TABLE vault_place;

-- What is embedded before a chunk's text, if anything.
ALTER TABLE vault_chunk ADD COLUMN context TEXT;
UPDATE vault_chunk SET context = x.context FROM vault_context x WHERE x.chunk_id = vault_chunk.id;
DROP TABLE vault_context;

UPDATE vault_meta SET value = '6' WHERE key = 'schema_version';
