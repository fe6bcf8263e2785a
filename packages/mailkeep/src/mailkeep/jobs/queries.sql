-- name: measure_depth
-- How many jobs of a type wait, counted no further than the bound, and the database's time.
SELECT coalesce(%(now)s::timestamptz, clock_timestamp()), (
    SELECT count(*) FROM (
        SELECT FROM jobs
        WHERE job_type = %(job_type)s AND state IN ('Pending', 'Claimed') AND state = 'Pending'
        LIMIT %(bound)s
    ) AS waiting
);

-- name: measure_stopped
-- How many jobs of these types were given up and not decided upon, counted no further than the bound.
SELECT count(*) FROM (
    SELECT FROM jobs WHERE state = 'DeadLettered' AND job_type = ANY (%(types)s) LIMIT %(bound)s
) AS stopped;

-- name: ensure_account
-- An account that only sends, or that no run has met yet, has no row; a job of it needs one.
INSERT INTO mailbox_accounts (id) VALUES (%(account_id)s) ON CONFLICT (id) DO NOTHING;

-- name: insert_job
-- Write one job down unless its key is known; wake the workers when this commits.
WITH written AS (
    INSERT INTO jobs (
        id, job_type, idempotency_key, payload, mailbox_account_id, priority, state, available_at, enqueued_at,
        state_changed_at, attempt_count, enqueued_trace_parent, enqueued_trace_state
    ) VALUES (
        %(id)s, %(job_type)s, %(key)s, %(payload)s::jsonb, %(account_id)s, %(priority)s, 'Pending', %(available_at)s,
        %(now)s, %(now)s, 0, %(trace_parent)s, %(trace_state)s
    )
    ON CONFLICT (job_type, idempotency_key) DO NOTHING
    RETURNING id
)
SELECT id, pg_notify('mailkeep_jobs', %(job_type)s) FROM written;

-- name: find_key
-- The job that holds a key, in whatever state.
SELECT id FROM jobs WHERE job_type = %(job_type)s AND idempotency_key = %(key)s;

-- name: hold_limited_types
-- Types with a bound across processes are claimed by one process at a time, so that the bound is exact.
SELECT pg_advisory_xact_lock(hashtextextended('mailkeep job type ' || job_type, 0))
FROM (SELECT unnest(%(types)s::text[]) AS job_type ORDER BY 1) AS limited;

