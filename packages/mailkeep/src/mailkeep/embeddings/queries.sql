-- name: living
-- The profile that is read and the one that is being built.
SELECT id, provider, model_identifier, model_version, dimension, distance_metric, input_character_limit,
    passage_instruction, normalizes_vector, identity_fingerprint, lifecycle_state, registered_at, activated_at,
    superseded_at
FROM embedding_profiles WHERE lifecycle_state IN ('Building', 'Active');

-- name: begin_building
-- Register an identity as being built; a known geometry resolves to its row, whose vectors are used again.
INSERT INTO embedding_profiles (id, provider, model_identifier, model_version, dimension, distance_metric,
    input_character_limit, passage_instruction, normalizes_vector, identity_fingerprint, lifecycle_state, registered_at)
VALUES (%(id)s, %(provider)s, %(model_identifier)s, %(model_version)s, %(dimension)s, %(distance_metric)s,
    %(input_character_limit)s, %(passage_instruction)s, %(normalizes_vector)s, %(fingerprint)s, 'Building', %(now)s)
ON CONFLICT (identity_fingerprint) DO UPDATE SET lifecycle_state = 'Building', superseded_at = NULL
WHERE embedding_profiles.lifecycle_state = 'Superseded'
RETURNING id, provider, model_identifier, model_version, dimension, distance_metric, input_character_limit,
    passage_instruction, normalizes_vector, identity_fingerprint, lifecycle_state, registered_at, activated_at,
    superseded_at;

-- name: lock_building
-- Hold a profile that is still being built.
SELECT 1 FROM embedding_profiles WHERE id = %(id)s AND lifecycle_state = 'Building' FOR UPDATE;

-- name: supersede_active
-- The profile that was read until now.
UPDATE embedding_profiles SET lifecycle_state = 'Superseded', superseded_at = %(now)s WHERE lifecycle_state = 'Active';

-- name: promote
-- The profile that is read from now on.
UPDATE embedding_profiles SET lifecycle_state = 'Active', activated_at = %(now)s, superseded_at = NULL
WHERE id = %(id)s AND lifecycle_state = 'Building';

-- name: cancel
-- End the building of a profile.
UPDATE embedding_profiles SET lifecycle_state = 'Superseded', superseded_at = %(now)s WHERE lifecycle_state = 'Building'
RETURNING id, provider, model_identifier, model_version, dimension, distance_metric, input_character_limit,
    passage_instruction, normalizes_vector, identity_fingerprint, lifecycle_state, registered_at, activated_at,
    superseded_at;

-- name: superseded_with_vectors
-- Profiles that nobody reads any more and that have vectors or an index still.
SELECT p.id, provider, model_identifier, model_version, p.dimension, distance_metric, input_character_limit,
    passage_instruction, normalizes_vector, identity_fingerprint, lifecycle_state, registered_at, activated_at,
    superseded_at
FROM embedding_profiles p
WHERE p.lifecycle_state = 'Superseded'
    AND (to_regclass('ix_email_embeddings_hnsw_' || replace(p.id::text, '-', '')) IS NOT NULL
        OR EXISTS (SELECT 1 FROM email_embeddings v WHERE v.embedding_profile_id = p.id))
ORDER BY p.superseded_at;

-- name: remove_vectors
-- Some vectors of a profile, while it is superseded.
DELETE FROM email_embeddings v USING (
    SELECT v.email_chunk_id, v.embedding_profile_id
    FROM email_embeddings v JOIN embedding_profiles p ON p.id = v.embedding_profile_id
    WHERE v.embedding_profile_id = %(id)s AND p.lifecycle_state = 'Superseded'
    LIMIT %(limit)s
) gone
WHERE v.email_chunk_id = gone.email_chunk_id AND v.embedding_profile_id = gone.embedding_profile_id;

