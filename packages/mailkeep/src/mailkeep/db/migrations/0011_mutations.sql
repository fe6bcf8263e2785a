-- Changes of the remote mailbox: the intent of each, committed before its first command, and how it ended.
CREATE TABLE mailbox_mutations (
    id uuid NOT NULL,
    stored_email_id uuid NOT NULL,
    mailbox_account_id varchar(128) NOT NULL,
    mail_folder_id bigint NOT NULL,
    uid_validity bigint NOT NULL,
    uid bigint NOT NULL,
    mutation varchar(64) NOT NULL,
    requester_origin varchar(64) NOT NULL,
    requester_identity varchar(128) NOT NULL,
    destination_folder_path varchar(512),
    destination_hierarchy_delimiter varchar(1),
    creates_destination boolean NOT NULL DEFAULT false,
    desired_seen_state boolean,
    desired_flagged_state boolean,
    keywords text[],
    local_disposition varchar(64),
    prior_state boolean,  -- of the flag it is about, as last observed when it was asked for; null is unknown
    prior_keywords text[],
    undoes_mutation_id uuid,  -- no key: what was undone may be pruned first
    stage varchar(64) NOT NULL,
    stage_changed_at timestamptz NOT NULL,
    abandoned_from_stage varchar(64),
    issued_at timestamptz,  -- before the command went out that its stage does not tell
    requires_source_removal boolean NOT NULL DEFAULT false,
    placement_uid_validity bigint,
    placement_uid bigint,
    placement_observed_at timestamptz,
    source_removal_observed_at timestamptz,
    attempt_count integer NOT NULL DEFAULT 0,
    last_failure_code integer,
    audit_trail_enabled boolean NOT NULL DEFAULT false,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT pk_mailbox_mutations PRIMARY KEY (id),
    CONSTRAINT fk_mailbox_mutations_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE,
    CONSTRAINT fk_mailbox_mutations_mail_folders FOREIGN KEY (mail_folder_id)
        REFERENCES mail_folders (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX ix_mailbox_mutations_identity ON mailbox_mutations
    (mail_folder_id, uid_validity, uid, requester_origin, requester_identity, mutation);
CREATE INDEX ix_mailbox_mutations_outstanding ON mailbox_mutations (mailbox_account_id, recorded_at, id)
    WHERE stage <> 'Completed';
CREATE INDEX ix_mailbox_mutations_placement ON mailbox_mutations
    (mailbox_account_id, destination_folder_path, placement_uid_validity, placement_uid)
    WHERE placement_observed_at IS NULL;
CREATE INDEX ix_mailbox_mutations_stored_email_id ON mailbox_mutations (stored_email_id);
CREATE INDEX ix_mailbox_mutations_request ON mailbox_mutations (requester_identity) WHERE requester_origin = 'Command';
CREATE INDEX ix_mailbox_mutations_completed ON mailbox_mutations (mailbox_account_id, stage_changed_at)
    WHERE stage = 'Completed';
CREATE INDEX ix_mailbox_mutations_audited ON mailbox_mutations (mailbox_account_id, stage_changed_at)
    WHERE audit_trail_enabled;

-- How a change ended. All plain values and no key: an entry outlives the message it says was deleted.
CREATE TABLE mailbox_mutation_audit_entries (
    id uuid NOT NULL,
    mutation_record_id uuid NOT NULL,
    stored_email_id uuid NOT NULL,
    mailbox_account_id varchar(128) NOT NULL,
    mutation varchar(64) NOT NULL,
    outcome varchar(64) NOT NULL,
    requester_origin varchar(64) NOT NULL,
    requester_identity varchar(128) NOT NULL,
    source_folder_path varchar(512) NOT NULL,
    source_hierarchy_delimiter varchar(1),
    source_uid_validity bigint NOT NULL,
    source_uid bigint NOT NULL,
    destination_folder_path varchar(512),
    destination_hierarchy_delimiter varchar(1),
    placement_uid_validity bigint,
    placement_uid bigint,
    desired_seen_state boolean,
    desired_flagged_state boolean,
    keywords text[],
    failure_code integer,
    requested_at timestamptz NOT NULL,
    completed_at timestamptz NOT NULL,
    CONSTRAINT pk_mailbox_mutation_audit_entries PRIMARY KEY (id)
);
-- One entry per ending: an operator may retry what was abandoned, and then it ends once more.
CREATE UNIQUE INDEX ix_mailbox_mutation_audit_entries_mutation
    ON mailbox_mutation_audit_entries (mutation_record_id, completed_at);
CREATE INDEX ix_mailbox_mutation_audit_entries_account_completed
    ON mailbox_mutation_audit_entries (mailbox_account_id, completed_at, id);