-- name: claim
-- Take the next jobs for one process and stamp them with their owner; a job whose attempts all crashed is dead-lettered.
WITH RECURSIVE running AS MATERIALIZED (
    SELECT job_type, coalesce(mailbox_account_id, '') AS account, count(*) AS running
    FROM jobs
    WHERE state = 'Claimed' AND lease_expires_at > coalesce(%(now)s::timestamptz, statement_timestamp())
    GROUP BY 1, 2
), wanted AS MATERIALIZED (
    SELECT w.job_type, w.max_attempts, w.per_account,
        least(w.room, w.everywhere - coalesce((SELECT sum(r.running) FROM running r WHERE r.job_type = w.job_type), 0))
            AS room
    FROM unnest(%(types)s::text[], %(rooms)s::int[], %(max_attempts)s::int[], %(everywhere)s::int[],
        %(per_account)s::int[]) AS w (job_type, room, max_attempts, everywhere, per_account)
    WHERE NOT EXISTS (SELECT FROM job_type_pauses p WHERE p.job_type = w.job_type)
), queues AS (
    SELECT w.job_type, head.priority, head.account
    FROM wanted w
    CROSS JOIN LATERAL (
        SELECT j.priority, coalesce(j.mailbox_account_id, '') AS account
        FROM jobs j
        WHERE j.job_type = w.job_type AND j.state IN ('Pending', 'Claimed')
        ORDER BY j.priority, coalesce(j.mailbox_account_id, '')
        LIMIT 1
    ) AS head
    WHERE w.room > 0
    UNION ALL
    SELECT q.job_type, following.priority, following.account
    FROM queues q
    CROSS JOIN LATERAL (
        SELECT j.priority, coalesce(j.mailbox_account_id, '') AS account
        FROM jobs j
        WHERE j.job_type = q.job_type AND j.state IN ('Pending', 'Claimed')
            AND (j.priority, coalesce(j.mailbox_account_id, '')) > (q.priority, q.account)
        ORDER BY j.priority, coalesce(j.mailbox_account_id, '')
        LIMIT 1
    ) AS following
), shares AS (
    SELECT job_type, ceil(%(contenders)s::numeric / count(*)) AS spare FROM queues GROUP BY job_type
), candidates AS MATERIALIZED (
    SELECT front.id, q.job_type, q.priority, front.available_at,
        coalesce(r.running, 0) + row_number() OVER (
            PARTITION BY q.job_type, q.account ORDER BY q.priority, front.available_at, front.id
        ) AS turn,
        w.per_account
    FROM queues q
    JOIN wanted w ON w.job_type = q.job_type
    JOIN shares s ON s.job_type = q.job_type
    LEFT JOIN running r ON r.job_type = q.job_type AND r.account = q.account
    CROSS JOIN LATERAL (
        SELECT j.id, j.available_at
        FROM jobs j
        WHERE j.job_type = q.job_type AND j.priority = q.priority AND coalesce(j.mailbox_account_id, '') = q.account
            AND j.state IN ('Pending', 'Claimed')
            AND j.available_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
            AND (j.state = 'Pending' OR j.lease_expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp()))
        ORDER BY j.available_at, j.id
        LIMIT least(w.room, %(limit)s) + s.spare
    ) AS front
), lists AS MATERIALIZED (
    SELECT c.job_type, w.room, array_agg(c.id ORDER BY c.place) AS ids, min(c.available_at) AS available_at
    FROM (
        SELECT id, job_type, available_at,
            row_number() OVER (PARTITION BY job_type ORDER BY priority, turn, available_at, id) AS place
        FROM candidates
        WHERE per_account IS NULL OR turn <= per_account
    ) AS c
    JOIN wanted w ON w.job_type = c.job_type
    WHERE c.place <= w.room + %(contenders)s
    GROUP BY c.job_type, w.room
), picked AS MATERIALIZED (
    SELECT free.id
    FROM lists l
    CROSS JOIN LATERAL (
        SELECT j.id, j.priority, array_position(l.ids, j.id) AS place
        FROM jobs j
        WHERE j.id = ANY (l.ids)
            AND (j.state = 'Pending' OR (j.state = 'Claimed'
                AND j.lease_expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp())))
        ORDER BY array_position(l.ids, j.id)
        LIMIT least(l.room, %(limit)s)
        FOR UPDATE OF j SKIP LOCKED
    ) AS free
    ORDER BY free.priority, free.place, l.available_at
    LIMIT %(limit)s
)
UPDATE jobs j SET
    state = CASE WHEN j.state = 'Claimed' AND j.attempt_count >= w.max_attempts THEN 'DeadLettered' ELSE 'Claimed' END,
    state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    attempt_count = CASE WHEN j.state = 'Claimed' AND j.attempt_count >= w.max_attempts
        THEN j.attempt_count ELSE j.attempt_count + 1 END,
    lease_owner = CASE WHEN j.state = 'Claimed' AND j.attempt_count >= w.max_attempts THEN NULL ELSE %(owner)s END,
    lease_expires_at = CASE WHEN j.state = 'Claimed' AND j.attempt_count >= w.max_attempts THEN NULL
        ELSE coalesce(%(now)s::timestamptz, statement_timestamp()) + %(lease)s END,
    last_failure_classification = CASE WHEN j.state = 'Claimed' AND j.attempt_count >= w.max_attempts
        THEN 'Transient' ELSE j.last_failure_classification END,
    last_failure_reason = CASE WHEN j.state = 'Claimed' AND j.attempt_count >= w.max_attempts
        THEN 'AttemptsExhaustedByCrash' ELSE j.last_failure_reason END
FROM wanted w
WHERE j.id = ANY (ARRAY(SELECT id FROM picked)) AND w.job_type = j.job_type
RETURNING j.state, j.id, j.job_type, j.mailbox_account_id, j.payload, j.attempt_count, j.lease_owner,
    j.enqueued_trace_parent, j.enqueued_trace_state;

-- name: renew
-- Hold a job for another lease, while it is still this attempt's.
UPDATE jobs SET lease_expires_at = coalesce(%(now)s::timestamptz, statement_timestamp()) + %(lease)s
WHERE id = %(id)s AND state = 'Claimed' AND lease_owner = %(owner)s
RETURNING id;

-- name: progress
-- Say how far an attempt is, while the job is still its own.
UPDATE jobs SET progress_done = %(done)s, progress_total = %(total)s
WHERE id = %(id)s AND state = 'Claimed' AND lease_owner = %(owner)s
RETURNING id;

-- name: complete
-- The attempt finished.
UPDATE jobs SET state = 'Succeeded', state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    lease_owner = NULL, lease_expires_at = NULL, result_counts = %(result)s::jsonb
WHERE id = %(id)s AND state = 'Claimed' AND lease_owner = %(owner)s
RETURNING id;

-- name: retry
-- The attempt failed and another one may succeed.
UPDATE jobs SET state = 'Pending', state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    available_at = coalesce(%(now)s::timestamptz, statement_timestamp()) + %(delay)s,
    lease_owner = NULL, lease_expires_at = NULL,
    last_failure_classification = %(classification)s, last_failure_reason = %(reason)s
