-- name: outstanding
-- Messages whose attachments were not read under these rules, the newest first. Each half walks the index.
(SELECT e.id FROM stored_emails e
 WHERE e.attachment_count > 0 AND e.attachments_read_by IS NULL AND e.content_availability = 'Available'
 ORDER BY e.id DESC LIMIT %(limit)s)
UNION ALL
(SELECT e.id FROM stored_emails e
 WHERE e.attachment_count > 0 AND e.attachments_read_by < %(rules)s AND e.content_availability = 'Available'
 LIMIT %(limit)s)
LIMIT %(limit)s;

-- name: content
-- The stored octets of a message and the reading that its document is about.
SELECT c.raw_mime, c.mime_byte_length, c.sha256_hash, d.extracted_at
FROM email_message_contents c JOIN email_search_documents d ON d.stored_email_id = c.stored_email_id
WHERE c.stored_email_id = %(id)s;

-- name: forget_other_readings
-- Attachments of a former reading of the message, or read under other rules.
DELETE FROM email_attachment_texts
WHERE stored_email_id = %(id)s AND (document_extracted_at <> %(extracted_at)s OR rule_version <> %(rules)s);

-- name: finished
-- Attachments of this reading that are done already: the work was interrupted behind them.
SELECT attachment_position FROM email_attachment_texts WHERE stored_email_id = %(id)s AND outcome IS NOT NULL;

-- name: begin
-- Count an attempt before it begins.
INSERT INTO email_attachment_texts (stored_email_id, attachment_position, document_extracted_at, rule_version,
    attempt_count, last_attempt_at, file_name, name_vector, media_type, size_octets)
VALUES (%(id)s, %(position)s, %(extracted_at)s, %(rules)s, 1, %(now)s, %(file_name)s,
    to_tsvector(%(configuration)s::regconfig, %(name_words)s) || %(spellings)s::tsvector,
    %(media_type)s, %(size_octets)s)
ON CONFLICT (stored_email_id, attachment_position) DO UPDATE
SET attempt_count = email_attachment_texts.attempt_count + 1, last_attempt_at = excluded.last_attempt_at
RETURNING attempt_count;

-- name: take_back
-- An attempt that was stopped on purpose counts for nothing.
UPDATE email_attachment_texts SET attempt_count = attempt_count - 1
WHERE stored_email_id = %(id)s AND attachment_position = %(position)s AND document_extracted_at = %(extracted_at)s
    AND rule_version = %(rules)s AND outcome IS NULL;

-- name: keep_outcome
-- What became of an attachment.
UPDATE email_attachment_texts
SET outcome = %(outcome)s, is_partial = %(is_partial)s, character_count = %(character_count)s
WHERE stored_email_id = %(id)s AND attachment_position = %(position)s AND document_extracted_at = %(extracted_at)s
    AND rule_version = %(rules)s
RETURNING 1;

-- name: forget_segments
-- Text of an attempt that was interrupted behind it.
DELETE FROM email_attachment_segments WHERE stored_email_id = %(id)s AND attachment_position = %(position)s;

-- name: keep_segments
-- The pieces of an attachment with their words: as they stand, in plainer spellings, and by their stems.
INSERT INTO email_attachment_segments
    (stored_email_id, attachment_position, ordinal, starts_at, segment_text, segment_vector)
SELECT %(id)s, %(position)s, s.ordinal, s.starts_at, s.segment_text,
    to_tsvector(%(configuration)s::regconfig, s.segment_text || ' ' || s.terms)
    || s.spellings::tsvector
    || CASE WHEN %(stemming)s::text IS NULL THEN ''::tsvector
        ELSE strip(to_tsvector(%(stemming)s::text::regconfig, s.segment_text)) || array_to_tsvector(ARRAY[%(mark)s::text]) END
FROM unnest(%(ordinals)s::integer[], %(starts)s::integer[], %(texts)s::text[], %(terms)s::text[], %(spellings)s::text[])
    AS s (ordinal, starts_at, segment_text, terms, spellings);

-- name: finish_document
-- Put the names and the words of the first segments of every attachment together, in their order, beside the document.
WITH RECURSIVE chosen AS (
    SELECT s.attachment_position, s.ordinal, s.segment_vector
    FROM email_attachment_segments s
    WHERE s.stored_email_id = %(id)s
    ORDER BY s.ordinal, s.attachment_position LIMIT %(segments)s
), ordered AS (
    SELECT row_number() OVER (ORDER BY c.attachment_position, c.ordinal) AS number, c.segment_vector FROM chosen c
), names AS (
    SELECT setweight(to_tsvector(%(configuration)s::regconfig, %(name_words)s) || %(spellings)s::tsvector, 'C') AS vector
), joined (number, vector) AS (
    SELECT 0::bigint, names.vector FROM names
    UNION ALL
    SELECT o.number, joined.vector || setweight(o.segment_vector, 'C')
    FROM joined JOIN ordered o ON o.number = joined.number + 1
)
UPDATE email_search_documents d
SET attachment_names_vector = names.vector, attachment_vector = whole.vector
FROM names, (SELECT vector FROM joined ORDER BY number DESC LIMIT 1) whole
WHERE d.stored_email_id = %(id)s AND d.extracted_at = %(extracted_at)s
RETURNING 1;

