-- Statements by name, each with its purpose. Timestamps are UTC without zone: parameters are cast, columns never
-- (INBOX-13), and every stored "now" is now() AT TIME ZONE 'UTC' (INBOX-14).

-- name: principals_of_ids
-- The tenant of every principal among some ids.
SELECT id, tenant_id FROM public.principal WHERE id = ANY(CAST(:ids AS text[]));

-- name: known_principals
-- Those of some ids that belong to a tenant.
SELECT id FROM public.principal WHERE tenant_id = CAST(:tenant_id AS text) AND id = ANY(CAST(:ids AS text[]));

-- name: insert_messages
-- Messages, their rows in lists and their events, in the order given. A known key inserts nothing (INBOX-28).
WITH item AS (
    SELECT * FROM unnest(
        CAST(:id AS text[]), CAST(:tenant_id AS text[]), CAST(:principal_id AS text[]), CAST(:address AS text[]),
        CAST(:direction AS text[]), CAST(:raw AS bytea[]), CAST(:subject AS text[]), CAST(:from_address AS text[]),
        CAST(:message_id AS text[]), CAST(:in_reply_to AS text[]), CAST(:reference_list AS text[]),
        CAST(:message_key AS text[]), CAST(:refs AS text[]), CAST(:priority AS text[]),
        CAST(:classification AS text[]), CAST(:status AS text[]), CAST(:snippet AS text[]),
        CAST(:attachments AS text[]), CAST(:body_text AS text[]), CAST(:search_text AS text[])
    ) WITH ORDINALITY AS given (
        id, tenant_id, principal_id, address, direction, raw, subject, from_address, message_id, in_reply_to,
        reference_list, message_key, refs, priority, classification, status, snippet, attachments, body_text,
        search_text, place
    )
), mail AS (
    INSERT INTO mailbox.principal_mail (
        id, tenant_id, principal_id, address, direction, raw, subject, from_address, message_id, in_reply_to,
        "references", message_key, refs, body_text, search
    )
    SELECT id, tenant_id, principal_id, address, direction, raw, subject, from_address, message_id, in_reply_to,
        CAST(reference_list AS jsonb), message_key, CAST(refs AS jsonb), body_text,
        to_tsvector('pg_catalog.simple', search_text) || array_to_tsvector(ARRAY[
            'M' || left(md5(length(tenant_id) || ':' || tenant_id || ':' || principal_id), 16),
            'M' || left(md5(length(tenant_id) || ':' || tenant_id || ':' || principal_id), 16)
                || to_char(now() AT TIME ZONE 'UTC', 'YYYYMM')])
    FROM item ORDER BY place
    ON CONFLICT (tenant_id, principal_id, message_key) WHERE message_key IS NOT NULL DO NOTHING
    RETURNING id, created_at
), listed AS (
    INSERT INTO mailbox.mailbox (
        id, tenant_id, principal_id, direction, address, created_at, from_address, subject, snippet, message_id,
        in_reply_to, refs, attachments, priority, classification, status, read_at
    )
    SELECT item.id, item.tenant_id, item.principal_id, item.direction, item.address, mail.created_at,
        item.from_address, item.subject, item.snippet, item.message_id, item.in_reply_to, CAST(item.refs AS jsonb),
        CAST(item.attachments AS jsonb), item.priority, item.classification, item.status,
        CASE WHEN item.direction = 'outbound' THEN mail.created_at END
    FROM item JOIN mail ON mail.id = item.id ORDER BY item.place
), logged AS (
    INSERT INTO mailbox.mailbox_event (tenant_id, principal_id, message_id, op)
    SELECT item.tenant_id, item.principal_id, item.id, 'create' FROM item JOIN mail ON mail.id = item.id
    ORDER BY item.place
    RETURNING message_id, seq, horizon
)
SELECT message_id AS id, seq, horizon FROM logged;

