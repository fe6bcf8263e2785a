-- A page of a list reads one table: what a list shows is copied beside the state, in the order of the page, and every
-- view has an index in that order (decision 0008). The copies never change, as the message does not.
ALTER TABLE mailbox.mailbox
    ADD COLUMN IF NOT EXISTS direction text,
    ADD COLUMN IF NOT EXISTS address text,
    ADD COLUMN IF NOT EXISTS created_at timestamp,
    ADD COLUMN IF NOT EXISTS from_address text,
    ADD COLUMN IF NOT EXISTS subject text,
    ADD COLUMN IF NOT EXISTS snippet text,
    ADD COLUMN IF NOT EXISTS message_id text,
    ADD COLUMN IF NOT EXISTS in_reply_to text,
    ADD COLUMN IF NOT EXISTS refs jsonb,
    ADD COLUMN IF NOT EXISTS attachments jsonb,
    ADD COLUMN IF NOT EXISTS labels text[],
    ADD COLUMN IF NOT EXISTS snoozed_until timestamp;

UPDATE mailbox.mailbox AS item
SET direction = mail.direction, address = mail.address, created_at = mail.created_at,
    from_address = mail.from_address, subject = mail.subject, message_id = mail.message_id,
    in_reply_to = mail.in_reply_to, refs = mail.refs
FROM mailbox.principal_mail AS mail
WHERE mail.id = item.id AND item.created_at IS NULL;

INSERT INTO mailbox.mailbox (id, tenant_id, principal_id, direction, address, created_at, from_address, subject,
                             message_id, in_reply_to, refs, read_at)
SELECT mail.id, mail.tenant_id, mail.principal_id, mail.direction, mail.address, mail.created_at, mail.from_address,
       mail.subject, mail.message_id, mail.in_reply_to, mail.refs,
       CASE WHEN mail.direction = 'outbound' THEN mail.created_at END
FROM mailbox.principal_mail AS mail
WHERE NOT EXISTS (SELECT 1 FROM mailbox.mailbox AS item WHERE item.id = mail.id);

ALTER TABLE mailbox.mailbox
    ALTER COLUMN direction SET NOT NULL,
    ALTER COLUMN address SET NOT NULL,
    ALTER COLUMN created_at SET NOT NULL;
-- A row that changes stays on its page when there is room, so that a page of a list stays a few pages of the table.
ALTER TABLE mailbox.mailbox SET (fillfactor = 85);

-- A message that a host inserts by itself gets its row in the list too.
CREATE OR REPLACE FUNCTION mailbox.add_list_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO mailbox.mailbox (id, tenant_id, principal_id, direction, address, created_at, from_address, subject,
                                 message_id, in_reply_to, refs, read_at)
    VALUES (NEW.id, NEW.tenant_id, NEW.principal_id, NEW.direction, NEW.address, NEW.created_at, NEW.from_address,
            NEW.subject, NEW.message_id, NEW.in_reply_to, NEW.refs,
            CASE WHEN NEW.direction = 'outbound' THEN NEW.created_at END)
    ON CONFLICT (id) DO NOTHING;
    RETURN NULL;
END
$$;
DROP TRIGGER IF EXISTS principal_mail_add_list_row ON mailbox.principal_mail;
CREATE TRIGGER principal_mail_add_list_row AFTER INSERT ON mailbox.principal_mail
    FOR EACH ROW EXECUTE FUNCTION mailbox.add_list_row();

DROP INDEX mailbox.principal_mail_tenant_id_principal_id_created_at_id_idx;
DROP INDEX mailbox.mailbox_tenant_id_principal_id_priority_idx;
DROP INDEX mailbox.mailbox_tenant_id_principal_id_classification_idx;
DROP INDEX mailbox.mailbox_tenant_id_principal_id_status_idx;
DROP INDEX mailbox.mailbox_tenant_id_principal_id_assignee_idx;
DROP INDEX mailbox.mailbox_tenant_id_principal_id_unread_idx;
DROP INDEX mailbox.mailbox_tenant_id_principal_id_archived_at_idx;
DROP INDEX mailbox.mailbox_tenant_id_principal_id_trashed_at_idx;

CREATE INDEX mailbox_tenant_id_principal_id_active_idx
    ON mailbox.mailbox (tenant_id, principal_id, created_at DESC, id DESC)
    WHERE direction = 'inbound' AND archived_at IS NULL AND trashed_at IS NULL;
CREATE INDEX mailbox_tenant_id_principal_id_unread_idx
    ON mailbox.mailbox (tenant_id, principal_id, created_at DESC, id DESC)
    WHERE direction = 'inbound' AND read_at IS NULL AND archived_at IS NULL AND trashed_at IS NULL;
CREATE INDEX mailbox_tenant_id_principal_id_priority_idx
    ON mailbox.mailbox (tenant_id, principal_id, priority, created_at DESC, id DESC)
    WHERE direction = 'inbound' AND archived_at IS NULL AND trashed_at IS NULL AND priority IS NOT NULL;
-- Messages without a priority have an index of their own: the planner takes no order from a column that IS NULL.
CREATE INDEX mailbox_tenant_id_principal_id_no_priority_idx
    ON mailbox.mailbox (tenant_id, principal_id, created_at DESC, id DESC)
    WHERE direction = 'inbound' AND archived_at IS NULL AND trashed_at IS NULL AND priority IS NULL;
CREATE INDEX mailbox_tenant_id_principal_id_archived_at_idx
    ON mailbox.mailbox (tenant_id, principal_id, created_at DESC, id DESC)
    WHERE archived_at IS NOT NULL AND trashed_at IS NULL;
CREATE INDEX mailbox_tenant_id_principal_id_trashed_at_idx
    ON mailbox.mailbox (tenant_id, principal_id, created_at DESC, id DESC) WHERE trashed_at IS NOT NULL;
CREATE INDEX mailbox_tenant_id_principal_id_outbound_idx
    ON mailbox.mailbox (tenant_id, principal_id, created_at DESC, id DESC) WHERE direction = 'outbound';
CREATE INDEX mailbox_tenant_id_principal_id_snoozed_until_idx
    ON mailbox.mailbox (tenant_id, principal_id, snoozed_until) WHERE snoozed_until IS NOT NULL;
CREATE INDEX mailbox_tenant_id_principal_id_classification_idx
    ON mailbox.mailbox (tenant_id, principal_id, classification, created_at DESC, id DESC)
    WHERE classification IS NOT NULL;
CREATE INDEX mailbox_tenant_id_principal_id_status_idx
    ON mailbox.mailbox (tenant_id, principal_id, status, created_at DESC, id DESC) WHERE status IS NOT NULL;
CREATE INDEX mailbox_tenant_id_principal_id_assignee_idx
    ON mailbox.mailbox (tenant_id, principal_id, assignee, created_at DESC, id DESC) WHERE assignee IS NOT NULL;
CREATE INDEX mailbox_labels_idx ON mailbox.mailbox USING gin (labels) WHERE labels IS NOT NULL;
-- Deleting a tenant or a principal finds its rows by these, not by reading the tables whole.
CREATE INDEX mailbox_tenant_id_idx ON mailbox.mailbox (tenant_id);
CREATE INDEX mailbox_principal_id_idx ON mailbox.mailbox (principal_id);
CREATE INDEX principal_mail_principal_id_idx ON mailbox.principal_mail (principal_id);
