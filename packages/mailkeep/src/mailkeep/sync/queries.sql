-- name: take_account
-- Become the one process that synchronizes this account; false when another one is.
SELECT pg_try_advisory_lock(hashtextextended('mailkeep synchronizes ' || %(account_id)s, 0));

-- name: leave_account
-- Let another process synchronize this account.
SELECT pg_advisory_unlock(hashtextextended('mailkeep synchronizes ' || %(account_id)s, 0));

-- name: content_size
-- Octets that stored content occupies on disk, indexes and TOAST included.
SELECT pg_total_relation_size('email_message_contents');
