-- Words of subject, sender and readable text. Two more lexemes, which no text can give since they hold capital
-- letters, name the mailbox and the month, so that the index alone finds one mailbox's messages, month by month.
ALTER TABLE mailbox.principal_mail ADD COLUMN IF NOT EXISTS body_text text;
ALTER TABLE mailbox.principal_mail ADD COLUMN IF NOT EXISTS search tsvector;
-- The words stay in the row while the frame and the text move out of it: a walk over recent messages reads no more.
ALTER TABLE mailbox.principal_mail ALTER COLUMN search SET STORAGE MAIN;

UPDATE mailbox.principal_mail
SET search = to_tsvector('pg_catalog.simple', left(coalesce(subject, ''), 10000) || ' '
                                              || left(coalesce(from_address, ''), 2000))
    || array_to_tsvector(ARRAY[
        'M' || left(md5(length(tenant_id) || ':' || tenant_id || ':' || principal_id), 16),
        'M' || left(md5(length(tenant_id) || ':' || tenant_id || ':' || principal_id), 16)
            || to_char(created_at, 'YYYYMM')])
WHERE search IS NULL;

CREATE INDEX principal_mail_search_idx ON mailbox.principal_mail USING gin (search) WITH (fastupdate = off);
