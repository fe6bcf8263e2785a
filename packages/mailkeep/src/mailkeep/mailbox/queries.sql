-- name: add_account
-- An account gets its row with its first folder.
INSERT INTO mailbox_accounts (id) VALUES (%(account_id)s) ON CONFLICT DO NOTHING;

-- name: newest_binding
-- Where an alias points now.
SELECT id, mailbox_account_id, alias, resolution_generation, remote_path, hierarchy_delimiter, special_use
FROM mail_folders
WHERE mailbox_account_id = %(account_id)s AND alias = %(alias)s
ORDER BY resolution_generation DESC
LIMIT 1;

-- name: add_binding
-- Point an alias at a remote path, as its next generation.
INSERT INTO mail_folders
    (mailbox_account_id, alias, resolution_generation, remote_path, hierarchy_delimiter, special_use)
VALUES (%(account_id)s, %(alias)s, %(generation)s, %(remote_path)s, %(hierarchy_delimiter)s, %(special_use)s)
RETURNING id, mailbox_account_id, alias, resolution_generation, remote_path, hierarchy_delimiter, special_use;

-- name: set_special_use
-- The role that the server advertises for a folder may change while its path stays.
UPDATE mail_folders SET special_use = %(special_use)s WHERE id = %(folder_id)s;

-- name: bindings
-- The newest binding of every alias of an account.
SELECT DISTINCT ON (alias)
    id, mailbox_account_id, alias, resolution_generation, remote_path, hierarchy_delimiter, special_use
FROM mail_folders
WHERE mailbox_account_id = %(account_id)s
ORDER BY alias, resolution_generation DESC;

-- name: checkpoint
-- How far a folder is synchronized.
SELECT uid_validity, last_seen_uid, synchronized_at, reconciled_through_modseq,
    remote_message_count, remote_uid_next, remote_observed_at
FROM synchronization_checkpoints
WHERE mail_folder_id = %(folder_id)s;

-- name: add_checkpoint
-- The first checkpoint of a folder; nothing is returned when another run was first.
INSERT INTO synchronization_checkpoints
    (mail_folder_id, uid_validity, last_seen_uid, synchronized_at, reconciled_through_modseq,
     remote_message_count, remote_uid_next, remote_observed_at)
VALUES (%(folder_id)s, %(uid_validity)s, %(last_seen_uid)s, %(synchronized_at)s, %(reconciled_through_modseq)s,
    %(remote_message_count)s, %(remote_uid_next)s, %(remote_observed_at)s)
ON CONFLICT DO NOTHING
RETURNING mail_folder_id;

-- name: advance_checkpoint
-- Compare and set on UIDVALIDITY and last UID (SYNC-57); the instants and the sequence only rise within one UIDVALIDITY.
UPDATE synchronization_checkpoints SET
    uid_validity = %(uid_validity)s,
    last_seen_uid = %(last_seen_uid)s,
    synchronized_at = greatest(synchronized_at, %(synchronized_at)s),
    reconciled_through_modseq = CASE
        WHEN uid_validity = %(uid_validity)s
        THEN greatest(reconciled_through_modseq, %(reconciled_through_modseq)s)
        ELSE %(reconciled_through_modseq)s END,
    remote_message_count = %(remote_message_count)s,
    remote_uid_next = %(remote_uid_next)s,
    remote_observed_at = greatest(remote_observed_at, %(remote_observed_at)s),
    blocked_uid = CASE WHEN uid_validity = %(uid_validity)s THEN blocked_uid END
WHERE mail_folder_id = %(folder_id)s
  AND uid_validity = %(expected_uid_validity)s
  AND last_seen_uid IS NOT DISTINCT FROM %(expected_last_seen_uid)s
RETURNING mail_folder_id;

-- name: count_blocked_attempt
-- Another attempt at the message in front of which a folder stands; another message begins anew.
UPDATE synchronization_checkpoints SET
    blocked_attempts = CASE WHEN blocked_uid = %(uid)s THEN coalesce(blocked_attempts, 0) + 1 ELSE 1 END,
    blocked_uid = %(uid)s
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s
RETURNING blocked_attempts;

-- name: recent_uids
-- The newest messages of a folder that are here whole and small.
SELECT uid FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND remote_expunge_observed_at IS NULL
  AND content_availability = 'Available' AND size_octets <= %(max_octets)s
ORDER BY uid DESC
LIMIT %(limit)s;

-- name: account_checkpoints
-- How far every folder of an account is synchronized, older bindings included.
SELECT c.mail_folder_id, c.uid_validity, c.last_seen_uid, c.synchronized_at, c.reconciled_through_modseq,
    c.remote_message_count, c.remote_uid_next, c.remote_observed_at
FROM synchronization_checkpoints c
JOIN mail_folders f ON f.id = c.mail_folder_id
WHERE f.mailbox_account_id = %(account_id)s;