WHERE id = %(id)s AND state = 'Claimed' AND lease_owner = %(owner)s
RETURNING id;

-- name: dead_letter
-- The attempt failed and nobody tries again by himself.
UPDATE jobs SET state = 'DeadLettered', state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    lease_owner = NULL, lease_expires_at = NULL,
    last_failure_classification = %(classification)s, last_failure_reason = %(reason)s
WHERE id = %(id)s AND state = 'Claimed' AND lease_owner = %(owner)s
RETURNING id;

-- name: release
-- The process stops: the job is free at once and the attempt is given back.
UPDATE jobs SET state = 'Pending', state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    available_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    attempt_count = greatest(attempt_count - 1, 0), lease_owner = NULL, lease_expires_at = NULL
WHERE id = %(id)s AND state = 'Claimed' AND lease_owner = %(owner)s
RETURNING id, pg_notify('mailkeep_jobs', job_type);

-- name: prune
-- Remove some jobs of a type that ended long ago; their keys are free afterwards.
DELETE FROM jobs WHERE id = ANY (ARRAY(
    SELECT id FROM jobs
    WHERE job_type = %(job_type)s AND state IN ('Succeeded', 'Dropped')
        AND state_changed_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(retention)s
    ORDER BY state_changed_at
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
));

-- name: read_clock
-- The one clock of all processes.
SELECT coalesce(%(now)s::timestamptz, clock_timestamp());

-- name: read_schedules
-- What each of these schedules last did, and whether the job it then made is still under way.
SELECT s.schedule_id, s.observed_from, s.last_occurrence_at, s.last_dispatched_job_id, s.paused_at,
    coalesce(j.state IN ('Pending', 'Claimed'), false)
FROM job_schedules s
LEFT JOIN jobs j ON j.id = s.last_dispatched_job_id
WHERE s.schedule_id = ANY (%(ids)s);

-- name: seed_schedule
-- A new declaration owes nothing of the past.
INSERT INTO job_schedules (schedule_id, observed_from) VALUES (%(schedule_id)s, %(now)s)
ON CONFLICT (schedule_id) DO NOTHING;

-- name: advance_schedule
-- Which occasion was acted on, and the job it made if it made one.
INSERT INTO job_schedules (schedule_id, observed_from, last_occurrence_at, last_dispatched_job_id)
VALUES (%(schedule_id)s, %(now)s, %(occasion)s, %(job_id)s)
ON CONFLICT (schedule_id) DO UPDATE SET
    last_occurrence_at = greatest(job_schedules.last_occurrence_at, excluded.last_occurrence_at),
    last_dispatched_job_id = coalesce(excluded.last_dispatched_job_id, job_schedules.last_dispatched_job_id);

-- name: pause_schedule
-- Pause a schedule (or let it go on: null); it owes nothing of the time it was paused.
INSERT INTO job_schedules (schedule_id, observed_from, paused_at)
VALUES (%(schedule_id)s, coalesce(%(now)s::timestamptz, statement_timestamp()),
    CASE WHEN %(paused)s THEN coalesce(%(now)s::timestamptz, statement_timestamp()) END)
ON CONFLICT (schedule_id) DO UPDATE SET paused_at = excluded.paused_at,
    last_occurrence_at = CASE WHEN %(paused)s OR job_schedules.paused_at IS NULL
        THEN job_schedules.last_occurrence_at ELSE excluded.observed_from END;

-- name: pause_type
-- Claim no more jobs of a type anywhere.
INSERT INTO job_type_pauses (job_type, paused_at)
VALUES (%(job_type)s, coalesce(%(now)s::timestamptz, statement_timestamp()))
ON CONFLICT (job_type) DO NOTHING;

-- name: resume_type
-- Claim jobs of a type again, at once.
WITH resumed AS (DELETE FROM job_type_pauses WHERE job_type = %(job_type)s RETURNING job_type)
SELECT job_type, pg_notify('mailkeep_jobs', job_type) FROM resumed;

-- name: paused_types
-- The types that are paused.
SELECT job_type, paused_at FROM job_type_pauses ORDER BY job_type;

-- name: list_dead_lettered
-- One page of what has stopped, newest first; the payload is never read.
SELECT id, job_type, state, attempt_count, last_failure_classification, last_failure_reason, idempotency_key,
    mailbox_account_id, enqueued_at, state_changed_at, available_at, lease_owner, lease_expires_at, progress_done,
    progress_total, result_counts
FROM jobs
WHERE state = 'DeadLettered' AND job_type = ANY (%(types)s)
    AND (%(account_id)s::text IS NULL OR mailbox_account_id = %(account_id)s)
    AND (state_changed_at, id) < (%(before)s::timestamptz, %(before_id)s::uuid)
