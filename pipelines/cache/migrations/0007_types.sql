-- What a note says that the target of a link is to it (`model.Link.type`); NULL: it only links.
ALTER TABLE vault_link ADD COLUMN type TEXT;
ALTER TABLE vault_edge ADD COLUMN type TEXT;

UPDATE vault_meta SET value = '7' WHERE key = 'schema_version';
