-- The last 20,000 notes whose privacy may have changed, in order: connections that hold the set of private notes read
-- the news. Whether a note is private depends on its row, and on whether its file is what was indexed.
CREATE TABLE vault_privacy_change (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL
);
CREATE TRIGGER vault_privacy_node_came AFTER INSERT ON vault_node BEGIN
    INSERT INTO vault_privacy_change (path) VALUES (NEW.path);
END;
CREATE TRIGGER vault_privacy_node_changed AFTER UPDATE OF private, place, tag_lines ON vault_node BEGIN
    INSERT INTO vault_privacy_change (path) VALUES (NEW.path);
END;
CREATE TRIGGER vault_privacy_node_went AFTER DELETE ON vault_node BEGIN
    INSERT INTO vault_privacy_change (path) VALUES (OLD.path);
END;
CREATE TRIGGER vault_privacy_file_came AFTER INSERT ON vault_file BEGIN
    INSERT INTO vault_privacy_change (path) VALUES (NEW.path);
END;
CREATE TRIGGER vault_privacy_file_changed AFTER UPDATE OF wanted_hash, indexed_hash ON vault_file
WHEN (NEW.wanted_hash IS NEW.indexed_hash) <> (OLD.wanted_hash IS OLD.indexed_hash) BEGIN
    INSERT INTO vault_privacy_change (path) VALUES (NEW.path);
END;
CREATE TRIGGER vault_privacy_file_went AFTER DELETE ON vault_file BEGIN
    INSERT INTO vault_privacy_change (path) VALUES (OLD.path);
END;
CREATE TRIGGER vault_privacy_change_kept AFTER INSERT ON vault_privacy_change BEGIN
    DELETE FROM vault_privacy_change WHERE number <= NEW.number - 20000;
END;

UPDATE vault_meta SET value = '10' WHERE key = 'schema_version';
