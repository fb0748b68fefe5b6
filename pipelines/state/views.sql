-- The SQL views of a vault, for dashboards and for programs: what its current caches hold, and what its state says of
-- notes. {state}, {all} and {views} are schemas; the second one's views have every note, the third one's none that is
-- private or may be.
--
-- A view asks `domain_cache` which cache of each domain is current when it is read, so that no rebuild leaves it
-- behind, and no lock of a reader delays one. The functions read the caches, so they run with the rights of their
-- owner; whoever may read a view needs no other right. Readers cannot call them by name: that takes USAGE on {state}.

CREATE SCHEMA IF NOT EXISTS {all};
CREATE SCHEMA IF NOT EXISTS {views};

-- The domains of the vault, and which of their notes are private; as `pipelines.cache.notes.Rules`.
CREATE TABLE IF NOT EXISTS {state}.view_domain (
    domain TEXT COLLATE "C" PRIMARY KEY,
    llm BOOLEAN NOT NULL,
    tags TEXT[] NOT NULL,
    folders TEXT[] NOT NULL,
    folder TEXT NOT NULL,
    nested TEXT[] NOT NULL,
    configuration TEXT[] NOT NULL
);

-- The schema that `PostgresPlace.schema` names.
CREATE OR REPLACE FUNCTION {state}.view_schema(vault text, name text) RETURNS text IMMUTABLE LANGUAGE sql
SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN octet_length(vault || '_' || name) <= 63 THEN vault || '_' || name
        ELSE left(vault, 20) || '_' || left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 32) END
$$;

CREATE OR REPLACE FUNCTION {state}.view_cache(of_domain text DEFAULT NULL) RETURNS TABLE (domain text, cache text)
STABLE LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT found.domain, found.cache FROM (
        SELECT d.domain, {state}.view_schema({vault}, 'cache-' || d.domain || '.' || coalesce(c.number, 1)) AS cache
        FROM {state}.view_domain d LEFT JOIN {state}.domain_cache c USING (domain)
        WHERE of_domain IS NULL OR d.domain = of_domain
    ) found
    -- The first cache of a new domain is made by a worker.
    WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = found.cache)
$$;

-- What a note says may be odd, and must not end the query of all others.
CREATE OR REPLACE FUNCTION {state}.view_json(said text) RETURNS jsonb STABLE LANGUAGE sql
    RETURN CASE WHEN pg_input_is_valid(said, 'jsonb') THEN said::jsonb END;
CREATE OR REPLACE FUNCTION {state}.view_date(said text) RETURNS date STABLE LANGUAGE sql
    RETURN CASE WHEN pg_input_is_valid(left(said, 10), 'date') THEN left(said, 10)::date END;
CREATE OR REPLACE FUNCTION {state}.view_time(said text) RETURNS timestamptz STABLE LANGUAGE sql
    RETURN CASE WHEN pg_input_is_valid(said, 'timestamptz') THEN said::timestamptz END;

-- Every note, with what `SqliteNotes.private` says of it: whether it is private or may be, and whether it was when it
-- was indexed. A domain's configuration quotes notes, so it is private, too.
CREATE OR REPLACE FUNCTION {state}.view_note(of_domain text DEFAULT NULL)
RETURNS TABLE (domain text, path text, doc_id text, private boolean, known boolean)
STABLE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp ROWS 10000
AS $function$
DECLARE
    current record;
BEGIN
    FOR current IN SELECT * FROM {state}.view_cache(of_domain) LOOP
        RETURN QUERY EXECUTE format($query$
            SELECT r.domain, n.path,
                CASE WHEN n.path ~* '\.(ya?ml|json)$' AND {state}.view_json(n.aliases) ? said.id THEN said.id
                    ELSE n.path END,
                rated.known OR n.private IS NULL OR f.wanted_hash IS NULL
                    OR f.wanted_hash IS DISTINCT FROM f.indexed_hash OR n.path = ANY(r.configuration),
                rated.known AND NOT n.path = ANY(r.configuration)
            FROM %1$I.vault_node n
            JOIN {state}.view_domain r ON r.domain = $1
            LEFT JOIN %1$I.vault_file f ON f.path = n.path
            CROSS JOIN LATERAL (SELECT {state}.view_json(n.frontmatter) ->> 'id' AS id) said
            CROSS JOIN LATERAL (SELECT coalesce(
                NOT r.llm OR n.private OR strpos(n.path, r.folder) <> 1
                OR EXISTS (SELECT FROM unnest(r.tags) l WHERE CASE WHEN l IN ('', '.') THEN n.tag_lines <> ''
                    ELSE strpos(n.tag_lines, chr(10) || l || chr(10)) > 0
                        OR strpos(n.tag_lines, chr(10) || l || '/') > 0 END)
                OR EXISTS (SELECT FROM unnest(r.folders) l
                    WHERE l IN ('', '.') OR strpos('/' || n.place, '/' || l || '/') > 0)
                OR EXISTS (SELECT FROM unnest(r.nested) l WHERE strpos(n.path, l) = 1), false) AS known) rated
        $query$, current.cache) USING current.domain;
    END LOOP;
