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
-- Asking: messages that a change takes out of where they are: it is not over, or was not read back yet.
SELECT DISTINCT m.stored_email_id
FROM mailbox_mutations m
JOIN stored_emails e ON e.id = m.stored_email_id AND e.mail_folder_id = m.mail_folder_id
    AND e.uid_validity = m.uid_validity AND e.uid = m.uid
WHERE m.stored_email_id = ANY(%(ids)s::uuid[]) AND m.mutation IN ('relocate', 'delete')
  AND m.stage <> 'Abandoned' AND m.source_removal_observed_at IS NULL;

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

-- name: withdraw_changes
-- Undoing: end changes that nothing was sent for.
UPDATE mailbox_mutations SET
    stage = 'Abandoned', stage_changed_at = %(now)s, abandoned_from_stage = 'Recorded', last_failure_code = %(code)s
WHERE id = ANY(%(ids)s::uuid[]) AND stage = 'Recorded' AND attempt_count = 0 AND issued_at IS NULL;

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

-- name: folders_of_changes
-- Undoing: the folders that changes took their messages from.
SELECT id, mailbox_account_id, alias, resolution_generation, remote_path, hierarchy_delimiter
FROM mail_folders
WHERE id = ANY(%(folder_ids)s::bigint[]);

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

-- name: stop_auditing
-- Operators: what is erased from the trail is not to be entered again.
UPDATE mailbox_mutations SET audit_trail_enabled = false
WHERE mailbox_account_id = %(account_id)s AND audit_trail_enabled AND stage IN ('Completed', 'Abandoned')
  AND (%(ids)s::uuid[] IS NULL OR stored_email_id = ANY(%(ids)s::uuid[]));

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

-- Recognition: what synchronization observes, against the changes that explain it (section 8).

-- name: expected_placements
-- The last message stored of a folder; whether something may just be under way to it; and the named placements in it, up
-- to a UID, that nobody has met yet, and whether the message is stored there already. No UID leads to those under
-- another UIDVALIDITY any more.
SELECT f.highest, f.is_under_way, m.*
FROM (SELECT (SELECT e.uid FROM stored_emails e
        WHERE e.mail_folder_id = %(folder_id)s AND e.uid_validity = %(uid_validity)s
        ORDER BY e.uid DESC LIMIT 1) AS highest,
    EXISTS (SELECT FROM mailbox_mutations u
        WHERE u.mailbox_account_id = %(account_id)s AND u.destination_folder_path = %(path)s
            AND u.placement_observed_at IS NULL AND u.stage = 'PlacementIssued') AS is_under_way) f
LEFT JOIN (
    SELECT m.id, m.stored_email_id, m.mutation, m.stage, m.requires_source_removal,
        m.source_removal_observed_at IS NOT NULL, m.placement_uid,
        EXISTS (SELECT FROM stored_emails e WHERE e.mail_folder_id = %(folder_id)s
            AND e.uid_validity = m.placement_uid_validity AND e.uid = m.placement_uid),
        m.placement_uid_validity <> %(uid_validity)s
    FROM mailbox_mutations m
    WHERE m.mailbox_account_id = %(account_id)s AND m.destination_folder_path = %(path)s
        AND (m.placement_uid <= %(through)s OR m.placement_uid_validity <> %(uid_validity)s)
        AND m.placement_observed_at IS NULL
    ORDER BY m.placement_uid, m.recorded_at
    LIMIT %(limit)s
) m ON true;

-- name: is_converging
-- Whether some process holds the lease under which changes are carried out.
SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
        AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(%(lease)s, 0));

-- name: moved_out
-- Messages of a folder, within ranges of UIDs, that were met elsewhere before their source was seen gone.
SELECT DISTINCT m.uid
FROM unnest(%(lows)s::bigint[], %(highs)s::bigint[]) AS r (low, high)
JOIN mailbox_mutations m ON m.mail_folder_id = %(folder_id)s AND m.uid_validity = %(uid_validity)s
    AND m.uid BETWEEN r.low AND r.high
WHERE m.mutation = 'relocate' AND m.placement_observed_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM stored_emails e WHERE e.mail_folder_id = m.mail_folder_id
        AND e.uid_validity = m.uid_validity AND e.uid = m.uid);

-- name: met_placements
-- Relocations that were met within a range of UIDs: a run that was cut short leaves them beyond its checkpoint.
SELECT placement_uid FROM mailbox_mutations
WHERE mailbox_account_id = %(account_id)s AND stage = 'Completed' AND mutation = 'relocate'
    AND destination_folder_path = %(path)s AND placement_uid_validity = %(uid_validity)s
    AND placement_uid BETWEEN %(low)s AND %(high)s AND placement_observed_at IS NOT NULL;

