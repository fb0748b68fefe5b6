-- The vectors of texts by a second model, which ranks notes again: signed bytes (quantized), empty where it has none
-- for a text; NULL until prepared. Texts wait for the model that `second_model` in vault_meta names.
CREATE TABLE vault_second (
    text_hash TEXT NOT NULL,
    model TEXT NOT NULL,
    codes BLOB,
    PRIMARY KEY (text_hash, model)
);
CREATE INDEX vault_second_owed ON vault_second (text_hash) WHERE codes IS NULL;
CREATE TRIGGER vault_second_came AFTER INSERT ON vault_vector BEGIN
    INSERT OR IGNORE INTO vault_second
    SELECT NEW.text_hash, value, NULL FROM vault_meta WHERE key = 'second_model';
END;
CREATE TRIGGER vault_second_went AFTER DELETE ON vault_vector BEGIN
    DELETE FROM vault_second WHERE text_hash = OLD.text_hash;
END;

UPDATE vault_meta SET value = '9' WHERE key = 'schema_version';