END $function$;

CREATE OR REPLACE FUNCTION {state}.view_document() RETURNS TABLE (
    domain text, doc_id text, file_path text, title text, doc_type text, doc_date date, tags text[], properties jsonb,
    chunk_count bigint, embed_model text, file_hash text, created_at timestamptz, updated_at timestamptz,
    indexed_at timestamptz, private boolean
) STABLE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' ROWS 10000
AS $function$
DECLARE
    current record;
BEGIN
    FOR current IN SELECT * FROM {state}.view_cache() LOOP
        -- The dates are those of `pipelines.cache.dates`.
        RETURN QUERY EXECUTE format($query$
            SELECT $1, v.doc_id, v.path, n.title, n.kind, {state}.view_date(stated.created),
                ARRAY(SELECT jsonb_array_elements_text({state}.view_json(n.tags))),
                {state}.view_json(n.frontmatter), coalesce(c.count, 0),
                (SELECT value FROM %1$I.vault_meta WHERE key = 'model'), f.indexed_hash,
                {state}.view_time(coalesce(stated.created, n.modified_at)),
                {state}.view_time(coalesce(stated.changed, n.modified_at)),
                {state}.view_time(f.indexed_at), v.private
            FROM {state}.view_note($1) v
            JOIN %1$I.vault_node n ON n.path = v.path
            LEFT JOIN %1$I.vault_file f ON f.path = v.path
            LEFT JOIN (SELECT path, count(*) FROM %1$I.vault_chunk GROUP BY path) c ON c.path = v.path
            LEFT JOIN %1$I.vault_git g ON g.path = v.path
            CROSS JOIN LATERAL (SELECT CASE WHEN g.written
                = floor(extract(epoch FROM {state}.view_time(n.modified_at))) THEN g.changed END AS changed) git
            CROSS JOIN LATERAL (SELECT
                CASE WHEN n.created_after <> 0 THEN coalesce(g.created, n.published_at)
                    ELSE coalesce(n.published_at, g.created) END AS created,
                CASE WHEN n.changed_after <> 0 THEN coalesce(git.changed, n.changed)
                    ELSE coalesce(n.changed, git.changed) END AS changed) stated
        $query$, current.cache) USING current.domain;
    END LOOP;
END $function$;

CREATE OR REPLACE FUNCTION {state}.view_passage() RETURNS TABLE (
    domain text, doc_id text, file_path text, chunk_index integer, section_path text, section_label text,
    content text, first_line bigint, last_line bigint, locator jsonb, has_vector boolean, private boolean
) STABLE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp ROWS 100000 AS $function$
DECLARE
    current record;
BEGIN
    FOR current IN SELECT * FROM {state}.view_cache() LOOP
        RETURN QUERY EXECUTE format($query$
            SELECT $1, v.doc_id, v.path, c.position, coalesce((SELECT string_agg(h.value, ' > ' ORDER BY h.ordinality)
                    FROM jsonb_array_elements_text({state}.view_json(c.heading_path)) WITH ORDINALITY h), c.section),
                c.section, c.text, c.first_line, c.last_line, {state}.view_json(c.locator), c.has_vector = 1, v.private
            FROM {state}.view_note($1) v JOIN %1$I.vault_chunk c ON c.path = v.path
        $query$, current.cache) USING current.domain;
    END LOOP;
END $function$;

CREATE OR REPLACE FUNCTION {state}.view_link() RETURNS TABLE (
    domain text, source text, target text, written text, kind text, type text, line bigint, private boolean
) STABLE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp ROWS 100000 AS $function$
DECLARE
    current record;
