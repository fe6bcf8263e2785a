-- Texts of attachments, read after arrival (docs/spec/search.md section 5, docs/decisions/0010-attachment-text.md).
--
-- `attachments_read_by` is the version of the rules under which a message's attachments were read; null is outstanding.
-- Whoever reads a message anew sets it back to null.
ALTER TABLE stored_emails ADD COLUMN attachments_read_by integer;
CREATE INDEX ix_stored_emails_attachments_read_by ON stored_emails (attachments_read_by, id) WHERE attachment_count > 0;

-- One attachment of one reading of a message (`document_extracted_at` says which). `outcome` is null while it is being
-- read: an attempt is counted before it begins, so that what ends the service every time is given up.
CREATE TABLE email_attachment_texts (
    stored_email_id uuid NOT NULL,
    attachment_position integer NOT NULL,
    document_extracted_at timestamptz NOT NULL,
    rule_version integer NOT NULL,
    attempt_count integer NOT NULL,
    last_attempt_at timestamptz NOT NULL,
    file_name varchar(200),
    name_vector tsvector NOT NULL,
    media_type varchar(255) NOT NULL,
    size_octets bigint NOT NULL,
    outcome varchar(64),
    is_partial boolean NOT NULL DEFAULT false,
    character_count integer NOT NULL DEFAULT 0,
    CONSTRAINT pk_email_attachment_texts PRIMARY KEY (stored_email_id, attachment_position),
    CONSTRAINT fk_email_attachment_texts_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE
);

-- The text in pieces of about 2,000 characters, each with its words: a hit and its snippet are found in one of them.
CREATE TABLE email_attachment_segments (
    stored_email_id uuid NOT NULL,
    attachment_position integer NOT NULL,
    ordinal integer NOT NULL,
    starts_at integer NOT NULL,
    segment_text text NOT NULL,
    segment_vector tsvector NOT NULL,
    CONSTRAINT pk_email_attachment_segments PRIMARY KEY (stored_email_id, attachment_position, ordinal),
    CONSTRAINT fk_email_attachment_segments_email_attachment_texts FOREIGN KEY (stored_email_id, attachment_position)
        REFERENCES email_attachment_texts (stored_email_id, attachment_position) ON DELETE CASCADE
);
ALTER TABLE email_attachment_segments ALTER COLUMN segment_vector SET STORAGE EXTERNAL;

-- The words of all attachments (C) stand beside the message's own vector, so that ranking does not read them, and enter
-- its index together with it, so that a query is met by mail and attachments as one. The names alone, which are few, are
-- ranked too.
ALTER TABLE email_search_documents ADD COLUMN attachment_names_vector tsvector;
ALTER TABLE email_search_documents ADD COLUMN attachment_vector tsvector;
ALTER TABLE email_search_documents ALTER COLUMN attachment_vector SET STORAGE EXTERNAL;
DROP INDEX ix_email_search_documents_search_vector;
CREATE INDEX ix_email_search_documents_search_vector ON email_search_documents
    USING gin ((search_vector || coalesce(attachment_vector, ''::tsvector)))
    WITH (fastupdate = on, gin_pending_list_limit = 8192);