-- name: recommit_checkpoints
-- Folders in which nothing changed commit their place again, so that the freshness readers see moves (SYNC-53).
UPDATE synchronization_checkpoints c SET
    synchronized_at = greatest(c.synchronized_at, %(now)s),
    remote_observed_at = greatest(c.remote_observed_at, %(now)s)
FROM unnest(%(folder_ids)s::bigint[], %(uid_validities)s::bigint[], %(last_seen_uids)s::bigint[])
    AS e (folder_id, uid_validity, last_seen_uid)
WHERE c.mail_folder_id = e.folder_id
  AND c.uid_validity = e.uid_validity
  AND c.last_seen_uid IS NOT DISTINCT FROM e.last_seen_uid
RETURNING c.mail_folder_id;

-- name: stored_occurrences
-- Which messages of a batch are here already, mostly none: looked up one by one, as joins of a new store read it whole.
SELECT e.uid, e.id, e.email_thread_id, e.content_availability,
    (SELECT c.sha256_hash FROM email_message_contents c WHERE c.stored_email_id = e.id),
    EXISTS (SELECT FROM email_content_repair_requests r WHERE r.stored_email_id = e.id)
FROM stored_emails e
WHERE e.mail_folder_id = %(folder_id)s AND e.uid_validity = %(uid_validity)s AND e.uid = ANY(%(uids)s);

-- name: rows_follow
-- Octets and documents are written before the rows they belong to; the commit checks that these have come.
SET CONSTRAINTS fk_email_message_contents_stored_emails, fk_email_search_documents_stored_emails DEFERRED;

-- name: has_other_uid_validity
-- Whether the folder still holds mail of another UIDVALIDITY; two ranges, so that the index answers.
SELECT EXISTS (SELECT FROM stored_emails WHERE mail_folder_id = %(folder_id)s AND uid_validity < %(uid_validity)s)
    OR EXISTS (SELECT FROM stored_emails WHERE mail_folder_id = %(folder_id)s AND uid_validity > %(uid_validity)s);

-- name: earlier_occurrences
-- Mail of the same folder under another UIDVALIDITY, in the given conversations, whose octets are those of the batch.
SELECT e.id, c.sha256_hash
FROM stored_emails e
JOIN email_message_contents c ON c.stored_email_id = e.id
WHERE e.email_thread_id = ANY(%(thread_ids)s)
  AND e.mail_folder_id = %(folder_id)s AND e.uid_validity <> %(uid_validity)s
  AND e.internet_message_id = ANY(%(message_ids)s) AND c.sha256_hash = ANY(%(digests)s)
ORDER BY e.remote_expunge_observed_at IS NOT NULL, e.uid_validity DESC, e.uid;

-- name: earlier_anonymous_occurrences
-- The same for mail without a Message-ID, to which no conversation leads: the folder is searched, and holds little of it.
SELECT e.id, c.sha256_hash
FROM stored_emails e
JOIN email_message_contents c ON c.stored_email_id = e.id
WHERE e.mail_folder_id = %(folder_id)s AND e.uid_validity <> %(uid_validity)s
  AND e.internet_message_id IS NULL AND c.sha256_hash = ANY(%(digests)s)
ORDER BY e.remote_expunge_observed_at IS NOT NULL, e.uid_validity DESC, e.uid;

-- name: unmistakable_identities
-- Rows of another UIDVALIDITY, alone there with their Message-ID and size; a tombstone makes a pair doubtful.
SELECT (array_agg(id))[1], internet_message_id, size_octets
FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND (uid_validity < %(uid_validity)s OR uid_validity > %(uid_validity)s)
  AND internet_message_id IS NOT NULL
GROUP BY internet_message_id, size_octets
HAVING count(*) = 1 AND bool_and(remote_expunge_observed_at IS NULL);

-- name: relink
-- Rows of an older UIDVALIDITY take their new identity; ids, octets and everything derived stay.
UPDATE stored_emails e SET
    uid_validity = %(uid_validity)s,
    uid = o.uid,
    size_octets = o.size_octets,
    remote_flags_observed_at = CASE WHEN o.is_observed THEN %(now)s::timestamptz END,
    is_remotely_seen = o.seen,
    is_remotely_answered = o.answered,
    is_remotely_flagged = o.flagged,
    is_remotely_draft = o.draft,
    is_remotely_deleted = o.deleted,
    remote_keywords = coalesce(string_to_array(nullif(o.keywords, ''), ' '), '{}'),
    remote_labels = coalesce(string_to_array(nullif(o.labels, ''), E'\n'), '{}'),
    remote_expunge_observed_at = NULL,
    is_retained_after_authored_delete = false
