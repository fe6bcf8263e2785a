-- name: content_size
-- Octets that stored content occupies on disk, indexes and TOAST included.
SELECT pg_total_relation_size('email_message_contents');

-- name: known_within
-- Stored messages that were on the server when last looked, and quarantined ones, within ranges of UIDs.
SELECT e.uid
FROM unnest(%(lows)s::bigint[], %(highs)s::bigint[]) AS r (low, high)
CROSS JOIN LATERAL (
    SELECT uid FROM stored_emails
    WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND uid BETWEEN r.low AND r.high
      AND remote_expunge_observed_at IS NULL
    UNION
    SELECT uid FROM quarantined_messages
    WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND uid BETWEEN r.low AND r.high
) e
ORDER BY e.uid;
