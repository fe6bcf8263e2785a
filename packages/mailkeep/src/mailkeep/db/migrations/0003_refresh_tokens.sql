-- One sealed OAuth refresh token per account (SYNC-45). It has no foreign key on purpose: it may be there before the
-- account has ever synchronized. Erasing an account deletes it by name.
CREATE TABLE mailbox_refresh_tokens (
    mailbox_account_id varchar(128) NOT NULL,
    sealed_refresh_token bytea NOT NULL,
    data_encryption_key_id varchar(64) NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_mailbox_refresh_tokens PRIMARY KEY (mailbox_account_id)
);
CREATE INDEX ix_mailbox_refresh_tokens_data_encryption_key ON mailbox_refresh_tokens (data_encryption_key_id);
