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

-- name: facets
-- Counts of the ranked messages by sender, folder and month; the folders once more, since statements see snapshots.
SELECT 'sender', lower(e.sender_normalized_address), count(*) FROM stored_emails e
WHERE e.id = ANY(%(ids)s) AND e.mail_folder_id = ANY(%(folder_ids)s) AND e.sender_normalized_address IS NOT NULL
GROUP BY 2
UNION ALL
SELECT 'folder', e.mail_folder_id::text, count(*) FROM stored_emails e
WHERE e.id = ANY(%(ids)s) AND e.mail_folder_id = ANY(%(folder_ids)s)
GROUP BY 2
UNION ALL
SELECT 'month', to_char(e.received_at AT TIME ZONE 'UTC', 'YYYY-MM'), count(*) FROM stored_emails e
WHERE e.id = ANY(%(ids)s) AND e.mail_folder_id = ANY(%(folder_ids)s) AND e.received_at IS NOT NULL
GROUP BY 2;

-- name: terms_of_message
-- Words of letters out of one message's subject (A) and body (D), and in how many sampled messages each stands.
SELECT term.lexeme, term.occurrences, term.is_in_subject, sampled.messages
FROM (
    SELECT word.lexeme, coalesce(array_length(word.positions, 1), 1) AS occurrences, 'A' = ANY(word.weights) AS is_in_subject
    FROM email_search_documents d CROSS JOIN LATERAL unnest(d.search_vector) AS word
    WHERE d.stored_email_id = %(id)s AND word.positions IS NOT NULL AND word.weights && '{A,D}'
      AND length(word.lexeme) BETWEEN 2 AND 32 AND word.lexeme !~ '[^[:alpha:]]'
      AND (length(word.lexeme) > 2 OR octet_length(word.lexeme) > 4)
    ORDER BY is_in_subject DESC, occurrences DESC, length(word.lexeme) DESC, word.lexeme
    LIMIT %(at_most)s
) term
CROSS JOIN LATERAL (
    SELECT count(*) AS messages FROM email_search_documents d
    WHERE (d.search_vector || coalesce(d.attachment_vector, ''::tsvector))
        @@ (%(sample)s::tsquery && array_to_tsvector(ARRAY[term.lexeme])::text::tsquery)
) sampled;

-- name: sample_size
-- The messages in the sample of all mail.
SELECT count(*) FROM email_search_documents d
WHERE (d.search_vector || coalesce(d.attachment_vector, ''::tsvector)) @@ %(sample)s::tsquery;

-- name: saved_searches
-- Every saved search by name.
SELECT name, query_text, created_at, updated_at FROM saved_searches ORDER BY lower(name);

-- name: saved_search
-- One saved search, any case.
SELECT name, query_text, created_at, updated_at FROM saved_searches WHERE lower(name) = lower(%(name)s);

-- name: count_saved_searches
-- How many there are.
SELECT count(*) FROM saved_searches;

-- name: save_search
-- Keep a query; true when one of that name was replaced.
INSERT INTO saved_searches (name, query_text, created_at, updated_at)
VALUES (%(name)s, %(query_text)s, %(now)s, %(now)s)
ON CONFLICT (lower(name)) DO UPDATE
SET name = excluded.name, query_text = excluded.query_text, updated_at = excluded.updated_at
RETURNING xmax <> 0;

-- name: remove_saved_search
-- Forget a query.
DELETE FROM saved_searches WHERE lower(name) = lower(%(name)s);

-- name: force_vector_index
-- For this transaction: walk the vectors' index in order of distance and look everything else up by its key.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_sort', 'off', true),
    set_config('max_parallel_workers_per_gather', '0', true), set_config('hnsw.iterative_scan', 'strict_order', true),
    set_config('hnsw.ef_search', %(ef)s::text, true), set_config('hnsw.max_scan_tuples', %(tuples)s::text, true);

-- name: free_planner
-- For the rest of the transaction, let the planner choose again.
SELECT set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true),
    set_config('enable_mergejoin', 'on', true), set_config('enable_sort', 'on', true);

-- name: passage_texts
-- The texts of a few passages.
SELECT id, text FROM email_chunks WHERE id = ANY(%(ids)s);

-- name: in_timeline_order
-- A few messages, newest first.
SELECT id FROM stored_emails WHERE id = ANY(%(ids)s) ORDER BY received_at DESC NULLS LAST, id DESC;