FROM unnest(%(ids)s::uuid[], %(uids)s::bigint[], %(sizes)s::bigint[], %(is_observed)s::boolean[],
        %(seen)s::boolean[], %(answered)s::boolean[], %(flagged)s::boolean[], %(draft)s::boolean[],
        %(deleted)s::boolean[], %(keywords)s::text[], %(labels)s::text[])
    AS o (id, uid, size_octets, is_observed, seen, answered, flagged, draft, deleted, keywords, labels)
WHERE e.id = o.id;

-- name: mark_oversized
-- A message that waited for room turned out to be over the size limit.
UPDATE stored_emails SET content_availability = 'ExceededSizeLimit'
WHERE id = ANY(%(ids)s) AND content_availability = 'AwaitingStorageHeadroom';

-- name: forget_repairs
-- Octets that were written again need no repair.
DELETE FROM email_content_repair_requests WHERE stored_email_id = ANY(%(ids)s);

-- name: leave_quarantine
-- A stored message is no longer quarantined.
DELETE FROM quarantined_messages
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND uid = ANY(%(uids)s);

-- name: quarantine
-- Name a message that is on the server and not here, or count another attempt at it.
INSERT INTO quarantined_messages AS q
    (mail_folder_id, uid_validity, uid, reason, detail, size_octets, attempt_count, first_seen_at, last_attempt_at,
     attempted_by_version)
VALUES (%(folder_id)s, %(uid_validity)s, %(uid)s, %(reason)s, %(detail)s, %(size_octets)s, 1, %(now)s, %(now)s,
    %(version)s)
ON CONFLICT (mail_folder_id, uid_validity, uid) DO UPDATE SET
    reason = excluded.reason,
    detail = excluded.detail,
    size_octets = coalesce(excluded.size_octets, q.size_octets),
    attempt_count = q.attempt_count + 1,
    last_attempt_at = greatest(q.last_attempt_at, excluded.last_attempt_at),
    attempted_by_version = excluded.attempted_by_version;

-- name: quarantined
-- What a folder has in quarantine, in UID order.
SELECT mail_folder_id, uid_validity, uid, reason, detail, size_octets, attempt_count, first_seen_at, last_attempt_at
FROM quarantined_messages
WHERE mail_folder_id = %(folder_id)s
ORDER BY uid_validity, uid;

-- name: unknown_uids
-- Those of the given UIDs that are neither stored nor quarantined. LATERAL keeps it at one index look-up per UID.
SELECT u.uid
FROM unnest(%(uids)s::bigint[]) AS u (uid)
LEFT JOIN LATERAL (
    SELECT 1 AS found FROM stored_emails e
    WHERE e.mail_folder_id = %(folder_id)s AND e.uid_validity = %(uid_validity)s AND e.uid = u.uid
    UNION ALL
    SELECT 1 FROM quarantined_messages q
    WHERE q.mail_folder_id = %(folder_id)s AND q.uid_validity = %(uid_validity)s AND q.uid = u.uid
    LIMIT 1
) known ON true
WHERE known.found IS NULL
ORDER BY u.uid;

-- name: local_uids
-- The UIDs of a folder that were on the server when last looked.
SELECT uid FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND remote_expunge_observed_at IS NULL
ORDER BY uid;

-- name: highest_uid
-- The last of them; the index is read from its end.
SELECT uid FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND remote_expunge_observed_at IS NULL
ORDER BY uid DESC
LIMIT 1;

-- name: local_flags
-- The last observed flags of a page of a folder, in UID order.
SELECT uid, remote_flags_observed_at IS NOT NULL, is_remotely_seen, is_remotely_answered, is_remotely_flagged,
    is_remotely_draft, is_remotely_deleted, remote_keywords, remote_labels
FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND uid > %(after_uid)s
  AND remote_expunge_observed_at IS NULL
ORDER BY uid
LIMIT %(limit)s;