-- name: lock_carriable
-- The messages that may go over to their placements: those that are on no other known place of the server. One that is
-- held as present lies where one of its relocations took it from, or it was found anew, and then it stays.
SELECT m.id, m.stored_email_id, m.placement_uid
FROM mailbox_mutations m
JOIN stored_emails e ON e.id = m.stored_email_id
WHERE m.id = ANY(%(ids)s) AND m.placement_observed_at IS NULL
    AND (e.remote_expunge_observed_at IS NOT NULL
        OR EXISTS (SELECT FROM mailbox_mutations c WHERE c.stored_email_id = e.id AND c.mutation = 'relocate'
            AND c.mail_folder_id = e.mail_folder_id AND c.uid_validity = e.uid_validity AND c.uid = e.uid))
ORDER BY e.id, m.recorded_at DESC
FOR UPDATE OF e;

-- name: settle_carried
-- Both halves of a relocation whose message was carried, and of the message's earlier ones, which nothing shows any more.
UPDATE mailbox_mutations m SET
    placement_observed_at = coalesce(m.placement_observed_at, %(now)s),
    source_removal_observed_at = coalesce(m.source_removal_observed_at, %(now)s)
FROM mailbox_mutations last
WHERE last.id = ANY(%(ids)s) AND m.stored_email_id = last.stored_email_id AND m.mutation = 'relocate'
    AND m.placement_uid IS NOT NULL AND m.recorded_at <= last.recorded_at
    AND (m.placement_observed_at IS NULL OR m.source_removal_observed_at IS NULL);

-- name: settle_placements
-- Placements that were met by an ordinary arrival, or looked for and found gone.
UPDATE mailbox_mutations SET placement_observed_at = %(now)s
WHERE id = ANY(%(ids)s) AND placement_observed_at IS NULL
RETURNING stored_email_id;

-- name: note_source_removals
-- Relocations and deletions whose source is found gone: noted once. Those that sent no command explain nothing.
UPDATE mailbox_mutations m
SET source_removal_observed_at = coalesce(m.source_removal_observed_at, %(now)s)
FROM unnest(%(ids)s::uuid[], %(uid_validities)s::bigint[], %(uids)s::bigint[]) AS g (id, uid_validity, uid)
WHERE m.stored_email_id = g.id AND m.mail_folder_id = %(folder_id)s AND m.uid_validity = g.uid_validity
    AND m.uid = g.uid AND m.mutation IN ('relocate', 'delete')
    AND coalesce(m.abandoned_from_stage, m.stage) <> 'Recorded'
RETURNING m.stored_email_id, m.stage, m.requires_source_removal, m.local_disposition, m.stage_changed_at;

-- name: awaiting_placement
-- Of these messages, those that a relocation took to a mirrored folder where they have not been met yet.
SELECT DISTINCT m.stored_email_id FROM mailbox_mutations m
WHERE m.stored_email_id = ANY(%(ids)s) AND m.mutation = 'relocate' AND m.local_disposition IS NULL
    AND m.placement_observed_at IS NULL
    AND (m.placement_uid IS NOT NULL OR (m.stage = 'PlacementIssued' AND NOT m.requires_source_removal));

-- name: disposed_by_us
-- Of these messages, those whose local copies a change of our own has decided about.
SELECT DISTINCT m.stored_email_id FROM mailbox_mutations m
WHERE m.stored_email_id = ANY(%(ids)s) AND m.local_disposition IS NOT NULL
    AND m.source_removal_observed_at IS NOT NULL;

-- name: expectations
-- Where placements are still to be met, and whether relocations ended without naming one although their source went.
SELECT DISTINCT destination_folder_path, placement_uid IS NOT NULL
FROM mailbox_mutations
WHERE mailbox_account_id = %(account_id)s AND destination_folder_path IS NOT NULL AND placement_observed_at IS NULL
    AND (placement_uid IS NOT NULL
        OR (source_removal_observed_at IS NOT NULL AND stage IN ('Completed', 'Abandoned')));

