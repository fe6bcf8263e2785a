-- Texts that leave the page are kept as they are: pglz, the only compression that every build offers, costs a tenth of an
-- arrival, and each extract of a search would unpack the whole text again. Rows written before stay as they were.
ALTER TABLE email_search_documents ALTER COLUMN body_text SET STORAGE EXTERNAL;
ALTER TABLE email_search_documents ALTER COLUMN body_text_before_trimming SET STORAGE EXTERNAL;