-- name: apply_flags
-- Write what the server said, unless a row says so already (`touched`: then too) or is newer; returns what was before.
WITH observed AS (
    SELECT e.id, e.uid, o.seen, o.answered, o.flagged, o.draft, o.deleted, o.keywords, o.labels,
        e.remote_flags_observed_at AS observed_before, e.is_remotely_seen AS seen_before,
        e.is_remotely_answered AS answered_before, e.is_remotely_flagged AS flagged_before,
        e.is_remotely_draft AS draft_before, e.is_remotely_deleted AS deleted_before,
        e.remote_keywords AS keywords_before, e.remote_labels AS labels_before
    FROM (SELECT uid, seen, answered, flagged, draft, deleted,
                coalesce(string_to_array(nullif(keywords, ''), ' '), '{}') AS keywords,
                coalesce(string_to_array(nullif(labels, ''), E'\n'), '{}') AS labels
            FROM unnest(%(uids)s::bigint[], %(seen)s::boolean[], %(answered)s::boolean[], %(flagged)s::boolean[],
                %(draft)s::boolean[], %(deleted)s::boolean[], %(keywords)s::text[], %(labels)s::text[])
                AS o (uid, seen, answered, flagged, draft, deleted, keywords, labels)) o
    JOIN stored_emails e
        ON e.mail_folder_id = %(folder_id)s AND e.uid_validity = %(uid_validity)s AND e.uid = o.uid
    WHERE e.remote_expunge_observed_at IS NULL
      AND (e.remote_flags_observed_at IS NULL
           OR (e.remote_flags_observed_at <= %(observed_at)s
               AND ((e.is_remotely_seen, e.is_remotely_answered, e.is_remotely_flagged, e.is_remotely_draft,
                     e.is_remotely_deleted, e.remote_keywords, e.remote_labels)
                    IS DISTINCT FROM (o.seen, o.answered, o.flagged, o.draft, o.deleted, o.keywords, o.labels)
                    OR e.uid = ANY(%(touched)s::bigint[]))))
    ORDER BY e.id
    FOR UPDATE OF e
)
UPDATE stored_emails e SET
    remote_flags_observed_at = %(observed_at)s,
    is_remotely_seen = o.seen,
    is_remotely_answered = o.answered,
    is_remotely_flagged = o.flagged,
    is_remotely_draft = o.draft,
    is_remotely_deleted = o.deleted,
    remote_keywords = o.keywords,
    remote_labels = o.labels
FROM observed o
WHERE e.id = o.id
RETURNING e.id, e.uid, o.observed_before, o.seen_before, o.answered_before, o.flagged_before, o.draft_before,
    o.deleted_before, o.keywords_before, o.labels_before;

-- name: lock_gone
-- Messages that are gone from the server and were there when last looked, unless something newer is known of them.
SELECT id, uid_validity, uid FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND uid = ANY(%(uids)s)
  AND remote_expunge_observed_at IS NULL
  AND (remote_flags_observed_at IS NULL OR remote_flags_observed_at <= %(observed_at)s)
ORDER BY id
FOR UPDATE;

-- name: lock_other_uid_validities
-- After a complete pass over a recreated folder, what no new identity claimed is gone; some of it at a time.
SELECT id, uid_validity, uid FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity <> %(uid_validity)s AND remote_expunge_observed_at IS NULL
ORDER BY id
LIMIT %(limit)s
FOR UPDATE;

-- name: bury
-- Tombstones: the messages are gone from the server; their copies stay, hidden (SYNC-79) or readable (SYNC-80).
UPDATE stored_emails SET
    remote_expunge_observed_at = coalesce(remote_expunge_observed_at, %(observed_at)s),
    is_retained_after_authored_delete = %(is_retained)s
WHERE id = ANY(%(ids)s);

-- name: erase
-- The messages are gone from the server, and so are their copies with everything derived (SYNC-79).
DELETE FROM stored_emails WHERE id = ANY(%(ids)s);

-- name: lock_retained
-- Those of the named messages whose copies are kept readable although they are gone from the server.
SELECT id FROM stored_emails
WHERE id = ANY(%(ids)s) AND remote_expunge_observed_at IS NOT NULL AND is_retained_after_authored_delete
ORDER BY id
FOR UPDATE;

-- name: carry
-- Rows go over to where their messages were moved; whatever hangs on them stays (SYNC-81). Occupied places are left out.
UPDATE stored_emails e SET
    mail_folder_id = %(folder_id)s,
    uid_validity = %(uid_validity)s,
    uid = o.uid,
    remote_flags_observed_at = CASE WHEN o.is_observed THEN %(observed_at)s::timestamptz END,
    is_remotely_seen = o.seen,
    is_remotely_answered = o.answered,
    is_remotely_flagged = o.flagged,
    is_remotely_draft = o.draft,
    is_remotely_deleted = o.deleted,
    remote_keywords = coalesce(string_to_array(nullif(o.keywords, ''), ' '), '{}'),
    remote_labels = coalesce(string_to_array(nullif(o.labels, ''), E'\n'), '{}'),
    remote_expunge_observed_at = NULL,
    is_retained_after_authored_delete = false
FROM unnest(%(ids)s::uuid[], %(uids)s::bigint[], %(is_observed)s::boolean[], %(seen)s::boolean[],
        %(answered)s::boolean[], %(flagged)s::boolean[], %(draft)s::boolean[], %(deleted)s::boolean[],
        %(keywords)s::text[], %(labels)s::text[])
    AS o (id, uid, is_observed, seen, answered, flagged, draft, deleted, keywords, labels)
WHERE e.id = o.id
  AND NOT EXISTS (SELECT FROM stored_emails t WHERE t.mail_folder_id = %(folder_id)s
      AND t.uid_validity = %(uid_validity)s AND t.uid = o.uid)
