-- Durable background work (docs/spec/jobs.md): the queue, the schedules that fill it, and the types an operator paused.

-- `priority` 0 is somebody waiting, 10 is ordinary. Progress and result are counts, never content. The foreign key lets
-- erasing an account reach its jobs; enqueuing makes the account's row first, since an account may have none yet.
CREATE TABLE jobs (
    id uuid NOT NULL,
    job_type varchar(64) NOT NULL,
    idempotency_key varchar(256) NOT NULL,
    payload jsonb NOT NULL,
    mailbox_account_id varchar(128),
    priority smallint NOT NULL,
    state varchar(64) NOT NULL,
    available_at timestamptz NOT NULL,
    enqueued_at timestamptz NOT NULL,
    state_changed_at timestamptz NOT NULL,
    attempt_count integer NOT NULL,
    lease_owner varchar(128),
    lease_expires_at timestamptz,
    last_failure_classification varchar(64),
    last_failure_reason varchar(128),
    enqueued_trace_parent varchar(55),
    enqueued_trace_state varchar(512),
    progress_done bigint,
    progress_total bigint,
    result_counts jsonb,
    CONSTRAINT pk_jobs PRIMARY KEY (id),
    CONSTRAINT fk_jobs_mailbox_accounts FOREIGN KEY (mailbox_account_id)
        REFERENCES mailbox_accounts (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX ix_jobs_identity ON jobs (job_type, idempotency_key);
-- One queue per type, priority and account: a claim walks from queue to queue and reads the front of each, so that
-- neither finished rows nor one account's backlog cost it anything.
CREATE INDEX ix_jobs_claimable ON jobs (job_type, priority, coalesce(mailbox_account_id, ''), available_at, id)
    WHERE state IN ('Pending', 'Claimed');
CREATE INDEX ix_jobs_running ON jobs (job_type, coalesce(mailbox_account_id, ''), lease_expires_at)
    WHERE state = 'Claimed';
CREATE INDEX ix_jobs_account ON jobs (mailbox_account_id, enqueued_at);
CREATE INDEX ix_jobs_dead_lettered ON jobs (state_changed_at, id) WHERE state = 'DeadLettered';
CREATE INDEX ix_jobs_prunable ON jobs (job_type, state_changed_at) WHERE state IN ('Succeeded', 'Dropped');

CREATE TABLE job_schedules (
    schedule_id varchar(256) NOT NULL,
    observed_from timestamptz NOT NULL,
    last_occurrence_at timestamptz,
    last_dispatched_job_id uuid,
    paused_at timestamptz,
    CONSTRAINT pk_job_schedules PRIMARY KEY (schedule_id)
);

CREATE TABLE job_type_pauses (
    job_type varchar(64) NOT NULL,
    paused_at timestamptz NOT NULL,
    CONSTRAINT pk_job_type_pauses PRIMARY KEY (job_type)
);
