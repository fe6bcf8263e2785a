-- name: lock_live_occurrences
-- The messages a change is recorded for, as they are on the server, held against erasure until the commit (MUT-12).
SELECT id, mailbox_account_id, mail_folder_id, uid_validity, uid, remote_flags_observed_at IS NOT NULL,
    is_remotely_seen, is_remotely_flagged, remote_keywords
FROM stored_emails
WHERE id = ANY(%(ids)s::uuid[]) AND remote_expunge_observed_at IS NULL
FOR KEY SHARE;

-- name: insert_mutations
-- Write intents down; one whose identity is known stays as it is (MUT-14).
INSERT INTO mailbox_mutations (
    id, stored_email_id, mailbox_account_id, mail_folder_id, uid_validity, uid, mutation, requester_origin,
    requester_identity, destination_folder_path, destination_hierarchy_delimiter, creates_destination,
    desired_seen_state, desired_flagged_state, keywords, local_disposition, prior_state, prior_keywords,
    undoes_mutation_id, stage, stage_changed_at, audit_trail_enabled, recorded_at
)
SELECT r.id, r.stored_email_id, r.account_id, r.folder_id, r.uid_validity, r.uid, r.mutation, r.origin, r.identity,
    r.path, r.delimiter, r.creates, r.seen, r.flagged, string_to_array(r.keywords, ' '), r.disposition, r.prior_state,
    string_to_array(r.prior_keywords, ' '), r.undoes, 'Recorded', %(now)s, r.audited, %(now)s
FROM unnest(
    %(ids)s::uuid[], %(stored_email_ids)s::uuid[], %(account_ids)s::text[], %(folder_ids)s::bigint[],
    %(uid_validities)s::bigint[], %(uids)s::bigint[], %(mutations)s::text[], %(origins)s::text[],
    %(identities)s::text[], %(paths)s::text[], %(delimiters)s::text[], %(creates)s::boolean[], %(seen)s::boolean[],
    %(flagged)s::boolean[], %(keywords)s::text[], %(dispositions)s::text[], %(prior_states)s::boolean[],
    %(prior_keywords)s::text[], %(undoes)s::uuid[], %(audited)s::boolean[]
) AS r (id, stored_email_id, account_id, folder_id, uid_validity, uid, mutation, origin, identity, path, delimiter,
    creates, seen, flagged, keywords, disposition, prior_state, prior_keywords, undoes, audited)
ORDER BY r.folder_id, r.uid_validity, r.uid, r.mutation
ON CONFLICT (mail_folder_id, uid_validity, uid, requester_origin, requester_identity, mutation) DO NOTHING
RETURNING id;

-- name: mutations_by_identity
-- The rows that answer to these identities, whoever wrote them.
SELECT m.*
FROM unnest(
    %(folder_ids)s::bigint[], %(uid_validities)s::bigint[], %(uids)s::bigint[], %(origins)s::text[],
    %(identities)s::text[], %(mutations)s::text[]
) AS r (folder_id, uid_validity, uid, origin, identity, mutation)
JOIN mailbox_mutations m ON m.mail_folder_id = r.folder_id AND m.uid_validity = r.uid_validity AND m.uid = r.uid
    AND m.requester_origin = r.origin AND m.requester_identity = r.identity AND m.mutation = r.mutation;

-- name: announce
-- Wake whoever converges the account when this commits (MUT-B6).
SELECT pg_notify('mailkeep_mutations', %(account_id)s);

-- name: sources_of_changes
-- Asking: the readable ones among the named messages, and whether each is on the server where its alias leads today.
SELECT e.id, e.mailbox_account_id, f.alias, f.remote_path,
    e.remote_expunge_observed_at IS NULL AND NOT EXISTS (
        SELECT FROM mail_folders n
        WHERE n.mailbox_account_id = f.mailbox_account_id AND n.alias = f.alias
          AND n.resolution_generation > f.resolution_generation)
FROM stored_emails e
JOIN mail_folders f ON f.id = e.mail_folder_id
WHERE e.id = ANY(%(ids)s::uuid[]) AND e.mail_folder_id = ANY(%(folder_ids)s::bigint[])
  AND (e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete);

-- name: changes_of_request
-- Asking: what the same request asked of these messages before.
SELECT m.* FROM mailbox_mutations m
WHERE m.requester_origin = 'Command' AND m.requester_identity = %(identity)s
  AND m.stored_email_id = ANY(%(ids)s::uuid[])
ORDER BY m.id;

-- name: leaving_messages
-- Asking: messages that a change takes out of where they are, and whether a command for that may have gone out.
SELECT m.stored_email_id, bool_or(m.stage <> 'Recorded' OR m.attempt_count > 0)
FROM mailbox_mutations m
JOIN stored_emails e ON e.id = m.stored_email_id AND e.mail_folder_id = m.mail_folder_id
    AND e.uid_validity = m.uid_validity AND e.uid = m.uid
