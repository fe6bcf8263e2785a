-- The chain of identifiers above each message, oldest first, and the indexes that conversations are read by.
ALTER TABLE mailbox.principal_mail ADD COLUMN IF NOT EXISTS "references" jsonb;
CREATE INDEX IF NOT EXISTS principal_mail_tenant_id_principal_id_message_id_idx
    ON mailbox.principal_mail (tenant_id, principal_id, message_id);
CREATE INDEX IF NOT EXISTS principal_mail_tenant_id_principal_id_created_at_id_asc_idx
    ON mailbox.principal_mail (tenant_id, principal_id, created_at, id);
CREATE INDEX IF NOT EXISTS principal_mail_refs_idx ON mailbox.principal_mail USING gin (refs);

UPDATE mailbox.principal_mail AS mail
SET "references" = found.tokens
FROM (
    SELECT frames.id, (
        SELECT jsonb_agg(token[1] ORDER BY place)
        FROM regexp_matches((regexp_match(frames.lines, '^references[ \t]*:([^\n]*)', 'in'))[1], '<[^<>]+>', 'g')
            WITH ORDINALITY AS taken (token, place)
    ) AS tokens
    FROM (
        SELECT stored.id, mailbox.migration_header_lines(stored.raw) AS lines
        FROM mailbox.principal_mail AS stored
        WHERE stored."references" IS NULL
    ) AS frames
) AS found
WHERE mail.id = found.id AND found.tokens IS NOT NULL;

DROP FUNCTION mailbox.migration_header_lines(bytea);
