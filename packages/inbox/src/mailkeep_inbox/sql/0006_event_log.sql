-- What happened, written with the change itself, so that a stream that broke off can go on where it was. Transactions
-- commit in another order than their numbers; a reader therefore resumes at the oldest one that was still open.
CREATE TABLE mailbox.mailbox_event (
    seq bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant_id text NOT NULL,
    principal_id text NOT NULL,
    message_id text NOT NULL,
    op text NOT NULL,
    transaction_id bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    horizon bigint NOT NULL DEFAULT (pg_snapshot_xmin(pg_current_snapshot())::text::bigint),
    is_floor boolean NOT NULL DEFAULT false,
    created_at timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
    CONSTRAINT mailbox_event_pkey PRIMARY KEY (seq),
    CONSTRAINT mailbox_event_tenant_id_tenant_id_fk
        FOREIGN KEY (tenant_id) REFERENCES public.tenant (id) ON DELETE CASCADE,
    CONSTRAINT mailbox_event_principal_id_principal_id_fk
        FOREIGN KEY (principal_id) REFERENCES public.principal (id) ON DELETE CASCADE
);
CREATE INDEX mailbox_event_tenant_id_principal_id_transaction_id_seq_idx
    ON mailbox.mailbox_event (tenant_id, principal_id, transaction_id, seq);
CREATE INDEX mailbox_event_transaction_id_seq_idx ON mailbox.mailbox_event (transaction_id, seq);
CREATE INDEX mailbox_event_principal_id_idx ON mailbox.mailbox_event (principal_id);
