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