BEGIN
    FOR current IN SELECT * FROM {state}.view_cache() LOOP
        RETURN QUERY EXECUTE format($query$
            SELECT $1, v.path, e.target, l.target, coalesce(e.kind, l.kind), l.type, l.line, v.private
            FROM {state}.view_note($1) v
            JOIN %1$I.vault_link l ON l.path = v.path
            LEFT JOIN %1$I.vault_edge e ON e.path = l.path AND e.position = l.position
        $query$, current.cache) USING current.domain;
    END LOOP;
END $function$;

CREATE OR REPLACE FUNCTION {state}.view_rank() RETURNS TABLE (
    domain text, file_path text, pagerank float8, centrality float8, community bigint, community_label text,
    private boolean, has_private boolean
) STABLE SECURITY DEFINER LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp ROWS 10000 AS $function$
DECLARE
    current record;
BEGIN
    FOR current IN SELECT * FROM {state}.view_cache() LOOP
        RETURN QUERY EXECUTE format($query$
            SELECT $1, v.path, r.pagerank, r.centrality, r.community, c.label, v.private,
                coalesce(bool_or(v.known) OVER (), false)
            FROM {state}.view_note($1) v
            LEFT JOIN %1$I.vault_rank r ON r.path = v.path
            LEFT JOIN %1$I.vault_community c ON c.id = r.community
        $query$, current.cache) USING current.domain;
    END LOOP;
END $function$;

CREATE OR REPLACE VIEW {all}.documents AS SELECT * FROM {state}.view_document();
CREATE OR REPLACE VIEW {all}.passages AS SELECT * FROM {state}.view_passage();
CREATE OR REPLACE VIEW {all}.links AS SELECT * FROM {state}.view_link();
CREATE OR REPLACE VIEW {all}.ranks AS
    SELECT domain, file_path, pagerank, centrality, community, community_label, private
    FROM {state}.view_rank() WHERE pagerank IS NOT NULL;
CREATE OR REPLACE VIEW {all}.proposals AS
    SELECT p.domain, p.path AS file_path, p.tag, p.tag_group, p.confidence, p.proposer, p.state,
        {state}.view_time(p.proposed_at) AS proposed_at, {state}.view_time(p.decided_at) AS decided_at,
        coalesce(v.private, true) AS private
    FROM {state}.tag_proposal p LEFT JOIN {state}.view_note() v ON v.domain = p.domain AND v.path = p.path;
CREATE OR REPLACE VIEW {all}.history AS
    SELECT h.domain, h.path AS file_path, {state}.view_time(h.at) AS created_at, h.action, h.passages AS chunk_count,
        h.texts_embedded, h.ms AS duration_ms, h.model AS embed_model, h.other_path, h.error AS error_message,
        coalesce(v.private, true) AS private
    FROM {state}.note_log h LEFT JOIN {state}.view_note() v ON v.domain = h.domain AND v.path = h.path;

-- Without the notes that are private or may be. A barrier: no function in a reader's condition sees a row before.
CREATE OR REPLACE VIEW {views}.documents WITH (security_barrier) AS
    SELECT domain, doc_id, file_path, title, doc_type, doc_date, tags, properties, chunk_count, embed_model, file_hash,
        created_at, updated_at, indexed_at
    FROM {all}.documents WHERE NOT private;
CREATE OR REPLACE VIEW {views}.passages WITH (security_barrier) AS
    SELECT domain, doc_id, file_path, chunk_index, section_path, section_label, content, first_line, last_line, locator,
        has_vector
    FROM {all}.passages WHERE NOT private;
CREATE OR REPLACE VIEW {views}.links WITH (security_barrier) AS
    SELECT domain, source, CASE WHEN target IN (SELECT path FROM {state}.view_note() WHERE NOT private) THEN target END
        AS target, written, kind, type, line
    FROM {all}.links WHERE NOT private;
-- Communities are made of all notes and named after some, so that they say something of private ones.
CREATE OR REPLACE VIEW {views}.ranks WITH (security_barrier) AS
    SELECT domain, file_path, pagerank, centrality, CASE WHEN NOT has_private THEN community END AS community,
        CASE WHEN NOT has_private THEN community_label END AS community_label
    FROM {state}.view_rank() WHERE pagerank IS NOT NULL AND NOT private;