-- name: stored_frames
-- The frames behind some keys of a mailbox each: what a duplicate was a duplicate of.
SELECT mail.tenant_id, mail.principal_id, mail.message_key, mail.id, sha256(mail.raw) AS digest
FROM mailbox.principal_mail AS mail
JOIN unnest(CAST(:tenant_id AS text[]), CAST(:principal_id AS text[]), CAST(:message_key AS text[]))
    AS wanted (tenant_id, principal_id, message_key)
    ON mail.tenant_id = wanted.tenant_id AND mail.principal_id = wanted.principal_id
    AND mail.message_key = wanted.message_key;

-- name: read_detail
-- One message with its frame.
SELECT item.id, item.direction, item.address, item.created_at, item.from_address, item.subject, item.message_id,
    item.in_reply_to, item.refs::text AS refs, item.read_at, item.priority, item.classification, item.status,
    item.assignee, item.labels, item.snoozed_until, mail.raw
FROM mailbox.mailbox AS item JOIN mailbox.principal_mail AS mail ON mail.id = item.id
WHERE item.id = CAST(:id AS text) AND item.tenant_id = CAST(:tenant_id AS text)
    AND item.principal_id = CAST(:principal_id AS text) AND item.direction = ANY(CAST(:directions AS text[]));

-- name: count_unread
-- Unread, neither archived nor in the trash nor asleep; the first count reads an index alone (INBOX-81).
SELECT (
    SELECT count(*) FROM mailbox.mailbox
    WHERE tenant_id = CAST(:tenant_id AS text) AND principal_id = CAST(:principal_id AS text)
        AND direction = 'inbound' AND read_at IS NULL AND archived_at IS NULL AND trashed_at IS NULL
) - (
    SELECT count(*) FROM mailbox.mailbox
    WHERE tenant_id = CAST(:tenant_id AS text) AND principal_id = CAST(:principal_id AS text)
        AND snoozed_until > now() AT TIME ZONE 'UTC'
        AND direction = 'inbound' AND read_at IS NULL AND archived_at IS NULL AND trashed_at IS NULL
) AS unread;

-- name: find_by_message_id
-- The oldest carrier of a msg-id in a mailbox.
SELECT id FROM mailbox.principal_mail
WHERE tenant_id = CAST(:tenant_id AS text) AND principal_id = CAST(:principal_id AS text)
    AND message_id = CAST(:message_id AS text) AND direction = ANY(CAST(:directions AS text[]))
ORDER BY created_at, id LIMIT 1;

-- name: thread_page
-- Messages of a mailbox under one ref, oldest first, after a place; state is looked up for the page alone.
SELECT mail.*, item.read_at, item.archived_at
FROM (
    SELECT stored.id, stored.message_id, stored.in_reply_to, stored."references"::text AS reference_list,
        stored.from_address, stored.subject, stored.created_at, stored.direction
    FROM mailbox.principal_mail AS stored
    WHERE stored.tenant_id = CAST(:tenant_id AS text) AND stored.principal_id = CAST(:principal_id AS text)
        AND stored.refs @> CAST(:ref AS jsonb) AND stored.direction = ANY(CAST(:directions AS text[]))
        AND (stored.created_at, stored.id) > (CAST(:created_at AS timestamp), CAST(:id AS text))
    ORDER BY stored.created_at, stored.id LIMIT :limit
) AS mail
LEFT JOIN mailbox.mailbox AS item ON item.id = mail.id
ORDER BY mail.created_at, mail.id;

-- name: thread_carriers
-- The oldest carrier of each of some msg-ids, in a mailbox under one ref. Neither frame nor state is read.
SELECT wanted.message_id AS wanted_id, mail.id, mail.message_id, mail.in_reply_to,
    mail."references"::text AS reference_list, mail.created_at