RETURNING e.id;

-- name: carry_documents
-- Their documents name the folder too, in a column and in the vector.
UPDATE email_search_documents SET mail_folder_id = %(folder_id)s WHERE stored_email_id = ANY(%(ids)s);

-- name: leave_quarantine_of_other_uid_validities
-- Quarantined UIDs of an older UIDVALIDITY name nothing any more.
DELETE FROM quarantined_messages WHERE mail_folder_id = %(folder_id)s AND uid_validity <> %(uid_validity)s;

-- name: awaiting_content
-- The queue of messages whose octets wait for storage room (SYNC-68).
SELECT uid, size_octets FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s
  AND content_availability = 'AwaitingStorageHeadroom' AND remote_expunge_observed_at IS NULL
ORDER BY uid
LIMIT %(limit)s;

-- name: folders_awaiting_content
-- The folders of an account that have such a queue, with its smallest message.
SELECT e.mail_folder_id, min(e.size_octets)
FROM stored_emails e
JOIN mail_folders f ON f.id = e.mail_folder_id
JOIN synchronization_checkpoints c ON c.mail_folder_id = e.mail_folder_id AND c.uid_validity = e.uid_validity
WHERE f.mailbox_account_id = %(account_id)s
  AND e.content_availability = 'AwaitingStorageHeadroom' AND e.remote_expunge_observed_at IS NULL
GROUP BY e.mail_folder_id;

-- name: folder_status
-- What every folder of an account holds, against what its server last said.
SELECT f.id, f.alias, f.remote_path, f.special_use, c.remote_message_count, c.remote_observed_at, c.synchronized_at,
    coalesce(s.stored, 0), coalesce(s.unreadable, 0), coalesce(s.tombstoned, 0), coalesce(s.oversized, 0),
    coalesce(s.awaiting, 0),
    (SELECT count(*) FROM quarantined_messages q WHERE q.mail_folder_id = f.id
        AND (c.uid_validity IS NULL OR q.uid_validity = c.uid_validity)),
    coalesce(d.damaged, 0), coalesce(d.unrepairable, 0),
    p.proved_at, p.server_count, p.hole_count, p.surplus_count, coalesce(s.retained, 0)
FROM (SELECT DISTINCT ON (alias) id, alias, remote_path, special_use FROM mail_folders
        WHERE mailbox_account_id = %(account_id)s ORDER BY alias, resolution_generation DESC) f
LEFT JOIN synchronization_checkpoints c ON c.mail_folder_id = f.id
LEFT JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE e.remote_expunge_observed_at IS NULL
            AND (c.uid_validity IS NULL OR e.uid_validity = c.uid_validity)) AS stored,
        count(*) FILTER (WHERE e.remote_expunge_observed_at IS NULL AND NOT e.is_structurally_read) AS unreadable,
        count(*) FILTER (WHERE e.remote_expunge_observed_at IS NOT NULL
            AND NOT e.is_retained_after_authored_delete) AS tombstoned,
        count(*) FILTER (WHERE e.remote_expunge_observed_at IS NOT NULL
            AND e.is_retained_after_authored_delete) AS retained,
        count(*) FILTER (WHERE e.remote_expunge_observed_at IS NULL
            AND e.content_availability = 'ExceededSizeLimit') AS oversized,
        count(*) FILTER (WHERE e.remote_expunge_observed_at IS NULL
            AND e.content_availability = 'AwaitingStorageHeadroom') AS awaiting
    FROM stored_emails e WHERE e.mail_folder_id = f.id
) s ON true
LEFT JOIN (
    SELECT e.mail_folder_id, count(*) AS damaged, count(*) FILTER (WHERE r.last_attempt_outcome IS NOT NULL
        OR e.remote_expunge_observed_at IS NOT NULL) AS unrepairable
    FROM email_content_repair_requests r
    JOIN stored_emails e ON e.id = r.stored_email_id
    WHERE e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete
    GROUP BY e.mail_folder_id
) d ON d.mail_folder_id = f.id
LEFT JOIN completeness_proofs p ON p.mail_folder_id = f.id
ORDER BY f.alias;

-- name: folders_of_accounts
-- Every binding, older generations included, of the given accounts.
SELECT id, mailbox_account_id, alias, special_use
FROM mail_folders
WHERE mailbox_account_id = ANY(%(account_ids)s)
ORDER BY mailbox_account_id, alias, resolution_generation;

-- name: readable_rows
-- The visible messages among the named ones that lie in readable folders, with what a content read shows of them.
SELECT e.id, e.mail_folder_id, e.email_thread_id, e.size_octets, e.content_availability, e.internet_message_id,
    e.subject, e.sent_at, e.received_at, e.is_structurally_read, e.remote_flags_observed_at,
    e.is_remotely_seen, e.is_remotely_answered, e.is_remotely_flagged, e.is_remotely_draft, e.is_remotely_deleted,
    e.remote_keywords || e.remote_labels AS remote_keywords, e.gmail_message_id, e.gmail_thread_id,
    e.sender_display_name, e.sender_address, e.sender_normalized_address,
    e.reply_to_addresses, e.to_addresses, e.cc_addresses