CREATE OR REPLACE VIEW {views}.proposals WITH (security_barrier) AS
    SELECT domain, file_path, tag, tag_group, confidence, proposer, state, proposed_at, decided_at
    FROM {all}.proposals WHERE NOT private;
-- The reason for which a note was parked may quote what it said when it was private.
CREATE OR REPLACE VIEW {views}.history WITH (security_barrier) AS
    SELECT domain, file_path, created_at, action, chunk_count, texts_embedded, duration_ms, embed_model,
        CASE WHEN other_path IN (SELECT path FROM {state}.view_note() WHERE NOT private) THEN other_path END AS other_path
    FROM {all}.history WHERE NOT private;

COMMENT ON SCHEMA {all} IS 'Everindex: every note of the vault, private ones, too';
COMMENT ON SCHEMA {views} IS 'Everindex: the notes of the vault that are not private';

COMMENT ON VIEW {all}.documents IS 'Indexed notes and documents, one row each';
COMMENT ON COLUMN {all}.documents.domain IS 'The part of the vault, by _domains.yaml';
COMMENT ON COLUMN {all}.documents.doc_id IS 'The id of a record (YAML, JSON) that states one, else file_path';
COMMENT ON COLUMN {all}.documents.file_path IS 'Path in the vault, which joins the views';
COMMENT ON COLUMN {all}.documents.title IS 'Title: a property, the first heading or the name of the file';
COMMENT ON COLUMN {all}.documents.doc_type IS 'The property kind or type';
COMMENT ON COLUMN {all}.documents.doc_date IS 'Date of creation that the note or git states, NULL: none';
COMMENT ON COLUMN {all}.documents.tags IS 'Tags, without #';
COMMENT ON COLUMN {all}.documents.properties IS 'Properties (frontmatter)';
COMMENT ON COLUMN {all}.documents.chunk_count IS 'How many passages it has';
COMMENT ON COLUMN {all}.documents.embed_model IS 'The model of its vectors, none: there are none';
COMMENT ON COLUMN {all}.documents.file_hash IS 'SHA-256 of the indexed bytes';
COMMENT ON COLUMN {all}.documents.created_at IS 'When the note was created: doc_date, else the time of its file';
COMMENT ON COLUMN {all}.documents.updated_at IS 'When the note was changed: by its properties, by git, by its file';
COMMENT ON COLUMN {all}.documents.indexed_at IS 'When it was indexed last';
COMMENT ON COLUMN {all}.documents.private IS 'Whether it is private, or may be because it is being indexed';

COMMENT ON VIEW {all}.passages IS 'The passages of documents, one row each';
COMMENT ON COLUMN {all}.passages.domain IS 'As in documents';
COMMENT ON COLUMN {all}.passages.doc_id IS 'As in documents';
COMMENT ON COLUMN {all}.passages.file_path IS 'As in documents';
COMMENT ON COLUMN {all}.passages.chunk_index IS 'Position in its document, from 0';
COMMENT ON COLUMN {all}.passages.section_path IS 'The headings above it, outermost first; without any, the title';
COMMENT ON COLUMN {all}.passages.section_label IS 'The last part of section_path';
COMMENT ON COLUMN {all}.passages.content IS 'Its text';
COMMENT ON COLUMN {all}.passages.first_line IS 'First line in the file, from 1';
COMMENT ON COLUMN {all}.passages.last_line IS 'Last line in the file';
COMMENT ON COLUMN {all}.passages.locator IS 'Page, slide, sheet or rows, where lines do not say it';
COMMENT ON COLUMN {all}.passages.has_vector IS 'Whether it has been embedded';
COMMENT ON COLUMN {all}.passages.private IS 'As in documents';

COMMENT ON VIEW {all}.links IS 'The links in documents, one row each';
COMMENT ON COLUMN {all}.links.domain IS 'The domain of the source';
COMMENT ON COLUMN {all}.links.source IS 'file_path of the document that has the link';
COMMENT ON COLUMN {all}.links.target IS 'Path of the file that it means; NULL: none, or one that is not shown here';
COMMENT ON COLUMN {all}.links.written IS 'The target as it is written';
COMMENT ON COLUMN {all}.links.kind IS 'citation, wikilink or embed; of a link that means no file, how it is written';
COMMENT ON COLUMN {all}.links.type IS 'What the target is to the source, by the property or field of the link';
COMMENT ON COLUMN {all}.links.line IS 'Line in the file, from 1';
COMMENT ON COLUMN {all}.links.private IS 'Whether the source is private, or may be';