FROM unnest(CAST(:message_ids AS text[])) AS wanted (message_id)
CROSS JOIN LATERAL (
    SELECT stored.id, stored.message_id, stored.in_reply_to, stored."references", stored.created_at
    FROM mailbox.principal_mail AS stored
    WHERE stored.tenant_id = CAST(:tenant_id AS text) AND stored.principal_id = CAST(:principal_id AS text)
        AND stored.message_id = wanted.message_id
        AND stored.refs @> CAST(:ref AS jsonb) AND stored.direction = ANY(CAST(:directions AS text[]))
    ORDER BY stored.created_at, stored.id LIMIT 1
) AS mail;

-- name: purge_tenant
-- All of a tenant: messages, by cascade their rows in lists, and what was logged.
WITH events AS (DELETE FROM mailbox.mailbox_event WHERE tenant_id = CAST(:tenant_id AS text)),
gone AS (DELETE FROM mailbox.principal_mail WHERE tenant_id = CAST(:tenant_id AS text) RETURNING 1)
SELECT count(*) FROM gone;

-- name: purge_principal
-- All of one mailbox.
WITH events AS (
    DELETE FROM mailbox.mailbox_event
    WHERE tenant_id = CAST(:tenant_id AS text) AND principal_id = CAST(:principal_id AS text)
), gone AS (
    DELETE FROM mailbox.principal_mail
    WHERE tenant_id = CAST(:tenant_id AS text) AND principal_id = CAST(:principal_id AS text) RETURNING 1
)
SELECT count(*) FROM gone;

-- name: purge_some
-- The oldest messages of a tenant, or of one of its mailboxes, below a moment; so many at once.
WITH chosen AS (
    SELECT id FROM mailbox.principal_mail
    WHERE tenant_id = CAST(:tenant_id AS text)
        AND (CAST(:principal_id AS text) IS NULL OR principal_id = CAST(:principal_id AS text))
        AND created_at < CAST(:cutoff AS timestamp)
    LIMIT :limit FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM mailbox.principal_mail AS mail USING chosen WHERE mail.id = chosen.id RETURNING 1
)
SELECT count(*) FROM gone;

-- name: purge_events
-- What was logged of a tenant, or of one of its mailboxes, before a moment.
DELETE FROM mailbox.mailbox_event
WHERE tenant_id = CAST(:tenant_id AS text)
    AND (CAST(:principal_id AS text) IS NULL OR principal_id = CAST(:principal_id AS text))
    AND created_at < CAST(:cutoff AS timestamp);

-- name: export_page
-- Messages of a tenant with frame and state, mailbox by mailbox, oldest first.
SELECT mail.id, mail.tenant_id, mail.principal_id, mail.address, mail.direction, mail.raw, mail.message_key,
    mail.refs::text AS refs, mail.created_at, item.read_at, item.archived_at, item.trashed_at, item.snoozed_until,
    item.priority, item.classification, item.status, item.assignee, item.labels
FROM mailbox.principal_mail AS mail LEFT JOIN mailbox.mailbox AS item ON item.id = mail.id
WHERE mail.tenant_id = CAST(:tenant_id AS text)
    AND (mail.principal_id, mail.created_at, mail.id)
        > (CAST(:principal_id AS text), CAST(:created_at AS timestamp), CAST(:id AS text))
ORDER BY mail.principal_id, mail.created_at, mail.id LIMIT :limit;

-- name: event_position
-- Where a reader stands who has seen everything that is committed by now.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon;

-- name: read_events
-- What was logged of one mailbox after a place, and what the log can still answer.
SELECT snapshot.horizon, snapshot.ceiling, floor.transaction_id AS floor_transaction, floor.seq AS floor_seq,
    page.seq, page.tenant_id, page.principal_id, page.message_id, page.op, page.transaction_id,
    page.horizon AS event_horizon
FROM (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS ceiling
) AS snapshot
LEFT JOIN (
    SELECT transaction_id, seq FROM mailbox.mailbox_event
    WHERE tenant_id = CAST(:tenant_id AS text) AND principal_id = CAST(:principal_id AS text) AND is_floor
    ORDER BY transaction_id DESC, seq DESC LIMIT 1
) AS floor ON true
LEFT JOIN (
    SELECT * FROM mailbox.mailbox_event
    WHERE tenant_id = CAST(:tenant_id AS text) AND principal_id = CAST(:principal_id AS text) AND NOT is_floor
        AND (transaction_id, seq) > (CAST(:transaction_id AS bigint), CAST(:seq AS bigint))
    ORDER BY transaction_id, seq LIMIT :limit
) AS page ON page.transaction_id < snapshot.ceiling
ORDER BY page.transaction_id, page.seq;

