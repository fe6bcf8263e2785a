-- name: lock_account
-- One placement at a time per account: two arrivals that bind one identifier meet (SYNC-115).
SELECT pg_advisory_xact_lock(%(key)s);

-- name: bound_identifiers
-- The conversations that the identifiers of a batch, or its stored rows, belong to already.
SELECT i.identifier_hash, i.email_thread_id, t.assembled_at
FROM email_thread_identifiers i
JOIN email_threads t ON t.id = i.email_thread_id
WHERE i.mailbox_account_id = %(account_id)s AND i.identifier_hash = ANY(%(hashes)s);

-- name: threads
-- When the named conversations were assembled.
SELECT id, assembled_at FROM email_threads WHERE id = ANY(%(thread_ids)s);

-- name: members
-- Stored messages of the touched conversations that a message of the batch answers or is answered by.
SELECT id, internet_message_id, in_reply_to, parent_stored_email_id
FROM stored_emails
WHERE email_thread_id = ANY(%(thread_ids)s)
  AND (internet_message_id = ANY(%(answered)s)
       OR (parent_stored_email_id IS NULL AND in_reply_to = ANY(%(arrived)s)));

-- name: ancestors
-- Every message above the given ones; UNION drops what was met before, so a cycle ends.
WITH RECURSIVE above (id, parent) AS (
    SELECT id, parent_stored_email_id FROM stored_emails WHERE id = ANY(%(ids)s)
    UNION
    SELECT e.id, e.parent_stored_email_id FROM above JOIN stored_emails e ON e.id = above.parent
)
SELECT id, parent FROM above;

-- name: add_threads
-- Start conversations.
INSERT INTO email_threads (id, mailbox_account_id, assembled_at)
SELECT id, %(account_id)s, %(now)s FROM unnest(%(thread_ids)s::uuid[]) AS id;

-- name: bind_identifiers
-- Bind identifiers that no conversation of the account had yet.
INSERT INTO email_thread_identifiers (mailbox_account_id, identifier_hash, email_thread_id)
SELECT %(account_id)s, hash, thread_id FROM unnest(%(hashes)s::text[], %(thread_ids)s::uuid[]) AS b (hash, thread_id);

-- name: lock_members
-- Rows are locked in the order of their ids, as every multi-row write does (DATA-13).
SELECT id FROM stored_emails WHERE email_thread_id = ANY(%(losers)s) ORDER BY id FOR UPDATE;

-- name: move_members
-- A merge: the mail of the losing conversations goes to the survivor.
UPDATE stored_emails e SET email_thread_id = m.survivor
FROM unnest(%(losers)s::uuid[], %(survivors)s::uuid[]) AS m (loser, survivor)
WHERE e.email_thread_id = m.loser;

-- name: move_identifiers
-- A merge: the identifiers follow.
UPDATE email_thread_identifiers i SET email_thread_id = m.survivor
FROM unnest(%(losers)s::uuid[], %(survivors)s::uuid[]) AS m (loser, survivor)
WHERE i.email_thread_id = m.loser;

-- name: point_losers
-- A merge: the losing rows stay and lead to the survivor, because their ids are published.
UPDATE email_threads t SET merged_into_email_thread_id = m.survivor
FROM unnest(%(losers)s::uuid[], %(survivors)s::uuid[]) AS m (loser, survivor)
WHERE t.id = m.loser;

-- name: adopt
-- Replies that were stored before the message they answer.
UPDATE stored_emails e SET parent_stored_email_id = a.parent
FROM unnest(%(children)s::uuid[], %(parents)s::uuid[]) AS a (child, parent)
WHERE e.id = a.child AND e.parent_stored_email_id IS NULL;

-- name: survivor
-- Follow the merges of a published conversation id, at most 64 of them.
WITH RECURSIVE chain (id, next, steps) AS (
    SELECT id, merged_into_email_thread_id, 0 FROM email_threads WHERE id = %(thread_id)s
    UNION ALL
    SELECT t.id, t.merged_into_email_thread_id, chain.steps + 1
    FROM chain JOIN email_threads t ON t.id = chain.next
    WHERE chain.steps < %(max_merges)s
)
SELECT id FROM chain ORDER BY steps DESC LIMIT 1;

-- name: thread_entries
-- The visible messages of one conversation in the readable folders, one more than are shown.
SELECT id, parent_stored_email_id, sent_at
FROM stored_emails
WHERE email_thread_id = %(thread_id)s AND mail_folder_id = ANY(%(folder_ids)s)
  AND (remote_expunge_observed_at IS NULL OR is_retained_after_authored_delete)
ORDER BY id
LIMIT %(limit)s;
