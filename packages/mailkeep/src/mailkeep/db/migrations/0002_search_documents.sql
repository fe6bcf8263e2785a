-- What lexical search reads: one document per message (docs/spec/search.md section 5).

CREATE TABLE email_search_documents (
    stored_email_id uuid NOT NULL,
    subject_text varchar(2000),
    participant_addresses text,
    participant_names text,
    body_text text,
    body_text_before_trimming text,
    extra_terms text,
    text_source varchar(64) NOT NULL,
    extracted_at timestamptz NOT NULL,
    search_vector tsvector NOT NULL GENERATED ALWAYS AS (
        setweight(to_tsvector('simple', coalesce(subject_text, '')), 'A')
        || setweight(to_tsvector('simple', coalesce(participant_names, '') || ' ' || coalesce(participant_addresses, '')), 'B')
        || setweight(to_tsvector('simple', left(coalesce(body_text, ''), 100000) || ' ' || coalesce(extra_terms, '')), 'D')
    ) STORED,
    CONSTRAINT pk_email_search_documents PRIMARY KEY (stored_email_id),
    CONSTRAINT fk_email_search_documents_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE
);
CREATE INDEX ix_email_search_documents_search_vector ON email_search_documents USING gin (search_vector);