-- name: finish_message
-- The attachments of a message are read under these rules.
UPDATE stored_emails SET attachments_read_by = %(rules)s WHERE id = %(id)s;

-- name: counts
-- Messages with attachments that are done, those outstanding, and those of which an attachment could not be read.
SELECT
    (SELECT count(*) FROM stored_emails WHERE attachment_count > 0 AND attachments_read_by >= %(rules)s),
    (SELECT count(*) FROM stored_emails WHERE attachment_count > 0 AND content_availability = 'Available'
        AND (attachments_read_by IS NULL OR attachments_read_by < %(rules)s)),
    (SELECT count(DISTINCT t.stored_email_id) FROM email_attachment_texts t WHERE t.outcome = ANY(%(failures)s));

-- name: outcomes
-- How many attachments came to what.
SELECT t.outcome, count(*) FROM email_attachment_texts t WHERE t.outcome IS NOT NULL GROUP BY 1 ORDER BY 1;

-- name: of_message
-- What became of each attachment of one message.
SELECT t.attachment_position, t.outcome, t.is_partial, t.character_count
FROM email_attachment_texts t WHERE t.stored_email_id = %(id)s AND t.outcome IS NOT NULL ORDER BY 1;

-- name: text
-- A stretch of the text of one attachment: the pieces that hold it, and where the first of them begins.
SELECT min(s.starts_at), string_agg(s.segment_text, '' ORDER BY s.ordinal)
FROM email_attachment_segments s
WHERE s.stored_email_id = %(id)s AND s.attachment_position = %(position)s
    AND s.starts_at + length(s.segment_text) > %(offset)s AND s.starts_at < %(offset)s + %(limit)s;

-- name: hits
-- Of each message the attachments in which the words of a query stand: those that hold all of them, or, where neither
-- an attachment nor the message itself does, those that hold some. The best piece of each is cut for a snippet, in the
-- words of its own language, from the first needle on, since a headline's cost is its length.
SELECT found.stored_email_id, found.attachment_position, found.file_name, found.media_type,
    coalesce(ts_headline(coalesce(l.configuration, %(configuration)s)::regconfig,
        CASE WHEN needle.first IS NULL THEN found.segment_text
            ELSE substr(found.segment_text, greatest(1, needle.first - %(before)s), %(part)s) END,
        coalesce(l.query::tsquery, %(some)s::tsquery), %(options)s), ''),
    coalesce(found.segment_text, '')
FROM (
    SELECT candidate.*, row_number() OVER (PARTITION BY candidate.stored_email_id
        ORDER BY candidate.holds_all DESC, candidate.rank DESC, candidate.attachment_position) AS place,
        bool_or(candidate.holds_all) OVER (PARTITION BY candidate.stored_email_id) AS any_holds_all
    FROM (
        SELECT t.stored_email_id, t.attachment_position, t.file_name, t.media_type,
            best.segment_text, best.segment_vector,
            coalesce(best.holds_all, false) OR t.name_vector @@ %(whole)s::tsquery AS holds_all,
            coalesce(best.rank, 0) + ts_rank(t.name_vector, %(some)s::tsquery) AS rank,
            best.segment_text IS NOT NULL OR t.name_vector @@ %(some)s::tsquery AS holds_some
        FROM email_attachment_texts t
        LEFT JOIN LATERAL (
            SELECT s.segment_text, s.segment_vector, s.segment_vector @@ %(whole)s::tsquery AS holds_all,
                ts_rank(s.segment_vector, %(some)s::tsquery) AS rank
            FROM email_attachment_segments s
            WHERE s.stored_email_id = t.stored_email_id AND s.attachment_position = t.attachment_position
                AND s.segment_vector @@ %(some)s::tsquery
            ORDER BY 3 DESC, 4 DESC, s.ordinal LIMIT 1
        ) best ON true
        WHERE t.stored_email_id = ANY(%(ids)s) AND t.outcome IS NOT NULL
    ) candidate
    WHERE candidate.holds_some
) found
JOIN email_search_documents d ON d.stored_email_id = found.stored_email_id
LEFT JOIN unnest(%(marks)s::text[], %(configurations)s::text[], %(stemmed)s::text[]) AS l (mark, configuration, query)
    ON found.segment_vector @@ l.mark::tsquery AND l.query <> ''
CROSS JOIN LATERAL (
    SELECT min(nullif(strpos(lower(found.segment_text), n.word), 0)) AS first FROM unnest(%(needles)s::text[]) AS n (word)
) needle
WHERE found.place <= %(per_message)s
    AND CASE WHEN found.any_holds_all THEN found.holds_all ELSE NOT d.search_vector @@ %(whole)s::tsquery END
ORDER BY found.stored_email_id, found.place;