-- name: outstanding
-- The next passages behind a message that have no vector of a profile, whole messages at a time in reading order.
SELECT c.stored_email_id, c.id, c.text
FROM email_chunks c
JOIN (
    SELECT e.id FROM stored_emails e
    WHERE e.id > %(after)s AND e.mail_folder_id = ANY(%(folder_ids)s)
        AND (e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete)
        AND EXISTS (SELECT 1 FROM email_chunks c WHERE c.stored_email_id = e.id
            AND NOT EXISTS (SELECT 1 FROM email_embeddings v
                WHERE v.email_chunk_id = c.id AND v.embedding_profile_id = %(id)s))
    ORDER BY e.id LIMIT %(emails)s
) m ON m.id = c.stored_email_id
WHERE NOT EXISTS (SELECT 1 FROM email_embeddings v WHERE v.email_chunk_id = c.id AND v.embedding_profile_id = %(id)s)
ORDER BY c.stored_email_id, c.ordinal;

-- name: outstanding_emails
-- Messages that lack a vector of a profile, or whose cutting is outstanding although they have text.
SELECT count(*)
FROM stored_emails e
WHERE e.mail_folder_id = ANY(%(folder_ids)s)
    AND (e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete)
    AND (EXISTS (SELECT 1 FROM email_chunks c WHERE c.stored_email_id = e.id
            AND NOT EXISTS (SELECT 1 FROM email_embeddings v
                WHERE v.email_chunk_id = c.id AND v.embedding_profile_id = %(id)s))
        OR EXISTS (SELECT 1 FROM email_search_documents d WHERE d.stored_email_id = e.id AND length(d.body_text) > 0
            AND d.text_source <> 'BodyNotExtracted'
            AND NOT EXISTS (SELECT 1 FROM email_passage_cuts k WHERE k.stored_email_id = e.id)));

-- name: workload
-- Messages with passages, those with all vectors of a profile, and what is outstanding: messages, passages, characters.
SELECT count(*), count(*) FILTER (WHERE m.missing = 0), count(*) FILTER (WHERE m.missing > 0),
    coalesce(sum(m.missing), 0)::bigint, coalesce(sum(m.characters), 0)::bigint
FROM (
    SELECT c.stored_email_id, count(*) FILTER (WHERE v.email_chunk_id IS NULL) AS missing,
        sum(least(length(c.text) + %(instruction)s, %(limit)s)) FILTER (WHERE v.email_chunk_id IS NULL) AS characters
    FROM email_chunks c
    JOIN stored_emails e ON e.id = c.stored_email_id
    LEFT JOIN email_embeddings v ON v.email_chunk_id = c.id AND v.embedding_profile_id = %(id)s
    WHERE e.mail_folder_id = ANY(%(folder_ids)s)
        AND (e.remote_expunge_observed_at IS NULL OR e.is_retained_after_authored_delete)
    GROUP BY c.stored_email_id
) m;

-- name: known_profile
-- The row of an identity, whatever its state.
SELECT id FROM embedding_profiles WHERE identity_fingerprint = %(fingerprint)s;

-- name: store
-- Vectors of passages that are there still, in a profile that is not superseded; repeating it replaces them.
INSERT INTO email_embeddings (email_chunk_id, embedding_profile_id, dimension, embedding, generated_at)
SELECT c.id, p.id, p.dimension, n.embedding::vector, %(now)s
FROM unnest(%(chunks)s::uuid[], %(vectors)s::text[]) AS n (chunk, embedding)
JOIN email_chunks c ON c.id = n.chunk
JOIN embedding_profiles p ON p.id = %(id)s AND p.lifecycle_state <> 'Superseded'
ORDER BY c.id
ON CONFLICT ON CONSTRAINT pk_email_embeddings DO UPDATE
SET embedding = excluded.embedding, dimension = excluded.dimension, generated_at = excluded.generated_at;

-- name: lock_chunks
-- Hold the passages whose vectors are about to be written, so that none vanishes in between.
SELECT id FROM email_chunks WHERE id = ANY(%(chunks)s) ORDER BY id FOR KEY SHARE;