ORDER BY state_changed_at DESC, id DESC
LIMIT %(limit)s;

-- name: list_under_way
-- One page of what waits or runs, latest change first.
SELECT id, job_type, state, attempt_count, last_failure_classification, last_failure_reason, idempotency_key,
    mailbox_account_id, enqueued_at, state_changed_at, available_at, lease_owner, lease_expires_at, progress_done,
    progress_total, result_counts
FROM jobs
WHERE state IN ('Pending', 'Claimed') AND state = %(state)s AND job_type = ANY (%(types)s)
    AND (%(account_id)s::text IS NULL OR mailbox_account_id = %(account_id)s)
    AND (state_changed_at, id) < (%(before)s::timestamptz, %(before_id)s::uuid)
ORDER BY state_changed_at DESC, id DESC
LIMIT %(limit)s;

-- name: list_ended
-- One page of what succeeded or was dropped, latest first; each type is read from its own end of the index.
SELECT one.*
FROM unnest(%(types)s::text[]) AS wanted (job_type)
CROSS JOIN LATERAL (
    SELECT id, job_type, state, attempt_count, last_failure_classification, last_failure_reason, idempotency_key,
        mailbox_account_id, enqueued_at, state_changed_at, available_at, lease_owner, lease_expires_at, progress_done,
        progress_total, result_counts
    FROM jobs j
    WHERE j.job_type = wanted.job_type AND j.state IN ('Succeeded', 'Dropped') AND j.state = %(state)s
        AND (%(account_id)s::text IS NULL OR j.mailbox_account_id = %(account_id)s)
        AND j.state_changed_at <= %(before)s::timestamptz
        AND (j.state_changed_at, j.id) < (%(before)s::timestamptz, %(before_id)s::uuid)
    ORDER BY j.state_changed_at DESC, j.id DESC
    LIMIT %(limit)s
) AS one
ORDER BY one.state_changed_at DESC, one.id DESC
LIMIT %(limit)s;

-- name: show_job
-- One job, whatever became of it.
SELECT id, job_type, state, attempt_count, last_failure_classification, last_failure_reason, idempotency_key,
    mailbox_account_id, enqueued_at, state_changed_at, available_at, lease_owner, lease_expires_at, progress_done,
    progress_total, result_counts
FROM jobs
WHERE id = %(id)s AND job_type = ANY (%(types)s);

-- name: retry_dead_letter
-- Let a stopped job run again from its first attempt, under its key.
UPDATE jobs SET state = 'Pending', state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    available_at = coalesce(%(now)s::timestamptz, statement_timestamp()), attempt_count = 0
WHERE id = %(id)s AND state = 'DeadLettered' AND job_type = ANY (%(types)s)
RETURNING id, pg_notify('mailkeep_jobs', job_type);

-- name: drop_dead_letter
-- Give a stopped job up; its key stays, so that its trigger cannot enqueue it again.
UPDATE jobs SET state = 'Dropped', state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp())
WHERE id = %(id)s AND state = 'DeadLettered' AND job_type = ANY (%(types)s)
RETURNING id;

-- name: cancel_pending
-- Give a job up that no attempt holds.
UPDATE jobs SET state = 'Dropped', state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp())
WHERE id = %(id)s AND state = 'Pending' AND job_type = ANY (%(types)s)
RETURNING id;

-- name: announce
-- Wake the workers when this commits.
SELECT pg_notify('mailkeep_jobs', %(job_type)s);

-- name: count_dead_letters
-- How many stopped jobs of a type a bulk retry would take, and up to which instant.
SELECT count(*), coalesce(%(now)s::timestamptz, clock_timestamp())
FROM jobs
WHERE state = 'DeadLettered' AND job_type = %(job_type)s
    AND (%(reason)s::text IS NULL OR last_failure_reason = %(reason)s)
    AND (%(since)s::timestamptz IS NULL OR state_changed_at >= %(since)s)
    AND state_changed_at <= coalesce(%(until)s::timestamptz, %(now)s::timestamptz, clock_timestamp());

-- name: retry_dead_letters
-- Let all stopped jobs of a type, reason and span of time run again.
UPDATE jobs SET state = 'Pending', state_changed_at = coalesce(%(now)s::timestamptz, statement_timestamp()),
    available_at = coalesce(%(now)s::timestamptz, statement_timestamp()), attempt_count = 0
WHERE state = 'DeadLettered' AND job_type = %(job_type)s
    AND (%(reason)s::text IS NULL OR last_failure_reason = %(reason)s)
    AND (%(since)s::timestamptz IS NULL OR state_changed_at >= %(since)s)
    AND state_changed_at <= coalesce(%(until)s::timestamptz, %(now)s::timestamptz, statement_timestamp());
