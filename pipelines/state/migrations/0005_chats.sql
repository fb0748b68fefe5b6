-- Conversations. scope: what their answers are drawn from (JSON).
CREATE TABLE IF NOT EXISTS chat (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    changed_at TEXT NOT NULL
) WITHOUT ROWID;

-- key: of one asking, so that an answer finds its own question. asked, answer: JSON; answer is NULL until it ended.
-- is_private: not for endpoints that are not local.
CREATE TABLE IF NOT EXISTS chat_turn (
    chat TEXT NOT NULL,
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    model TEXT NOT NULL,
    is_private INTEGER NOT NULL,
    asked TEXT NOT NULL,
    answer TEXT,
    PRIMARY KEY (chat, number)
) WITHOUT ROWID;

PRAGMA user_version = 5;
