-- rationale: why the proposer proposes a tag. Until now it was the `reason`, which a decision replaces.
ALTER TABLE tag_proposal ADD COLUMN rationale TEXT;
UPDATE tag_proposal SET rationale = reason, reason = NULL WHERE state = 'waiting' AND decided_at IS NULL;

-- What was done lately is asked for all the time.
CREATE INDEX IF NOT EXISTS note_log_at ON note_log (at);

PRAGMA user_version = 3;