FROM stored_emails e
WHERE e.id = ANY(%(ids)s) AND e.mail_folder_id = ANY(%(folder_ids)s)
  AND (e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete);

-- name: content
-- The octets of one message and what they must measure.
SELECT raw_mime, mime_byte_length, sha256_hash FROM email_message_contents WHERE stored_email_id = %(id)s;

-- name: request_repair
-- A read found stored octets unusable: the latest sighting keeps its defect, the count always rises (SYNC-120).
INSERT INTO email_content_repair_requests AS r
    (stored_email_id, defect, first_requested_at, last_requested_at, request_count)
VALUES (%(id)s, %(defect)s, %(now)s, %(now)s, 1)
ON CONFLICT (stored_email_id) DO UPDATE SET
    defect = CASE WHEN excluded.last_requested_at >= r.last_requested_at THEN excluded.defect ELSE r.defect END,
    last_requested_at = greatest(r.last_requested_at, excluded.last_requested_at),
    request_count = r.request_count + 1;

-- name: request_repairs
-- The same for many at once; messages that were erased meanwhile are passed by.
INSERT INTO email_content_repair_requests AS r
    (stored_email_id, defect, first_requested_at, last_requested_at, request_count)
SELECT e.id, d.defect, %(now)s, %(now)s, 1
FROM unnest(%(ids)s::uuid[], %(defects)s::text[]) AS d (id, defect)
JOIN stored_emails e ON e.id = d.id
ORDER BY e.id
ON CONFLICT (stored_email_id) DO UPDATE SET
    defect = CASE WHEN excluded.last_requested_at >= r.last_requested_at THEN excluded.defect ELSE r.defect END,
    last_requested_at = greatest(r.last_requested_at, excluded.last_requested_at),
    request_count = r.request_count + 1;

-- name: erase_some_of_account
-- One pass of erasing an account: its messages with everything that hangs on them.
DELETE FROM stored_emails
WHERE id IN (SELECT id FROM stored_emails WHERE mailbox_account_id = %(account_id)s ORDER BY id LIMIT %(limit)s);

-- name: erase_account
-- What is left of an account without messages: folders, checkpoints, conversations, quarantine.
DELETE FROM mailbox_accounts WHERE id = %(account_id)s;

-- name: erase_mutation_audit_entries
-- Entries of changes outlive their messages, not their account.
DELETE FROM mailbox_mutation_audit_entries WHERE mailbox_account_id = %(account_id)s;

-- name: erase_refresh_token
-- The account's sealed token names it without a key (DATA-20).
DELETE FROM mailbox_refresh_tokens WHERE mailbox_account_id = %(account_id)s;

-- name: erase_rederivation_positions
-- The account's unfinished walks name it without a key (DATA-20).
DELETE FROM mail_rederivation_positions WHERE mailbox_account_id = %(account_id)s;

-- name: erase_rederivation_runs
-- So do its re-derivation runs.
DELETE FROM mail_rederivation_runs WHERE mailbox_account_id = %(account_id)s;

-- name: request_rederivation
-- Begin a run of a scope, unless one is outstanding: then nothing is returned (SYNC-126).
INSERT INTO mail_rederivation_runs AS r
    (mailbox_account_id, folder_alias, run_id, requested_at, segment_count, rederived_email_count,
     unreadable_email_count, missing_content_email_count, ended_at)
VALUES (%(account_id)s, %(alias)s, %(run_id)s, %(now)s, 0, 0, 0, 0, NULL)
ON CONFLICT (mailbox_account_id, folder_alias) DO UPDATE SET
    run_id = excluded.run_id,
    requested_at = excluded.requested_at,
    segment_count = 0,
    rederived_email_count = 0,
    unreadable_email_count = 0,
    missing_content_email_count = 0,
    ended_at = NULL
WHERE r.ended_at IS NOT NULL
RETURNING run_id;

-- name: rederivation_runs
-- The runs of an account, by scope; the whole account first.
SELECT mailbox_account_id, folder_alias, run_id, requested_at, segment_count, rederived_email_count,
    unreadable_email_count, missing_content_email_count, ended_at
FROM mail_rederivation_runs
WHERE mailbox_account_id = %(account_id)s
ORDER BY folder_alias;

-- name: rederivation_position
-- Where the walk of a scope stands.
SELECT last_processed_stored_email_id FROM mail_rederivation_positions
WHERE mailbox_account_id = %(account_id)s AND folder_alias = %(alias)s;