-- name: read_all_events
-- The same of every mailbox, for a bus that lost its connection.
SELECT snapshot.horizon, snapshot.ceiling, floor.transaction_id AS floor_transaction, floor.seq AS floor_seq,
    page.seq, page.tenant_id, page.principal_id, page.message_id, page.op, page.transaction_id,
    page.horizon AS event_horizon
FROM (
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS horizon,
        pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS ceiling
) AS snapshot
LEFT JOIN (
    SELECT transaction_id, seq FROM mailbox.mailbox_event
    WHERE is_floor AND (transaction_id, seq) > (CAST(:transaction_id AS bigint), CAST(:seq AS bigint))
    ORDER BY transaction_id DESC, seq DESC LIMIT 1
) AS floor ON true
LEFT JOIN (
    SELECT * FROM mailbox.mailbox_event
    WHERE NOT is_floor AND (transaction_id, seq) > (CAST(:transaction_id AS bigint), CAST(:seq AS bigint))
    ORDER BY transaction_id, seq LIMIT :limit
) AS page ON page.transaction_id < snapshot.ceiling
ORDER BY page.transaction_id, page.seq;

-- name: trim_events
-- Leave the newest events of a mailbox; the newest one that goes stays as the mark of how far back the log reaches.
-- One writer at a time does this: another one that finds it busy leaves it.
WITH turn AS (
    SELECT pg_try_advisory_xact_lock(170339329, hashtext(CAST(:tenant_id AS text) || ':' || CAST(:principal_id AS text)))
        AS is_ours
), edge AS (
    SELECT transaction_id, seq FROM mailbox.mailbox_event, turn
    WHERE turn.is_ours AND tenant_id = CAST(:tenant_id AS text) AND principal_id = CAST(:principal_id AS text)
    ORDER BY transaction_id DESC, seq DESC OFFSET :keep LIMIT 1
), gone AS (
    DELETE FROM mailbox.mailbox_event AS event USING edge
    WHERE event.tenant_id = CAST(:tenant_id AS text) AND event.principal_id = CAST(:principal_id AS text)
        AND (event.transaction_id, event.seq) < (edge.transaction_id, edge.seq)
)
UPDATE mailbox.mailbox_event AS event SET is_floor = true FROM edge WHERE event.seq = edge.seq AND NOT event.is_floor;

-- name: age_events
-- Leave the events since a moment. In each mailbox the newest one that goes stays as the mark.
WITH edge AS (
    SELECT DISTINCT ON (tenant_id, principal_id) tenant_id, principal_id, transaction_id, seq
    FROM mailbox.mailbox_event WHERE created_at < CAST(:cutoff AS timestamp)
    ORDER BY tenant_id, principal_id, transaction_id DESC, seq DESC
), marked AS (
    UPDATE mailbox.mailbox_event AS event SET is_floor = true FROM edge
    WHERE event.seq = edge.seq AND NOT event.is_floor
), gone AS (
    DELETE FROM mailbox.mailbox_event AS event USING edge
    WHERE event.tenant_id = edge.tenant_id AND event.principal_id = edge.principal_id
        AND (event.transaction_id, event.seq) < (edge.transaction_id, edge.seq) RETURNING 1
)
SELECT count(*) FROM gone;

-- name: log_event
-- One event of a mailbox.
INSERT INTO mailbox.mailbox_event (tenant_id, principal_id, message_id, op)
VALUES (CAST(:tenant_id AS text), CAST(:principal_id AS text), CAST(:message_id AS text), CAST(:op AS text))
RETURNING seq, horizon;
