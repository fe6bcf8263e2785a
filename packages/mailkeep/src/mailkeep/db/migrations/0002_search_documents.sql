-- What lexical search reads: one document per message (docs/spec/search.md section 5, docs/decisions/0003-lexical-search.md).
--
-- `mail_folder_id` and `received_at` are copies of the message row's, so that a search meets its scope and its order
-- without reading that row. The vector holds subject (A), people (B) and body (D), and beside the words a few marks that
-- no text can hold, since texts are free of control characters. U+0001 begins each:
--   f<folder id>             the folder
--   w<n>, b<n>, c<n>         the span of 1, 8, 64 weeks (counted from 1970) in which the message was received; u: undated
--   s                        one message in 128, by the random end of its id: the sample that frequencies are read from
-- Through them the index itself finds the newest matches of a frequent word, and those of a small folder.
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
        || array_to_tsvector(ARRAY[
            U&'\0001f' || mail_folder_id::text,
            coalesce(U&'\0001w' || floor(extract(epoch FROM received_at - timestamptz '1970-01-01 00:00:00+00')
                / 604800)::integer::text, U&'\0001u'),
            coalesce(U&'\0001b' || floor(extract(epoch FROM received_at - timestamptz '1970-01-01 00:00:00+00')
                / 4838400)::integer::text, U&'\0001u'),
            coalesce(U&'\0001c' || floor(extract(epoch FROM received_at - timestamptz '1970-01-01 00:00:00+00')
                / 38707200)::integer::text, U&'\0001u'),
            CASE WHEN right(stored_email_id::text, 2) IN ('00', '80') THEN U&'\0001s'
                ELSE U&'\0001f' || mail_folder_id::text END])
    ) STORED,
    CONSTRAINT pk_email_search_documents PRIMARY KEY (stored_email_id),
    CONSTRAINT fk_email_search_documents_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE
) WITH (toast_tuple_target = 512);
-- A row that leaves the page keeps its heap tuple small; a vector does not compress, so it is not tried.
ALTER TABLE email_search_documents ALTER COLUMN search_vector SET STORAGE EXTERNAL;
-- Arrivals wait in the index's pending list and enter it together, which halves what a message costs. A search reads that
-- list too, about 1.3 ms for 1,000 messages in it; 8 MB hold fewer than 2,000.
CREATE INDEX ix_email_search_documents_search_vector ON email_search_documents USING gin (search_vector)
    WITH (fastupdate = on, gin_pending_list_limit = 8192);
