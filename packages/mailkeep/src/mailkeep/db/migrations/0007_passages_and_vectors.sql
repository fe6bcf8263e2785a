-- Passages of mail and their vectors (docs/spec/search.md sections 7 to 11, docs/decisions/0011-local-embeddings.md).
--
-- A server of one's own has the extension installed beforehand where only its superuser may do that.
CREATE EXTENSION IF NOT EXISTS vector;

-- The full length of a text that was cut only up to embeddings.max_characters_per_email.
ALTER TABLE stored_emails ADD COLUMN chunked_text_truncated_from_character_count integer;

CREATE TABLE email_chunks (
    id uuid NOT NULL,
    stored_email_id uuid NOT NULL,
    ordinal integer NOT NULL,
    start_offset integer NOT NULL,
    text text NOT NULL,
    content_hash char(64) NOT NULL,
    rule_set_version integer NOT NULL,
    is_derived_from_lossy_html boolean NOT NULL,
    derived_at timestamptz NOT NULL,
    CONSTRAINT pk_email_chunks PRIMARY KEY (id),
    CONSTRAINT fk_email_chunks_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX ix_email_chunks_email_ordinal ON email_chunks (stored_email_id, ordinal);

-- Which reading of a message was cut, under which rules and up to which length; what is not here is outstanding.
-- `failure` says why a message gave no passages although it has text.
CREATE TABLE email_passage_cuts (
    stored_email_id uuid NOT NULL,
    document_extracted_at timestamptz NOT NULL,
    rule_set_version integer NOT NULL,
    character_ceiling integer NOT NULL,
    failure varchar(64),
    cut_at timestamptz NOT NULL,
    CONSTRAINT pk_email_passage_cuts PRIMARY KEY (stored_email_id),
    CONSTRAINT fk_email_passage_cuts_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE
);

CREATE TABLE embedding_profiles (
    id uuid NOT NULL,
    provider varchar(64) NOT NULL,
    model_identifier varchar(128) NOT NULL,
    model_version varchar(64),
    dimension integer NOT NULL,
    distance_metric varchar(64) NOT NULL,
    input_character_limit integer NOT NULL,
    passage_instruction varchar(512),
    normalizes_vector boolean NOT NULL,
    identity_fingerprint char(64) NOT NULL,
    lifecycle_state varchar(64) NOT NULL,
    registered_at timestamptz NOT NULL,
    activated_at timestamptz,
    superseded_at timestamptz,
    CONSTRAINT pk_embedding_profiles PRIMARY KEY (id),
    CONSTRAINT ak_embedding_profiles_id_dimension UNIQUE (id, dimension)
);
CREATE UNIQUE INDEX ix_embedding_profiles_identity_fingerprint ON embedding_profiles (identity_fingerprint);
-- At most one profile is being built and one is being read.
CREATE UNIQUE INDEX ix_embedding_profiles_lifecycle_state ON embedding_profiles (lifecycle_state)
    WHERE lifecycle_state IN ('Building', 'Active');

CREATE TABLE email_embeddings (
    email_chunk_id uuid NOT NULL,
    embedding_profile_id uuid NOT NULL,
    dimension integer NOT NULL,
    embedding vector NOT NULL,
    generated_at timestamptz NOT NULL,
    CONSTRAINT pk_email_embeddings PRIMARY KEY (email_chunk_id, embedding_profile_id),
    CONSTRAINT fk_email_embeddings_email_chunks FOREIGN KEY (email_chunk_id)
        REFERENCES email_chunks (id) ON DELETE CASCADE,
    CONSTRAINT fk_email_embeddings_embedding_profiles FOREIGN KEY (embedding_profile_id, dimension)
        REFERENCES embedding_profiles (id, dimension) ON DELETE RESTRICT,
    CONSTRAINT ck_email_embeddings_dimension CHECK (vector_dims(embedding) = dimension)
);
CREATE INDEX ix_email_embeddings_profile ON email_embeddings (embedding_profile_id, dimension);

-- Messages that a provider refused, or whose vectors could not be used; tried again by every sweep.
CREATE TABLE email_embedding_failures (
    stored_email_id uuid NOT NULL,
    reason varchar(64) NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT pk_email_embedding_failures PRIMARY KEY (stored_email_id),
    CONSTRAINT fk_email_embedding_failures_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE
);

CREATE TABLE embedding_spend_periods (
    period_starts_at timestamptz NOT NULL,
    consumed_input_character_count bigint NOT NULL,
    CONSTRAINT pk_embedding_spend_periods PRIMARY KEY (period_starts_at)
);

-- What a call that is under way has put aside. Its characters are in the period already; a process that dies in the
-- middle of a call leaves the row, and the characters count as spent, since the provider may have answered.
CREATE TABLE embedding_spend_reservations (
    id uuid NOT NULL,
    period_starts_at timestamptz NOT NULL,
    reserved_input_character_count bigint NOT NULL,
    reserved_at timestamptz NOT NULL,
    CONSTRAINT pk_embedding_spend_reservations PRIMARY KEY (id)
);

CREATE TABLE backfill_positions (
    name varchar(64) NOT NULL,
    last_processed_stored_email_id uuid NOT NULL,
    sensitive_content_stamp char(64),
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_backfill_positions PRIMARY KEY (name)
);

-- How the provider behind the declared profile last behaved, for every process of this database.
CREATE TABLE ai_provider_health (
    role varchar(64) NOT NULL,
    state varchar(64) NOT NULL,
    failure_class varchar(64),
    observed_at timestamptz NOT NULL,
    CONSTRAINT pk_ai_provider_health PRIMARY KEY (role)
);