WHERE m.stored_email_id = ANY(%(ids)s::uuid[]) AND m.mutation IN ('relocate', 'delete')
  AND m.stage <> 'Abandoned' AND m.source_removal_observed_at IS NULL
GROUP BY m.stored_email_id;

-- name: queue_of_account
-- Asking: let one transaction at a time count the unfinished changes of an account.
SELECT pg_advisory_xact_lock(hashtextextended('mailkeep changes asked of ' || %(account_id)s, 0));

-- name: count_outstanding
-- Asking: unfinished changes of an account, counted no further than the bound.
SELECT count(*) FROM (
    SELECT FROM mailbox_mutations
    WHERE mailbox_account_id = %(account_id)s AND stage <> 'Completed' AND stage <> 'Abandoned'
    LIMIT %(limit)s) counted;

-- name: changes_by_id
-- Changes with the folder that each is about.
SELECT m.*, f.alias AS folder_alias, f.remote_path AS folder_path
FROM mailbox_mutations m
JOIN mail_folders f ON f.id = m.mail_folder_id
WHERE m.id = ANY(%(ids)s::uuid[]);

-- name: readable_changes
-- The same, of messages that lie in readable folders.
SELECT m.*, f.alias AS folder_alias, f.remote_path AS folder_path
FROM mailbox_mutations m
JOIN mail_folders f ON f.id = m.mail_folder_id
JOIN stored_emails e ON e.id = m.stored_email_id
WHERE m.id = ANY(%(ids)s::uuid[]) AND e.mail_folder_id = ANY(%(folder_ids)s::bigint[]);

-- name: readable_changes_of_request
-- The same, of one request, as it recorded them.
SELECT m.*, f.alias AS folder_alias, f.remote_path AS folder_path
FROM mailbox_mutations m
JOIN mail_folders f ON f.id = m.mail_folder_id
JOIN stored_emails e ON e.id = m.stored_email_id
WHERE m.requester_origin = 'Command' AND m.requester_identity = %(identity)s
  AND e.mail_folder_id = ANY(%(folder_ids)s::bigint[])
ORDER BY m.id
LIMIT %(limit)s;

-- name: withdraw_change
-- Undoing: end a change that nothing was sent for.
UPDATE mailbox_mutations SET
    stage = 'Abandoned', stage_changed_at = %(now)s, abandoned_from_stage = 'Recorded', last_failure_code = %(code)s
WHERE id = %(id)s AND stage = 'Recorded' AND attempt_count = 0 AND issued_at IS NULL;

-- name: standings
-- Undoing: where the messages of changes are now, and whether another change takes them out of there.
SELECT m.id, e.remote_expunge_observed_at IS NULL, e.mail_folder_id, EXISTS (
    SELECT FROM mailbox_mutations l
    WHERE l.stored_email_id = e.id AND l.mail_folder_id = e.mail_folder_id AND l.uid_validity = e.uid_validity
      AND l.uid = e.uid AND l.mutation IN ('relocate', 'delete') AND l.stage <> 'Abandoned'
      AND l.source_removal_observed_at IS NULL AND l.id <> m.id AND l.undoes_mutation_id IS DISTINCT FROM m.id)
FROM mailbox_mutations m
JOIN stored_emails e ON e.id = m.stored_email_id
WHERE m.id = ANY(%(ids)s::uuid[]);

-- name: copies_made
-- Undoing: the stored messages that copies made, where the server named them and they have been read back.
SELECT m.id, e.id
FROM mailbox_mutations m
JOIN mail_folders f ON f.mailbox_account_id = m.mailbox_account_id AND f.remote_path = m.destination_folder_path
JOIN stored_emails e ON e.mail_folder_id = f.id AND e.uid_validity = m.placement_uid_validity
    AND e.uid = m.placement_uid
WHERE m.id = ANY(%(ids)s::uuid[]) AND m.mutation = 'copy' AND m.placement_observed_at IS NOT NULL
  AND e.remote_expunge_observed_at IS NULL;

-- name: folder_of_change
-- Undoing: the folder that a change took its message from.
SELECT f.id, f.mailbox_account_id, f.alias, f.resolution_generation, f.remote_path, f.hierarchy_delimiter
FROM mailbox_mutations m
JOIN mail_folders f ON f.id = m.mail_folder_id
WHERE m.id = %(id)s;

