-- name: outstanding
-- Documents without the current rules, those from before any rules first; `too_many` of words to be stemmed as well.
SELECT d.stored_email_id, d.language_rules, d.extracted_at, d.indexed_body_characters,
    pg_column_size(d.search_vector) > %(largest_vector)s
FROM email_search_documents d
WHERE d.language_rules < %(rules)s
ORDER BY d.language_rules
LIMIT %(limit)s;

-- name: texts
-- What the named documents say; of a body in ASCII, which has nothing to fold, only the beginning.
SELECT d.stored_email_id, coalesce(d.subject_text, ''), coalesce(d.participant_names, ''),
    coalesce(d.participant_addresses, ''),
    coalesce(CASE WHEN octet_length(d.body_text) = length(d.body_text) THEN left(d.body_text, %(beginning)s)
        ELSE left(d.body_text, d.indexed_body_characters) END, '')
FROM email_search_documents d
WHERE d.stored_email_id = ANY(%(ids)s);

-- name: write
-- What was found, unless the document was written anew since it was read.
UPDATE email_search_documents d
SET language = f.language, language_confidence = f.confidence, language_rules = %(rules)s,
    folded_vector = f.folded::tsvector
FROM unnest(%(ids)s::uuid[], %(extracted)s::timestamptz[], %(languages)s::text[], %(confidences)s::real[],
    %(folded)s::text[]) AS f (id, extracted_at, language, confidence, folded)
WHERE d.stored_email_id = f.id AND d.extracted_at = f.extracted_at;

-- name: write_terms
-- The extra terms of documents from before these rules, whose texts are written without blanks.
UPDATE email_search_documents d
SET subject_terms = t.subject, participant_terms = t.participants, body_terms = t.body
FROM unnest(%(ids)s::uuid[], %(subjects)s::text[], %(participants)s::text[], %(bodies)s::text[])
    AS t (id, subject, participants, body)
WHERE d.stored_email_id = t.id;

-- name: note_languages
-- Remember in which languages there is mail.
INSERT INTO search_languages (language, first_seen_at)
SELECT DISTINCT l, %(now)s::timestamptz FROM unnest(%(languages)s::text[]) AS l WHERE l IS NOT NULL
ON CONFLICT (language) DO NOTHING;

-- name: give_up
-- Pass by documents that cannot be handled; they are found by their words as they stand.
UPDATE email_search_documents SET language = NULL, language_confidence = NULL, folded_vector = NULL,
    language_rules = %(rules)s
WHERE stored_email_id = ANY(%(ids)s);

-- name: record_failures
-- Say why documents were passed by.
INSERT INTO email_language_failures (stored_email_id, reason, recorded_at)
SELECT id, %(reason)s, %(now)s FROM stored_emails WHERE id = ANY(%(ids)s)
ON CONFLICT (stored_email_id) DO UPDATE SET reason = excluded.reason, recorded_at = excluded.recorded_at;

-- name: forget_failures
-- Documents that were done after all.
DELETE FROM email_language_failures WHERE stored_email_id = ANY(%(ids)s);

-- name: counts
-- Documents under the current rules, outstanding ones, and recorded failures among the former.
SELECT (SELECT count(*) FROM email_search_documents WHERE language_rules >= %(rules)s),
    (SELECT count(*) FROM email_search_documents WHERE language_rules < %(rules)s),
    (SELECT count(*) FROM email_language_failures);

-- name: languages
-- The languages that mail was found to be written in.
SELECT language FROM search_languages ORDER BY language;
