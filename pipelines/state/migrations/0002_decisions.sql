-- Versions 0.1.0 and 0.2.0 kept these two decisions among the facts. A pause counts whatever its value is.
INSERT OR IGNORE INTO paused_domain
    SELECT substr(key, 8), coalesce(
        CASE WHEN json_valid(value) AND json_type(value) = 'object' THEN value ->> '$.since' END,
        strftime('%Y-%m-%dT%H:%M:%S+00:00', at, 'unixepoch')
    ) FROM fact WHERE key GLOB 'paused:*';
INSERT OR IGNORE INTO dismissed_note
    SELECT substr(fact.key, 11), note.key, note.value
    FROM fact, json_each(CASE WHEN json_valid(fact.value) THEN fact.value ELSE '{}' END) AS note
    WHERE fact.key GLOB 'forgotten:*' AND note.type = 'integer';
DELETE FROM fact WHERE key GLOB 'paused:*' OR key GLOB 'forgotten:*';

PRAGMA user_version = 2;
