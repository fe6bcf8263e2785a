-- The identifiers that conversations are made of, read from the frames that are stored already. The helper gives the
-- header section with one field a line: NUL octets are removed before anything is decoded, since one of them would end
-- this and every later run; where the section is written with CRLF, a bare CR or LF ends no line.
ALTER TABLE mailbox.principal_mail ADD COLUMN IF NOT EXISTS message_id text;
ALTER TABLE mailbox.principal_mail ADD COLUMN IF NOT EXISTS in_reply_to text;

CREATE OR REPLACE FUNCTION mailbox.migration_header_lines(raw bytea) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    crlf integer := position('\x0d0a0d0a'::bytea IN raw);
    lf integer := position('\x0a0a'::bytea IN raw);
    section bytea := CASE WHEN crlf > 0 THEN substring(raw FROM 1 FOR crlf - 1)
                          WHEN lf > 0 THEN substring(raw FROM 1 FOR lf - 1) ELSE raw END;
    lines text;
BEGIN
    IF position('\x00'::bytea IN section) > 0 THEN
        section := (
            SELECT coalesce(string_agg(substring(section FROM place FOR 1), ''::bytea ORDER BY place), ''::bytea)
            FROM generate_series(1, octet_length(section)) AS place
            WHERE get_byte(section, place - 1) <> 0
        );
    END IF;
    lines := convert_from(section, 'LATIN1');
    IF crlf > 0 THEN
        lines := replace(translate(replace(translate(lines, chr(1), ' '), E'\r\n', chr(1)), E'\r\n', '  '),
                         chr(1), E'\n');
    END IF;
    RETURN regexp_replace(lines, E'\n[ \t]+', ' ', 'g');
END
$$;

UPDATE mailbox.principal_mail AS mail
SET message_id = CASE WHEN octet_length(found.message_id) <= 1024 THEN found.message_id END,
    in_reply_to = found.in_reply_to
FROM (
    SELECT id,
        substring((regexp_match(lines, '^message-id[ \t]*:([^\n]*)', 'in'))[1] FROM '<[^<>]+>') AS message_id,
        substring((regexp_match(lines, '^in-reply-to[ \t]*:([^\n]*)', 'in'))[1] FROM '<[^<>]+>') AS in_reply_to
    FROM (
        SELECT stored.id, mailbox.migration_header_lines(stored.raw) AS lines
        FROM mailbox.principal_mail AS stored
        WHERE stored.message_id IS NULL AND stored.in_reply_to IS NULL
    ) AS frames
) AS found
WHERE mail.id = found.id AND (found.message_id IS NOT NULL OR found.in_reply_to IS NOT NULL);
