-- What is worked out about a message's words after its arrival (docs/spec/search.md Beyond 3, docs/decisions/0009), and
-- the searches that people keep.
--
-- The stage `languages` writes four columns. `language` is an ISO 639 code, null where nothing can be said; the vector
-- then holds, beside the words, the stems of subject (A) and body in PostgreSQL's configuration for that language, and
-- one more mark, U+0001 `l` and the code, so that a stem of one language meets no word of another. `folded_vector` holds
-- words without their accents, and picture signs, which the parser does not see. `language_rules` says under which rules
-- that was done: 0 is a document as it arrived; one from before this migration has -1, and its extra terms are made anew.
ALTER TABLE email_search_documents
    ADD COLUMN language varchar(16),
    ADD COLUMN language_confidence real,
    ADD COLUMN language_rules smallint NOT NULL DEFAULT -1,
    ADD COLUMN folded_vector tsvector;
ALTER TABLE email_search_documents ALTER COLUMN language_rules SET DEFAULT 0;
CREATE INDEX ix_email_search_documents_language_rules ON email_search_documents (language_rules);

-- A generated column's expression cannot be changed before PostgreSQL 17, so the column is made anew.
ALTER TABLE email_search_documents DROP COLUMN search_vector;
ALTER TABLE email_search_documents ADD COLUMN
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
        || coalesce(folded_vector, ''::tsvector)
        || CASE WHEN language IS NULL THEN ''::tsvector ELSE
            setweight(to_tsvector(CASE language
                WHEN 'ar' THEN 'arabic'::regconfig WHEN 'hy' THEN 'armenian'::regconfig
                WHEN 'eu' THEN 'basque'::regconfig WHEN 'ca' THEN 'catalan'::regconfig
                WHEN 'da' THEN 'danish'::regconfig WHEN 'nl' THEN 'dutch'::regconfig
                WHEN 'en' THEN 'english'::regconfig WHEN 'fi' THEN 'finnish'::regconfig
                WHEN 'fr' THEN 'french'::regconfig WHEN 'de' THEN 'german'::regconfig
                WHEN 'el' THEN 'greek'::regconfig WHEN 'hi' THEN 'hindi'::regconfig
                WHEN 'hu' THEN 'hungarian'::regconfig WHEN 'id' THEN 'indonesian'::regconfig
                WHEN 'ga' THEN 'irish'::regconfig WHEN 'it' THEN 'italian'::regconfig
                WHEN 'lt' THEN 'lithuanian'::regconfig WHEN 'ne' THEN 'nepali'::regconfig
                WHEN 'no' THEN 'norwegian'::regconfig WHEN 'pt' THEN 'portuguese'::regconfig
                WHEN 'ro' THEN 'romanian'::regconfig WHEN 'ru' THEN 'russian'::regconfig
                WHEN 'sr' THEN 'serbian'::regconfig WHEN 'es' THEN 'spanish'::regconfig
                WHEN 'sv' THEN 'swedish'::regconfig WHEN 'ta' THEN 'tamil'::regconfig
                WHEN 'tr' THEN 'turkish'::regconfig WHEN 'yi' THEN 'yiddish'::regconfig
                ELSE 'simple'::regconfig END, coalesce(subject_text, '')), 'A')
            || to_tsvector(CASE language
                WHEN 'ar' THEN 'arabic'::regconfig WHEN 'hy' THEN 'armenian'::regconfig
                WHEN 'eu' THEN 'basque'::regconfig WHEN 'ca' THEN 'catalan'::regconfig
                WHEN 'da' THEN 'danish'::regconfig WHEN 'nl' THEN 'dutch'::regconfig
                WHEN 'en' THEN 'english'::regconfig WHEN 'fi' THEN 'finnish'::regconfig
                WHEN 'fr' THEN 'french'::regconfig WHEN 'de' THEN 'german'::regconfig
                WHEN 'el' THEN 'greek'::regconfig WHEN 'hi' THEN 'hindi'::regconfig
                WHEN 'hu' THEN 'hungarian'::regconfig WHEN 'id' THEN 'indonesian'::regconfig
                WHEN 'ga' THEN 'irish'::regconfig WHEN 'it' THEN 'italian'::regconfig
                WHEN 'lt' THEN 'lithuanian'::regconfig WHEN 'ne' THEN 'nepali'::regconfig
                WHEN 'no' THEN 'norwegian'::regconfig WHEN 'pt' THEN 'portuguese'::regconfig
                WHEN 'ro' THEN 'romanian'::regconfig WHEN 'ru' THEN 'russian'::regconfig
                WHEN 'sr' THEN 'serbian'::regconfig WHEN 'es' THEN 'spanish'::regconfig
                WHEN 'sv' THEN 'swedish'::regconfig WHEN 'ta' THEN 'tamil'::regconfig
                WHEN 'tr' THEN 'turkish'::regconfig WHEN 'yi' THEN 'yiddish'::regconfig
                ELSE 'simple'::regconfig END, left(coalesce(body_text, ''), least(indexed_body_characters, 100000)))
            || array_to_tsvector(ARRAY[U&'\0001l' || language])
        END
    ) STORED;
ALTER TABLE email_search_documents ALTER COLUMN search_vector SET STORAGE EXTERNAL;
CREATE INDEX ix_email_search_documents_search_vector ON email_search_documents USING gin (search_vector)
    WITH (fastupdate = on, gin_pending_list_limit = 8192);

-- The languages that some message was found to be written in; a query is stemmed in each of them.
CREATE TABLE search_languages (
    language varchar(16) NOT NULL,
    first_seen_at timestamptz NOT NULL,
    CONSTRAINT pk_search_languages PRIMARY KEY (language)
);

-- Messages whose words were too many to be stemmed, or broke the stage otherwise.
CREATE TABLE email_language_failures (
    stored_email_id uuid NOT NULL,
    reason varchar(64) NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT pk_email_language_failures PRIMARY KEY (stored_email_id),
    CONSTRAINT fk_email_language_failures_stored_emails FOREIGN KEY (stored_email_id)
        REFERENCES stored_emails (id) ON DELETE CASCADE
);

-- Searches that a person keeps by name: the query as typed. Names differ also without regard to case.
CREATE TABLE saved_searches (
    name varchar(64) NOT NULL,
    query_text varchar(512) NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    CONSTRAINT pk_saved_searches PRIMARY KEY (name)
);
CREATE UNIQUE INDEX ix_saved_searches_folded_name ON saved_searches (lower(name));
