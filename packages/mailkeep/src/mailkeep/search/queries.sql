-- name: latest_received
-- The instant of the newest dated message of each account, hidden ones included.
SELECT max(newest.received_at), min(oldest.received_at)
FROM unnest(%(account_ids)s::text[]) AS account (id)
CROSS JOIN LATERAL (
    SELECT e.received_at FROM stored_emails e
    WHERE e.mailbox_account_id = account.id AND e.received_at IS NOT NULL
    ORDER BY e.received_at DESC NULLS LAST, e.id DESC LIMIT 1
) newest
CROSS JOIN LATERAL (
    SELECT e.received_at FROM stored_emails e
    WHERE e.mailbox_account_id = account.id AND e.received_at IS NOT NULL
    ORDER BY e.received_at ASC NULLS FIRST, e.id ASC LIMIT 1
) oldest;

-- name: force_index
-- For this transaction: enter by the words' index, look each match up by its key, no helper processes. The planner's
-- estimates for words are guesses, and a wrong one reads the whole store (case 215).
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('max_parallel_workers_per_gather', '0', true);

-- name: freshness
-- The last committed synchronization of each binding.
SELECT f.id, c.synchronized_at
FROM mail_folders f LEFT JOIN synchronization_checkpoints c ON c.mail_folder_id = f.id
WHERE f.id = ANY(%(folder_ids)s);

-- name: extracts
-- For the window's messages: the headline of a bounded part of the body around the first word found, and beside it what
-- surrounds the first place of each word, for words that the headline does not know (CJK pairs, parts of addresses).
SELECT d.stored_email_id,
    ts_headline(coalesce(l.configuration, %(configuration)s)::regconfig,
        CASE WHEN length(body.text) <= %(part)s THEN body.text
            ELSE substr(body.text, greatest(1, coalesce(place.first, 1) - 200), %(part)s) END,
        coalesce(l.query, %(query)s)::tsquery, %(options)s),
    place.around
FROM email_search_documents d
LEFT JOIN unnest(%(languages)s::text[], %(configurations)s::text[], %(stemmed)s::text[])
    AS l (language, configuration, query) ON l.language = d.language AND l.query <> ''
-- Unpacked once and folded once: each mention of the column would do it again.
CROSS JOIN LATERAL (SELECT d.body_text || '' AS text OFFSET 0) body
CROSS JOIN LATERAL (SELECT lower(body.text) AS text OFFSET 0) folded
CROSS JOIN LATERAL (
    SELECT min(found.at) AS first,
        array_agg(substr(body.text, greatest(1, found.at - %(before)s), %(around)s) ORDER BY found.at) AS around
    FROM unnest(%(needles)s::text[]) AS needle (word)
    CROSS JOIN LATERAL (SELECT strpos(folded.text, needle.word) AS at) found
    WHERE found.at > 0
) place
WHERE d.stored_email_id = ANY(%(ids)s) AND d.body_text IS NOT NULL;

-- name: accented_words
-- Words beyond ASCII of a few messages, so that one typed without its accents can be shown where it stands.
SELECT DISTINCT word.lexeme
FROM email_search_documents d CROSS JOIN LATERAL unnest(d.search_vector) AS word
WHERE d.stored_email_id = ANY(%(ids)s) AND octet_length(word.lexeme) <> length(word.lexeme)
LIMIT 20000;
