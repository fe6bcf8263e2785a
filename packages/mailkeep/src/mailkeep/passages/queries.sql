-- name: folders
-- Every folder that the accounts ever had.
SELECT id, mailbox_account_id, alias, special_use FROM mail_folders WHERE mailbox_account_id = ANY(%(account_ids)s)
ORDER BY id;

-- name: outstanding
-- Messages behind a position whose present text was not cut under the present rules and ceiling.
SELECT e.id, d.extracted_at, d.text_source
FROM stored_emails e
JOIN email_search_documents d ON d.stored_email_id = e.id
WHERE e.id > %(after)s AND e.mail_folder_id = ANY(%(folder_ids)s)
    AND (e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete)
    AND NOT EXISTS (SELECT 1 FROM email_passage_cuts c WHERE c.stored_email_id = e.id
        AND c.document_extracted_at = d.extracted_at AND c.rule_set_version = %(version)s
        AND (c.character_ceiling = %(ceiling)s
            OR length(d.body_text) <= least(c.character_ceiling, %(ceiling)s)))
ORDER BY e.id
LIMIT %(limit)s;

-- name: texts
-- The trimmed texts of messages.
SELECT stored_email_id, coalesce(body_text, '') FROM email_search_documents WHERE stored_email_id = ANY(%(ids)s);

-- name: passages
-- What a message was cut into before.
SELECT ordinal, content_hash, start_offset FROM email_chunks WHERE stored_email_id = %(id)s ORDER BY ordinal;

-- name: lock_document
-- The message, so that nothing reads it anew meanwhile; nothing when it is gone or was read anew already.
SELECT 1 FROM email_search_documents WHERE stored_email_id = %(id)s AND extracted_at = %(extracted_at)s FOR SHARE;

-- name: clear
-- All passages of a message, with their vectors.
DELETE FROM email_chunks WHERE stored_email_id = %(id)s;

-- name: write
-- The passages of a message.
INSERT INTO email_chunks (id, stored_email_id, ordinal, start_offset, text, content_hash, rule_set_version,
    is_derived_from_lossy_html, derived_at)
SELECT p.id, %(email_id)s, p.ordinal, p.start_offset, p.text, p.content_hash, %(version)s, %(is_lossy)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(ordinals)s::integer[], %(offsets)s::integer[], %(texts)s::text[], %(hashes)s::text[])
    AS p (id, ordinal, start_offset, text, content_hash);

-- name: note_truncation
-- The full length of a text that was cut only in part; null otherwise.
UPDATE stored_emails SET chunked_text_truncated_from_character_count = %(full_length)s
WHERE id = %(id)s AND chunked_text_truncated_from_character_count IS DISTINCT FROM %(full_length)s;

-- name: note_cut
-- That this reading of the message was cut.
INSERT INTO email_passage_cuts (stored_email_id, document_extracted_at, rule_set_version, character_ceiling, failure, cut_at)
VALUES (%(id)s, %(extracted_at)s, %(version)s, %(ceiling)s, %(failure)s, %(now)s)
ON CONFLICT (stored_email_id) DO UPDATE SET document_extracted_at = excluded.document_extracted_at,
    rule_set_version = excluded.rule_set_version, character_ceiling = excluded.character_ceiling,
    failure = excluded.failure, cut_at = excluded.cut_at;

-- name: counts
-- Messages cut under the present rules, all that take part, and those that could not be cut.
SELECT count(c.stored_email_id) FILTER (WHERE c.failure IS NULL), count(*),
    count(c.stored_email_id) FILTER (WHERE c.failure IS NOT NULL)
FROM stored_emails e
JOIN email_search_documents d ON d.stored_email_id = e.id
LEFT JOIN email_passage_cuts c ON c.stored_email_id = e.id AND c.document_extracted_at = d.extracted_at
    AND c.rule_set_version = %(version)s
WHERE e.mail_folder_id = ANY(%(folder_ids)s)
    AND (e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete);

-- name: uncut
-- Mail that has text and is yet to be cut: how much it is, overlaps included as far as they can be foretold.
SELECT count(*) FILTER (WHERE size > 0), coalesce(sum(passages), 0)::bigint,
    coalesce(sum(size + (passages - 1) * %(overlap)s) FILTER (WHERE size > 0), 0)::bigint
FROM (
    SELECT t.size, CASE WHEN t.size = 0 THEN 0
        ELSE greatest(1, ceil((t.size - %(overlap)s)::numeric / (%(target)s - 2 * %(overlap)s))::bigint) END AS passages
    FROM (
        SELECT least(length(coalesce(d.body_text, '')), %(ceiling)s) AS size
        FROM stored_emails e
        JOIN email_search_documents d ON d.stored_email_id = e.id
        WHERE e.mail_folder_id = ANY(%(folder_ids)s)
            AND (e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete)
            AND NOT EXISTS (SELECT 1 FROM email_passage_cuts c WHERE c.stored_email_id = e.id
                AND c.document_extracted_at = d.extracted_at AND c.rule_set_version = %(version)s)
    ) t
) u;