-- name: rederivation_page
-- The next messages of a scope in the order of their ids, with the length of their octets, null without any.
SELECT e.id, e.content_availability, octet_length(c.raw_mime)
FROM stored_emails e
JOIN mail_folders f ON f.id = e.mail_folder_id
LEFT JOIN email_message_contents c ON c.stored_email_id = e.id
WHERE e.mailbox_account_id = %(account_id)s AND e.id > %(after)s AND (%(alias)s::text = '' OR f.alias = %(alias)s)
ORDER BY e.id
LIMIT %(limit)s;

-- name: rederivation_contents
-- The octets of the named messages, with what identifies the occurrence and what no octets tell.
SELECT e.id, e.uid, e.uid_validity, e.size_octets, e.received_at,
    f.id, f.mailbox_account_id, f.alias, f.resolution_generation, f.remote_path, f.hierarchy_delimiter,
    c.raw_mime, c.mime_byte_length, c.sha256_hash
FROM stored_emails e
JOIN mail_folders f ON f.id = e.mail_folder_id
JOIN email_message_contents c ON c.stored_email_id = e.id
WHERE e.id = ANY(%(ids)s)
ORDER BY e.id;

-- name: rederivation_targets
-- Lock the named messages in the order of their ids; what is stored of each now, in case it changed since it was read.
SELECT e.id, c.sha256_hash, e.email_thread_id
FROM stored_emails e
JOIN email_message_contents c ON c.stored_email_id = e.id
WHERE e.id = ANY(%(ids)s)
ORDER BY e.id
FOR UPDATE OF e;

-- name: advance_rederivation_position
-- The walk moves with the batch it is written in, from where this process believes it to stand.
INSERT INTO mail_rederivation_positions AS p
    (mailbox_account_id, folder_alias, last_processed_stored_email_id, updated_at)
VALUES (%(account_id)s, %(alias)s, %(position)s, %(now)s)
ON CONFLICT (mailbox_account_id, folder_alias) DO UPDATE SET
    last_processed_stored_email_id = excluded.last_processed_stored_email_id,
    updated_at = excluded.updated_at
WHERE p.last_processed_stored_email_id = %(expected)s
RETURNING mailbox_account_id;

-- name: count_rederivation
-- Add a batch to the counts of the outstanding run; nothing is returned when it is outstanding no more.
UPDATE mail_rederivation_runs SET
    segment_count = segment_count + %(segments)s,
    rederived_email_count = rederived_email_count + %(rederived)s,
    unreadable_email_count = unreadable_email_count + %(unreadable)s,
    missing_content_email_count = missing_content_email_count + %(missing)s
WHERE mailbox_account_id = %(account_id)s AND folder_alias = %(alias)s AND run_id = %(run_id)s AND ended_at IS NULL
RETURNING run_id;

-- name: end_rederivation
-- The walk met the end of its scope.
UPDATE mail_rederivation_runs SET ended_at = %(now)s
WHERE mailbox_account_id = %(account_id)s AND folder_alias = %(alias)s AND run_id = %(run_id)s AND ended_at IS NULL
RETURNING run_id;

-- name: forget_rederivation_position
-- An ended walk stands nowhere.
DELETE FROM mail_rederivation_positions WHERE mailbox_account_id = %(account_id)s AND folder_alias = %(alias)s;

-- name: count_of_scope
-- How many messages are stored of an account, or under one of its aliases, older bindings included.
SELECT count(*)
FROM stored_emails e
JOIN mail_folders f ON f.id = e.mail_folder_id
WHERE f.mailbox_account_id = %(account_id)s AND (%(alias)s::text = '' OR f.alias = %(alias)s);

-- name: rewind
-- Forget how far the folders of a scope are synchronized; a run in flight fails its compare-and-set (SYNC-128).
DELETE FROM synchronization_checkpoints c USING mail_folders f
WHERE f.id = c.mail_folder_id
  AND f.mailbox_account_id = %(account_id)s AND (%(alias)s::text = '' OR f.alias = %(alias)s);

-- name: folders_of_alias
-- Every binding of one alias, older generations included.
SELECT id FROM mail_folders WHERE mailbox_account_id = %(account_id)s AND alias = %(alias)s;

-- name: erase_some_of_folders
-- One pass of erasing folders: messages with everything that hangs on them, locked in the order of their ids.
WITH chosen AS (
    SELECT id FROM stored_emails WHERE mail_folder_id = ANY(%(folder_ids)s) LIMIT %(limit)s
), gone AS (
    SELECT id FROM stored_emails WHERE id IN (SELECT id FROM chosen) ORDER BY id FOR UPDATE
)
DELETE FROM stored_emails e USING gone WHERE e.id = gone.id;

-- name: forget_checkpoints_of_folders
-- Empty folders are synchronized up to nowhere.
DELETE FROM synchronization_checkpoints WHERE mail_folder_id = ANY(%(folder_ids)s);