COMMENT ON VIEW {all}.ranks IS 'What the links make of documents, one row each';
COMMENT ON COLUMN {all}.ranks.domain IS 'As in documents';
COMMENT ON COLUMN {all}.ranks.file_path IS 'As in documents';
COMMENT ON COLUMN {all}.ranks.pagerank IS 'PageRank within the domain';
COMMENT ON COLUMN {all}.ranks.centrality IS 'Centrality within the domain';
COMMENT ON COLUMN {all}.ranks.community IS 'Number of its community; NULL in a domain with notes that are not shown here';
COMMENT ON COLUMN {all}.ranks.community_label IS 'What that community is called; NULL as community';
COMMENT ON COLUMN {all}.ranks.private IS 'As in documents';

COMMENT ON VIEW {all}.proposals IS 'Tags that were proposed for documents, one row each';
COMMENT ON COLUMN {all}.proposals.domain IS 'As in documents';
COMMENT ON COLUMN {all}.proposals.file_path IS 'As in documents';
COMMENT ON COLUMN {all}.proposals.tag IS 'The proposed tag';
COMMENT ON COLUMN {all}.proposals.tag_group IS 'Its group in the vocabulary';
COMMENT ON COLUMN {all}.proposals.confidence IS 'How sure the proposer was, 0 to 1';
COMMENT ON COLUMN {all}.proposals.proposer IS 'What proposed it';
COMMENT ON COLUMN {all}.proposals.state IS 'waiting, addition (a new tag), accepted, applied, rejected or refused';
COMMENT ON COLUMN {all}.proposals.proposed_at IS 'When it was proposed';
COMMENT ON COLUMN {all}.proposals.decided_at IS 'When it was decided, NULL: not yet';
COMMENT ON COLUMN {all}.proposals.private IS 'As in documents, and where the document is gone';

COMMENT ON VIEW {all}.history IS 'What was done to each note, one row per event';
COMMENT ON COLUMN {all}.history.domain IS 'As in documents';
COMMENT ON COLUMN {all}.history.file_path IS 'As in documents';
COMMENT ON COLUMN {all}.history.created_at IS 'When it was done';
COMMENT ON COLUMN {all}.history.action IS 'indexed, embedded, re-embedded, renamed, removed or parked';
COMMENT ON COLUMN {all}.history.chunk_count IS 'How many passages the note had, NULL: not counted';
COMMENT ON COLUMN {all}.history.texts_embedded IS 'How many texts were embedded for it';
COMMENT ON COLUMN {all}.history.duration_ms IS 'The time that it took, in milliseconds';
COMMENT ON COLUMN {all}.history.embed_model IS 'The model at that time';
COMMENT ON COLUMN {all}.history.other_path IS 'Of a renamed note, its path before or after';
COMMENT ON COLUMN {all}.history.error_message IS 'Why it was parked, or removed (deleted, ignored)';
COMMENT ON COLUMN {all}.history.private IS 'As in documents, and where the document is gone';

-- What is said of a view and of its columns holds in both schemas.
DO $do$
DECLARE
    said record;
BEGIN
    FOR said IN
        SELECT v.relname, a.attname, d.description
        FROM pg_catalog.pg_description d
        JOIN pg_catalog.pg_class v ON v.oid = d.objoid AND d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass
        JOIN pg_catalog.pg_namespace n ON n.oid = v.relnamespace AND n.nspname = {all_name}
        LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = v.oid AND a.attnum = d.objsubid AND d.objsubid > 0
        WHERE a.attname IS NULL OR EXISTS (SELECT FROM information_schema.columns c WHERE c.table_schema = {views_name}
            AND c.table_name = v.relname AND c.column_name = a.attname)
    LOOP
        EXECUTE format(CASE WHEN said.attname IS NULL THEN 'COMMENT ON VIEW %1$I.%2$I IS %4$L'
            ELSE 'COMMENT ON COLUMN %1$I.%2$I.%3$I IS %4$L' END,
            {views_name}, said.relname, said.attname, said.description);
    END LOOP;
END $do$;
