-- What lexical search reads: one document per message (docs/spec/search.md section 5, docs/decisions/0003-lexical-search.md).
--
-- `mail_folder_id` and `received_at` are copies of the message row's, so that a search meets its scope and its order
-- without reading that row. The vector holds subject (A), people (B) and body (D), and beside the words some marks that
-- no text can hold, because no text holds control characters: U+0001 with a letter and a number says in which folder
-- and in which span of time the message is. Through them the index finds the newest matches of a frequent word.
CREATE TABLE email_search_documents (
    stored_email_id uuid NOT NULL,
    mail_folder_id bigint NOT NULL,
    received_at timestamptz,
    extracted_at timestamptz NOT NULL,
    indexed_body_characters integer NOT NULL,
    text_source varchar(64) NOT NULL,
    subject_text varchar(2000),
    subject_terms text,
    participant_addresses text,
    participant_names text,
    participant_terms text,
    body_text text,
    body_terms text,
    body_text_before_trimming text,
    search_vector tsvector NOT NULL GENERATED ALWAYS AS (
        setweight(to_tsvector('simple', coalesce(subject_text, '') || ' ' || coalesce(subject_terms, '')), 'A')
        || setweight(to_tsvector('simple', coalesce(participant_names, '') || ' ' || coalesce(participant_addresses, '')
            || ' ' || coalesce(participant_terms, '')), 'B')
        || to_tsvector('simple', coalesce(body_terms, '') || ' '
            || left(coalesce(body_text, ''), least(indexed_body_characters, 100000)))
    ) STORED,
    CONSTRAINT pk_email_search_documents PRIMARY KEY (stored_email_id),
    CONSTRAINT fk_email_search_documents_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE
);
CREATE INDEX ix_email_search_documents_search_vector ON email_search_documents USING gin (search_vector);