-- name: note_failures
-- Say why messages got no vectors.
INSERT INTO email_embedding_failures (stored_email_id, reason, recorded_at)
SELECT id, %(reason)s, %(now)s FROM stored_emails WHERE id = ANY(%(emails)s)
ON CONFLICT (stored_email_id) DO UPDATE SET reason = excluded.reason, recorded_at = excluded.recorded_at;

-- name: forget_failures
-- Messages that got their vectors after all.
DELETE FROM email_embedding_failures WHERE stored_email_id = ANY(%(emails)s);

-- name: failures
-- How many messages were refused when they were last tried.
SELECT count(*) FROM email_embedding_failures;

-- name: position
-- How far the present walk over all mail is.
SELECT last_processed_stored_email_id FROM backfill_positions WHERE name = 'stored-email-embedding';

-- name: last_cut
-- The message with the highest id that has passages.
SELECT stored_email_id FROM email_chunks ORDER BY stored_email_id DESC LIMIT 1;

-- name: advance
-- The walk has passed a message.
INSERT INTO backfill_positions (name, last_processed_stored_email_id, updated_at)
VALUES ('stored-email-embedding', %(email)s, %(now)s)
ON CONFLICT (name) DO UPDATE SET last_processed_stored_email_id = excluded.last_processed_stored_email_id,
    updated_at = excluded.updated_at;

-- name: forget_position
-- The walk begins anew.
DELETE FROM backfill_positions WHERE name = 'stored-email-embedding';

-- name: reserve
-- Put aside what a call will cost, unless the ceiling is reached already; no row then.
INSERT INTO embedding_spend_periods (period_starts_at, consumed_input_character_count)
VALUES (%(period)s, %(characters)s)
ON CONFLICT (period_starts_at) DO UPDATE
SET consumed_input_character_count = embedding_spend_periods.consumed_input_character_count
    + excluded.consumed_input_character_count
WHERE %(ceiling)s = 0 OR embedding_spend_periods.consumed_input_character_count < %(ceiling)s
RETURNING consumed_input_character_count;

-- name: note_reservation
-- The call that the characters are put aside for.
INSERT INTO embedding_spend_reservations (id, period_starts_at, reserved_input_character_count, reserved_at)
VALUES (%(id)s, %(period)s, %(characters)s, %(now)s);

-- name: settle
-- The call was answered: what was put aside is spent.
DELETE FROM embedding_spend_reservations WHERE id = %(id)s;

-- name: release
-- The call was not answered: give back what was put aside, once.
WITH gone AS (DELETE FROM embedding_spend_reservations WHERE id = %(id)s
    RETURNING period_starts_at, reserved_input_character_count)
UPDATE embedding_spend_periods p
SET consumed_input_character_count = p.consumed_input_character_count - g.reserved_input_character_count
FROM gone g WHERE p.period_starts_at = g.period_starts_at;

-- name: forget_orphans
-- Reservations of processes that died: what they put aside stays spent.
DELETE FROM embedding_spend_reservations WHERE reserved_at < %(before)s;

-- name: consumed
-- What a period has cost so far, calls under way included.
SELECT consumed_input_character_count FROM embedding_spend_periods WHERE period_starts_at = %(period)s;

-- name: note_health
-- How the provider behaved, unless something newer is known.
INSERT INTO ai_provider_health (role, state, failure_class, observed_at)
VALUES ('embedding', %(state)s, %(failure_class)s, %(at)s)
ON CONFLICT (role) DO UPDATE SET state = excluded.state, failure_class = excluded.failure_class,
    observed_at = excluded.observed_at
WHERE ai_provider_health.observed_at <= excluded.observed_at;

-- name: health
-- How the provider behaved last, as any process saw it.
SELECT state, failure_class, observed_at FROM ai_provider_health WHERE role = 'embedding';

-- name: index_state
-- The version of pgvector, and whether a profile has its index, whole and usable.
SELECT extversion, EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%(name)s) AND indisvalid)
FROM pg_extension WHERE extname = 'vector';
