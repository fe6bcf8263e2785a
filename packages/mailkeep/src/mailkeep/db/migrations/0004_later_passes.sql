-- Later passes: re-derivation of stored mail (SYNC-126, SYNC-127), proofs of completeness, and what became of attempts
-- to repair content and to empty the quarantine.

-- What an operator asked to have read again, and how it went. An empty alias is the whole account; `ended_at` null is
-- outstanding. Neither table has a foreign key: the scope is a name, and erasing an account deletes both by it.
CREATE TABLE mail_rederivation_runs (
    mailbox_account_id varchar(128) NOT NULL,
    folder_alias varchar(128) NOT NULL,
    run_id uuid NOT NULL,
    requested_at timestamptz NOT NULL,
    segment_count integer NOT NULL,
    rederived_email_count integer NOT NULL,
    unreadable_email_count integer NOT NULL,
    missing_content_email_count integer NOT NULL,
    ended_at timestamptz,
    CONSTRAINT pk_mail_rederivation_runs PRIMARY KEY (mailbox_account_id, folder_alias)
);

-- Where an unfinished walk stands. Deleted when it ends.
CREATE TABLE mail_rederivation_positions (
    mailbox_account_id varchar(128) NOT NULL,
    folder_alias varchar(128) NOT NULL,
    last_processed_stored_email_id uuid NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_mail_rederivation_positions PRIMARY KEY (mailbox_account_id, folder_alias)
);

-- The last time the server's set of UIDs was compared with ours, one by one, for each folder.
-- server = stored + skipped + excluded_by_date + quarantined + holes; surplus is held here and not on the server.
CREATE TABLE completeness_proofs (
    mail_folder_id bigint NOT NULL,
    uid_validity bigint NOT NULL,
    proved_at timestamptz NOT NULL,
    server_count bigint NOT NULL,
    stored_count bigint NOT NULL,
    skipped_count bigint NOT NULL,
    excluded_by_date_count bigint NOT NULL,
    quarantined_count bigint NOT NULL,
    hole_count bigint NOT NULL,
    surplus_count bigint NOT NULL,
    filled_count bigint NOT NULL,
    CONSTRAINT pk_completeness_proofs PRIMARY KEY (mail_folder_id),
    CONSTRAINT fk_completeness_proofs_mail_folders FOREIGN KEY (mail_folder_id)
        REFERENCES mail_folders (id) ON DELETE CASCADE
);

-- An attempt that could not repair leaves its reason, so that the folder is not opened for it again until somebody
-- meets the damage anew.
ALTER TABLE email_content_repair_requests ADD COLUMN last_attempt_at timestamptz;
ALTER TABLE email_content_repair_requests ADD COLUMN last_attempt_outcome varchar(64);

-- The build that made the last attempt: another one tries once more by itself.
ALTER TABLE quarantined_messages ADD COLUMN attempted_by_version varchar(64);
