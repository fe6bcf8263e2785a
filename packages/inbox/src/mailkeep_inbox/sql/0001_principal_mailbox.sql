-- Two tables: the message as delivered, never updated, and the state that its owner changes. Both are written in one
-- transaction. Names are qualified throughout, so that no search_path can redirect them.
CREATE TABLE IF NOT EXISTS mailbox.principal_mail (
    id text NOT NULL DEFAULT gen_random_uuid()::text,
    tenant_id text NOT NULL,
    principal_id text NOT NULL,
    address text NOT NULL,
    direction text NOT NULL,
    raw bytea NOT NULL,
    subject text,
    from_address text,
    message_key text,
    refs jsonb,
    created_at timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
    CONSTRAINT principal_mail_pkey PRIMARY KEY (id),
    CONSTRAINT principal_mail_tenant_id_tenant_id_fk
        FOREIGN KEY (tenant_id) REFERENCES public.tenant (id) ON DELETE CASCADE,
    CONSTRAINT principal_mail_principal_id_principal_id_fk
        FOREIGN KEY (principal_id) REFERENCES public.principal (id) ON DELETE CASCADE
);

CREATE TABLE IF NOT EXISTS mailbox.mailbox (
    id text NOT NULL,
    tenant_id text NOT NULL,
    principal_id text NOT NULL,
    read_at timestamp,
    archived_at timestamp,
    trashed_at timestamp,
    priority text,
    classification text,
    status text,
    assignee text,
    CONSTRAINT mailbox_pkey PRIMARY KEY (id),
    CONSTRAINT mailbox_id_fkey FOREIGN KEY (id) REFERENCES mailbox.principal_mail (id) ON DELETE CASCADE,
    CONSTRAINT mailbox_tenant_id_tenant_id_fk
        FOREIGN KEY (tenant_id) REFERENCES public.tenant (id) ON DELETE CASCADE,
    CONSTRAINT mailbox_principal_id_principal_id_fk
        FOREIGN KEY (principal_id) REFERENCES public.principal (id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX IF NOT EXISTS principal_mail_tenant_id_principal_id_message_key_idx
    ON mailbox.principal_mail (tenant_id, principal_id, message_key) WHERE message_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS principal_mail_tenant_id_principal_id_created_at_id_idx
    ON mailbox.principal_mail (tenant_id, principal_id, created_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS mailbox_tenant_id_principal_id_priority_idx
    ON mailbox.mailbox (tenant_id, principal_id, priority);
CREATE INDEX IF NOT EXISTS mailbox_tenant_id_principal_id_classification_idx
    ON mailbox.mailbox (tenant_id, principal_id, classification);
CREATE INDEX IF NOT EXISTS mailbox_tenant_id_principal_id_status_idx
    ON mailbox.mailbox (tenant_id, principal_id, status);
CREATE INDEX IF NOT EXISTS mailbox_tenant_id_principal_id_assignee_idx
    ON mailbox.mailbox (tenant_id, principal_id, assignee);
CREATE INDEX IF NOT EXISTS mailbox_tenant_id_principal_id_unread_idx
    ON mailbox.mailbox (tenant_id, principal_id)
    WHERE read_at IS NULL AND archived_at IS NULL AND trashed_at IS NULL;
CREATE INDEX IF NOT EXISTS mailbox_tenant_id_principal_id_archived_at_idx
    ON mailbox.mailbox (tenant_id, principal_id) WHERE archived_at IS NOT NULL AND trashed_at IS NULL;
CREATE INDEX IF NOT EXISTS mailbox_tenant_id_principal_id_trashed_at_idx
    ON mailbox.mailbox (tenant_id, principal_id) WHERE trashed_at IS NOT NULL;