-- name: forget_quarantine_of_folders
-- Nothing of an erased folder waits.
DELETE FROM quarantined_messages WHERE mail_folder_id = ANY(%(folder_ids)s);

-- name: forget_proofs_of_folders
-- What was proven of an erased folder holds no longer.
DELETE FROM completeness_proofs WHERE mail_folder_id = ANY(%(folder_ids)s);

-- name: folders_to_mend
-- The folders of an account with content to repair, or with quarantined messages that this build has not tried yet.
SELECT e.mail_folder_id
FROM email_content_repair_requests r
JOIN stored_emails e ON e.id = r.stored_email_id
JOIN mail_folders f ON f.id = e.mail_folder_id
JOIN synchronization_checkpoints c ON c.mail_folder_id = e.mail_folder_id AND c.uid_validity = e.uid_validity
WHERE f.mailbox_account_id = %(account_id)s AND e.remote_expunge_observed_at IS NULL
  AND (r.last_attempt_at IS NULL OR r.last_requested_at > r.last_attempt_at)
UNION
SELECT q.mail_folder_id
FROM quarantined_messages q
JOIN mail_folders f ON f.id = q.mail_folder_id
JOIN synchronization_checkpoints c ON c.mail_folder_id = q.mail_folder_id AND c.uid_validity = q.uid_validity
WHERE f.mailbox_account_id = %(account_id)s AND q.attempted_by_version IS DISTINCT FROM %(version)s;

-- name: awaiting_repair
-- Messages of a folder whose content is to be fetched again; an attempt that failed waits until the damage is met anew.
SELECT e.uid
FROM email_content_repair_requests r
JOIN stored_emails e ON e.id = r.stored_email_id
WHERE e.mail_folder_id = %(folder_id)s AND e.uid_validity = %(uid_validity)s AND e.remote_expunge_observed_at IS NULL
  AND (r.last_attempt_at IS NULL OR r.last_requested_at > r.last_attempt_at)
ORDER BY e.uid
LIMIT %(limit)s;

-- name: note_repair_attempts
-- Why content could not be repaired; what was repaired meanwhile has no request any more.
UPDATE email_content_repair_requests r SET last_attempt_at = %(now)s, last_attempt_outcome = o.outcome
FROM unnest(%(uids)s::bigint[], %(outcomes)s::text[]) AS o (uid, outcome)
JOIN stored_emails e ON e.mail_folder_id = %(folder_id)s AND e.uid_validity = %(uid_validity)s AND e.uid = o.uid
WHERE r.stored_email_id = e.id;

-- name: untried_quarantine
-- Quarantined messages of a folder that another build tried last.
SELECT uid, size_octets FROM quarantined_messages
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s
  AND attempted_by_version IS DISTINCT FROM %(version)s
ORDER BY uid
LIMIT %(limit)s;

-- name: header_only_uids
-- Messages of a folder that are here by their header only, and why.
SELECT uid, content_availability FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND content_availability <> 'Available'
  AND remote_expunge_observed_at IS NULL
ORDER BY uid;

-- name: buried_uids
-- Messages of a folder that are taken for gone from the server.
SELECT uid FROM stored_emails
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND remote_expunge_observed_at IS NOT NULL
ORDER BY uid;

-- name: unbury
-- The server holds these messages after all; a UID is never given twice (RFC 9051 section 2.3.1.1).
UPDATE stored_emails SET remote_expunge_observed_at = NULL, is_retained_after_authored_delete = false
WHERE mail_folder_id = %(folder_id)s AND uid_validity = %(uid_validity)s AND uid = ANY(%(uids)s)
  AND remote_expunge_observed_at IS NOT NULL;

-- name: record_proof
-- What comparing a folder with its server came to, the last time.
INSERT INTO completeness_proofs
    (mail_folder_id, uid_validity, proved_at, server_count, stored_count, skipped_count, excluded_by_date_count,
     quarantined_count, hole_count, surplus_count, filled_count)
VALUES (%(folder_id)s, %(uid_validity)s, %(proved_at)s, %(server)s, %(stored)s, %(skipped)s, %(excluded_by_date)s,
    %(quarantined)s, %(holes)s, %(surplus)s, %(filled)s)
ON CONFLICT (mail_folder_id) DO UPDATE SET
    uid_validity = excluded.uid_validity,
    proved_at = excluded.proved_at,
    server_count = excluded.server_count,
    stored_count = excluded.stored_count,
    skipped_count = excluded.skipped_count,
    excluded_by_date_count = excluded.excluded_by_date_count,
    quarantined_count = excluded.quarantined_count,
    hole_count = excluded.hole_count,
    surplus_count = excluded.surplus_count,
    filled_count = excluded.filled_count;