-- name: waiting_in_vain
-- Messages that wait for a placement which nobody will name any more.
SELECT DISTINCT m.stored_email_id
FROM mailbox_mutations m
JOIN stored_emails e ON e.id = m.stored_email_id
WHERE m.mailbox_account_id = %(account_id)s AND m.destination_folder_path IS NOT NULL
    AND m.placement_observed_at IS NULL AND m.placement_uid IS NULL AND m.mutation = 'relocate'
    AND m.source_removal_observed_at IS NOT NULL AND m.stage IN ('Completed', 'Abandoned')
    AND m.local_disposition IS NULL
    AND e.remote_expunge_observed_at IS NOT NULL AND e.is_retained_after_authored_delete
LIMIT %(limit)s;

-- name: unspent_stores
-- Stores of ours in a folder since each message's flags were last read, newest first within one mutation of a message.
SELECT s.uid, s.id, s.mutation, s.desired_seen_state, s.desired_flagged_state, s.keywords, s.sent_at
FROM (
    SELECT m.uid, m.id, m.mutation, m.desired_seen_state, m.desired_flagged_state, m.keywords,
        coalesce(m.issued_at, m.stage_changed_at) AS sent_at,
        row_number() OVER (PARTITION BY m.uid, m.mutation
            ORDER BY coalesce(m.issued_at, m.stage_changed_at) DESC, m.id DESC) AS rank
    FROM mailbox_mutations m
    JOIN stored_emails e ON e.id = m.stored_email_id AND e.mail_folder_id = m.mail_folder_id
        AND e.uid_validity = m.uid_validity AND e.uid = m.uid
    WHERE m.mail_folder_id = %(folder_id)s AND m.uid_validity = %(uid_validity)s
        AND m.uid BETWEEN %(low)s AND %(high)s
        AND m.mutation IN ('set-seen', 'set-flagged', 'add-keywords', 'remove-keywords', 'set-keywords')
        AND (m.issued_at IS NOT NULL OR m.stage = 'Completed')
        AND (m.stage = 'Recorded' OR m.stage_changed_at > e.remote_flags_observed_at)
) s
WHERE s.rank <= %(cap)s
ORDER BY s.uid, s.sent_at, s.id;

-- Converging: unfinished changes, and each step of them (sections 5 to 7).

-- name: outstanding_counts
-- How many changes of an account are not completed, by mutation and stage, and since when the oldest waits (MUT-42).
SELECT mutation, stage, count(*), min(recorded_at)
FROM mailbox_mutations
WHERE mailbox_account_id = %(account_id)s AND stage <> 'Completed'
GROUP BY mutation, stage;

-- name: due_changes
-- Unfinished changes, oldest first; of one call, what comes first within a message comes first (MUT-37, MUT-38, MUT-57).
SELECT m.*, f.alias AS folder_alias, f.remote_path AS folder_path, f.special_use AS folder_role,
    f.hierarchy_delimiter AS folder_delimiter, NOT EXISTS (SELECT FROM mail_folders n WHERE n.mailbox_account_id = f.mailbox_account_id AND n.alias = f.alias
        AND n.resolution_generation > f.resolution_generation) AS is_bound,
    e.size_octets, e.internet_message_id
FROM mailbox_mutations m
JOIN mail_folders f ON f.id = m.mail_folder_id
JOIN stored_emails e ON e.id = m.stored_email_id
WHERE m.mailbox_account_id = %(account_id)s AND m.stage <> 'Completed' AND m.stage <> 'Abandoned'
ORDER BY m.recorded_at, array_position(%(order)s::text[], m.mutation::text), m.id
LIMIT %(limit)s;

-- name: count_attempts
-- An attempt is about to be made at these, which stand where they stood when they were read (MUT-32, MUT-41).
UPDATE mailbox_mutations m SET attempt_count = m.attempt_count + 1
FROM unnest(%(ids)s::uuid[], %(stages)s::text[], %(attempts)s::integer[]) AS r (id, stage, attempts)
WHERE m.id = r.id AND m.stage = r.stage AND m.attempt_count = r.attempts
RETURNING m.id;

-- name: stamp_issued
-- A command that the stage does not tell of is about to go out (MUT-B5).
UPDATE mailbox_mutations SET issued_at = %(now)s
WHERE id = ANY(%(ids)s::uuid[]) AND stage = %(stage)s
RETURNING id;

-- name: advance
-- A step forward; nothing for a row that stands elsewhere meanwhile (MUT-18, MUT-41).
UPDATE mailbox_mutations SET
    stage = %(to)s::text, stage_changed_at = %(now)s::timestamptz,
    issued_at = CASE WHEN %(to)s::text = 'PlacementIssued' THEN %(now)s::timestamptz ELSE issued_at END,
    requires_source_removal = coalesce(%(removal)s::boolean, requires_source_removal),
    abandoned_from_stage = CASE WHEN %(to)s::text = 'Abandoned' THEN %(abandoned_from)s::text END,
    last_failure_code = CASE WHEN %(to)s::text = 'Completed' THEN NULL ELSE coalesce(%(code)s::integer, last_failure_code) END