-- name: list_outstanding
-- Operators: a page of changes that are not completed, the last recorded first.
SELECT m.*, f.alias AS folder_alias, f.remote_path AS folder_path
FROM mailbox_mutations m
JOIN mail_folders f ON f.id = m.mail_folder_id
WHERE m.stage <> 'Completed' AND m.stage = ANY(%(stages)s)
  AND (%(account_id)s::text IS NULL OR m.mailbox_account_id = %(account_id)s)
  AND (%(mutation)s::text IS NULL OR m.mutation = %(mutation)s)
  AND (m.recorded_at, m.id) < (%(before)s::timestamptz, %(before_id)s::uuid)
ORDER BY m.recorded_at DESC, m.id DESC
LIMIT %(limit)s;

-- name: list_completed
-- Operators: the same of those that are completed.
SELECT m.*, f.alias AS folder_alias, f.remote_path AS folder_path
FROM mailbox_mutations m
JOIN mail_folders f ON f.id = m.mail_folder_id
WHERE m.stage = 'Completed'
  AND (%(account_id)s::text IS NULL OR m.mailbox_account_id = %(account_id)s)
  AND (%(mutation)s::text IS NULL OR m.mutation = %(mutation)s)
  AND (m.recorded_at, m.id) < (%(before)s::timestamptz, %(before_id)s::uuid)
ORDER BY m.recorded_at DESC, m.id DESC
LIMIT %(limit)s;

-- name: retry_change
-- Operators: attempt an abandoned change again, unless it may have happened.
UPDATE mailbox_mutations SET
    stage = coalesce(abandoned_from_stage, 'Recorded'), abandoned_from_stage = NULL, stage_changed_at = %(now)s,
    attempt_count = 0
WHERE id = %(id)s AND stage = 'Abandoned' AND coalesce(abandoned_from_stage, 'Recorded') <> 'PlacementIssued'
RETURNING mailbox_account_id;

-- name: resolve_landed
-- Operators: a move or copy whose answer was lost has happened.
UPDATE mailbox_mutations SET
    stage = CASE WHEN requires_source_removal THEN 'PlacementConfirmed' ELSE 'Completed' END,
    abandoned_from_stage = NULL, last_failure_code = NULL, stage_changed_at = %(now)s, attempt_count = 0
WHERE id = %(id)s
  AND (stage = 'PlacementIssued' OR stage = 'Abandoned' AND abandoned_from_stage = 'PlacementIssued')
RETURNING mailbox_account_id;

-- name: resolve_not_landed
-- Operators: it has not; it may be tried again from the start.
UPDATE mailbox_mutations SET
    stage = 'Abandoned', abandoned_from_stage = 'Recorded', stage_changed_at = %(now)s,
    last_failure_code = coalesce(last_failure_code, 25002)
WHERE id = %(id)s
  AND (stage = 'PlacementIssued' OR stage = 'Abandoned' AND abandoned_from_stage = 'PlacementIssued')
RETURNING mailbox_account_id;

-- name: read_trail
-- Operators: a page of the audit trail of an account, newest first.
SELECT * FROM mailbox_mutation_audit_entries
WHERE mailbox_account_id = %(account_id)s
  AND (%(mutation)s::text IS NULL OR mutation = %(mutation)s)
  AND (%(since)s::timestamptz IS NULL OR completed_at >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR completed_at < %(until)s)
  AND (completed_at, id) < (%(before)s::timestamptz, %(before_id)s::uuid)
ORDER BY completed_at DESC, id DESC
LIMIT %(limit)s;

-- name: count_trail
-- Operators: entries of an account, or of some of its messages.
SELECT count(*) FROM mailbox_mutation_audit_entries
WHERE mailbox_account_id = %(account_id)s AND (%(ids)s::uuid[] IS NULL OR stored_email_id = ANY(%(ids)s::uuid[]));

-- name: erase_trail
-- Operators: erase some of them.
DELETE FROM mailbox_mutation_audit_entries WHERE id IN (
    SELECT id FROM mailbox_mutation_audit_entries
    WHERE mailbox_account_id = %(account_id)s AND (%(ids)s::uuid[] IS NULL OR stored_email_id = ANY(%(ids)s::uuid[]))
    LIMIT %(limit)s);

-- name: change_counts
-- How many changes of each account wait, are under way and are stuck, and since when the oldest unfinished one waits.
SELECT mailbox_account_id, count(*) FILTER (WHERE stage = 'Recorded'),
    count(*) FILTER (WHERE stage NOT IN ('Recorded', 'Abandoned')), count(*) FILTER (WHERE stage = 'Abandoned'),
    min(recorded_at) FILTER (WHERE stage <> 'Abandoned')
FROM mailbox_mutations
WHERE mailbox_account_id = ANY(%(account_ids)s::text[]) AND stage <> 'Completed'
GROUP BY mailbox_account_id;
