-- What Gmail says of a message (X-GM-EXT-1): its labels, upper-cased like keywords and found as keywords, and the ids of
-- message and conversation, unsigned 64-bit numbers as their digits. Empty and null on other servers.
ALTER TABLE stored_emails
    ADD COLUMN remote_labels text[] NOT NULL DEFAULT '{}',
    ADD COLUMN gmail_message_id varchar(20),
    ADD COLUMN gmail_thread_id varchar(20);
DROP INDEX ix_stored_emails_remote_keywords;
CREATE INDEX ix_stored_emails_remote_keywords ON stored_emails USING gin ((remote_keywords || remote_labels));