WHERE id = ANY(%(ids)s::uuid[]) AND stage = %(stage)s
RETURNING id;

-- name: confirm_placements
-- The server acknowledged a copy or move; where it named the placement, that is kept (MUT-31).
UPDATE mailbox_mutations m SET
    stage = 'PlacementConfirmed', stage_changed_at = %(now)s,
    placement_uid_validity = CASE WHEN p.uid IS NULL THEN NULL ELSE %(uid_validity)s::bigint END, placement_uid = p.uid
FROM unnest(%(ids)s::uuid[], %(uids)s::bigint[]) AS p (id, uid)
WHERE m.id = p.id AND m.stage = 'PlacementIssued'
RETURNING m.id;

-- name: refuse_placements
-- The server said that it did not copy or move: these are as they were before, one attempt poorer.
UPDATE mailbox_mutations SET
    stage = CASE WHEN attempt_count >= %(bound)s THEN 'Abandoned' ELSE 'Recorded' END, stage_changed_at = %(now)s::timestamptz,
    abandoned_from_stage = CASE WHEN attempt_count >= %(bound)s THEN 'Recorded' END,
    issued_at = NULL, requires_source_removal = false, last_failure_code = %(code)s::integer
WHERE id = ANY(%(ids)s::uuid[]) AND stage = 'PlacementIssued'
RETURNING id, stage;

-- name: fail_attempts
-- Attempts failed; whoever spent the last one is given up. An unanswered placement waits for its outcome (MUT-33).
UPDATE mailbox_mutations SET
    last_failure_code = CASE WHEN stage = 'PlacementIssued' THEN %(unknown)s::integer ELSE %(code)s::integer END,
    stage_changed_at = CASE WHEN stage <> 'PlacementIssued' AND attempt_count >= %(bound)s THEN %(now)s::timestamptz
        ELSE stage_changed_at END,
    abandoned_from_stage = CASE WHEN stage <> 'PlacementIssued' AND attempt_count >= %(bound)s THEN stage END,
    stage = CASE WHEN stage <> 'PlacementIssued' AND attempt_count >= %(bound)s THEN 'Abandoned' ELSE stage END
WHERE id = ANY(%(ids)s::uuid[]) AND stage <> 'Completed' AND stage <> 'Abandoned'
RETURNING id, stage;

-- name: stamp_unknown
-- The outcome of these is unknown, said once (MUT-17).
UPDATE mailbox_mutations SET last_failure_code = %(code)s::integer
WHERE id = ANY(%(ids)s::uuid[]) AND stage = 'PlacementIssued' AND last_failure_code IS DISTINCT FROM %(code)s::integer;

-- name: abandon_exhausted
-- Changes whose attempts were all spent by processes that died in them (MUT-32).
UPDATE mailbox_mutations SET
    abandoned_from_stage = stage, stage = 'Abandoned', stage_changed_at = %(now)s::timestamptz,
    last_failure_code = coalesce(last_failure_code, %(code)s::integer)
WHERE id = ANY(%(ids)s::uuid[]) AND stage NOT IN ('Completed', 'Abandoned', 'PlacementIssued')
RETURNING id;

-- name: abandon_unreadable
-- A row that means nothing is not acted on, and must not take a place in every pass (MUT-10).
UPDATE mailbox_mutations SET
    abandoned_from_stage = stage, stage = 'Abandoned', stage_changed_at = %(now)s::timestamptz, last_failure_code = %(code)s::integer
WHERE id = %(id)s AND stage NOT IN ('Completed', 'Abandoned');

-- name: existing_changes
-- Which of these rows there are.
SELECT id FROM mailbox_mutations WHERE id = ANY(%(ids)s::uuid[]);

-- Auditing: entries of changes that ended, and records whose time is over (section 11, MUT-B11).

