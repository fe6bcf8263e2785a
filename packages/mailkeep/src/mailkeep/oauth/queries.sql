-- name: read_refresh_token
-- The sealed token of one account.
SELECT sealed_refresh_token, data_encryption_key_id, updated_at
FROM mailbox_refresh_tokens
WHERE mailbox_account_id = %(account_id)s;

-- name: store_rotated_refresh_token
-- Keep a rotated token; an older one never overwrites a newer (SYNC-45).
INSERT INTO mailbox_refresh_tokens AS kept
    (mailbox_account_id, sealed_refresh_token, data_encryption_key_id, updated_at)
VALUES (%(account_id)s, %(sealed)s, %(key_id)s, %(updated_at)s)
ON CONFLICT ON CONSTRAINT pk_mailbox_refresh_tokens DO UPDATE
SET sealed_refresh_token = EXCLUDED.sealed_refresh_token,
    data_encryption_key_id = EXCLUDED.data_encryption_key_id,
    updated_at = EXCLUDED.updated_at
WHERE kept.updated_at <= EXCLUDED.updated_at;

-- name: replace_refresh_token
-- Keep the token of a fresh consent, whatever was there (SYNC-49).
INSERT INTO mailbox_refresh_tokens AS kept
    (mailbox_account_id, sealed_refresh_token, data_encryption_key_id, updated_at)
VALUES (%(account_id)s, %(sealed)s, %(key_id)s, %(updated_at)s)
ON CONFLICT ON CONSTRAINT pk_mailbox_refresh_tokens DO UPDATE
SET sealed_refresh_token = EXCLUDED.sealed_refresh_token,
    data_encryption_key_id = EXCLUDED.data_encryption_key_id,
    updated_at = greatest(EXCLUDED.updated_at, kept.updated_at);

-- name: forget_refresh_token
-- Give up an account's token.
DELETE FROM mailbox_refresh_tokens WHERE mailbox_account_id = %(account_id)s;

-- name: count_by_key
-- How many tokens each key still seals, to know which may be retired.
SELECT data_encryption_key_id, count(*) FROM mailbox_refresh_tokens GROUP BY data_encryption_key_id;