-- name: append_entries
-- How changes ended; an ending is entered once (MUT-62).
INSERT INTO mailbox_mutation_audit_entries (
    id, mutation_record_id, stored_email_id, mailbox_account_id, mutation, outcome, requester_origin,
    requester_identity, source_folder_path, source_hierarchy_delimiter, source_uid_validity, source_uid,
    destination_folder_path, destination_hierarchy_delimiter, placement_uid_validity, placement_uid,
    desired_seen_state, desired_flagged_state, keywords, failure_code, requested_at, completed_at
)
SELECT r.id, r.record_id, r.email_id, r.account_id, r.mutation, r.outcome, r.origin, r.identity, r.path, r.delimiter,
    r.uid_validity, r.uid, r.to_path, r.to_delimiter, r.to_uid_validity, r.to_uid, r.seen, r.flagged,
    string_to_array(r.keywords, ' '), r.code, r.requested_at, r.completed_at
FROM unnest(
    %(ids)s::uuid[], %(record_ids)s::uuid[], %(email_ids)s::uuid[], %(account_ids)s::text[], %(mutations)s::text[],
    %(outcomes)s::text[], %(origins)s::text[], %(identities)s::text[], %(paths)s::text[], %(delimiters)s::text[],
    %(uid_validities)s::bigint[], %(uids)s::bigint[], %(to_paths)s::text[], %(to_delimiters)s::text[],
    %(to_uid_validities)s::bigint[], %(to_uids)s::bigint[], %(seen)s::boolean[], %(flagged)s::boolean[],
    %(keywords)s::text[], %(codes)s::integer[], %(requested_ats)s::timestamptz[], %(completed_ats)s::timestamptz[]
) AS r (id, record_id, email_id, account_id, mutation, outcome, origin, identity, path, delimiter, uid_validity, uid,
    to_path, to_delimiter, to_uid_validity, to_uid, seen, flagged, keywords, code, requested_at, completed_at)
ON CONFLICT (mutation_record_id, completed_at) DO NOTHING;

-- name: backfill_entries
-- Entries that were lost between the end of a change and its entry, of what is not too old to be kept (MUT-B10).
INSERT INTO mailbox_mutation_audit_entries (
    id, mutation_record_id, stored_email_id, mailbox_account_id, mutation, outcome, requester_origin,
    requester_identity, source_folder_path, source_hierarchy_delimiter, source_uid_validity, source_uid,
    destination_folder_path, destination_hierarchy_delimiter, placement_uid_validity, placement_uid,
    desired_seen_state, desired_flagged_state, keywords, failure_code, requested_at, completed_at
)
SELECT gen_random_uuid(), m.id, m.stored_email_id, m.mailbox_account_id, m.mutation,
    CASE m.stage WHEN 'Completed' THEN 'Performed' ELSE 'Abandoned' END, m.requester_origin, m.requester_identity,
    f.remote_path, f.hierarchy_delimiter, m.uid_validity, m.uid, m.destination_folder_path,
    m.destination_hierarchy_delimiter, m.placement_uid_validity, m.placement_uid, m.desired_seen_state,
    m.desired_flagged_state, m.keywords, CASE m.stage WHEN 'Abandoned' THEN m.last_failure_code END, m.recorded_at,
    m.stage_changed_at
FROM mailbox_mutations m
JOIN mail_folders f ON f.id = m.mail_folder_id
WHERE m.mailbox_account_id = %(account_id)s AND m.audit_trail_enabled AND m.stage IN ('Completed', 'Abandoned')
    AND m.stage_changed_at >= %(cutoff)s
    AND NOT EXISTS (SELECT FROM mailbox_mutation_audit_entries a
        WHERE a.mutation_record_id = m.id AND a.completed_at = m.stage_changed_at)
LIMIT %(limit)s
ON CONFLICT (mutation_record_id, completed_at) DO NOTHING;

-- name: erase_expired_entries
-- Entries whose time is over, oldest first (MUT-65).
DELETE FROM mailbox_mutation_audit_entries WHERE id IN (
    SELECT id FROM mailbox_mutation_audit_entries
    WHERE mailbox_account_id = %(account_id)s AND completed_at < %(cutoff)s
    ORDER BY completed_at, id LIMIT %(limit)s);

-- name: prune_completed
-- Finished changes that were asked for by name; nobody asks for the same under the same name so much later (MUT-B11).
DELETE FROM mailbox_mutations WHERE id IN (
    SELECT id FROM mailbox_mutations
    WHERE mailbox_account_id = %(account_id)s AND stage = 'Completed' AND stage_changed_at < %(cutoff)s
        AND requester_origin = 'Command'
        -- Its message still waits to be met where it was moved.
        AND NOT (mutation = 'relocate' AND local_disposition IS NULL AND placement_uid IS NOT NULL
            AND placement_observed_at IS NULL AND source_removal_observed_at IS NOT NULL)
    ORDER BY stage_changed_at LIMIT %(limit)s);
