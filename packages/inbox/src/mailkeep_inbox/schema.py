"""The tables as declared: public, so that a host may generate or compare schema from them (INBOX-12).

Migrations make the tables; this is what they have made. Tests compare both, column for column and index for index.
The control plane's two tables are not declared: they are the host's.
"""

from __future__ import annotations

from importlib import resources
from typing import Final

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    event,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TIMESTAMP, TSVECTOR
from sqlalchemy.schema import ForeignKeyConstraint

from mailkeep_inbox.migration_files import split_statements

SCHEMA: Final = "mailbox"
LEDGER: Final = "mailbox_migrations"
UTC_NOW: Final = text("(now() AT TIME ZONE 'UTC')")

metadata = MetaData(schema=SCHEMA)


def _control_plane(table: str) -> tuple[ForeignKeyConstraint, ForeignKeyConstraint]:
    """The keys of a mailbox. Written as DDL below, since the host's tables are no part of this metadata."""
    return tuple(  # type: ignore[return-value]
        ForeignKeyConstraint(
            [f"{name}_id"],
            [f"public.{name}.id"],
            name=f"{table}_{name}_id_{name}_id_fk",
            ondelete="CASCADE",
        )
        for name in ("tenant", "principal")
    )


# Stand-ins for what the host owns: they make the foreign keys resolvable and belong to another MetaData's creation.
for _name in ("tenant", "principal"):
    Table(_name, metadata, Column("id", Text, primary_key=True), schema="public", info={"is_hosts": True})

principal_mail = Table(
    "principal_mail",
    metadata,
    Column("id", Text, nullable=False, server_default=text("(gen_random_uuid())::text")),
    Column("tenant_id", Text, nullable=False),
    Column("principal_id", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("direction", Text, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("subject", Text),
    Column("from_address", Text),
    Column("message_key", Text),
    Column("refs", JSONB),
    Column("created_at", TIMESTAMP(timezone=False), nullable=False, server_default=UTC_NOW),
    Column("message_id", Text),
    Column("in_reply_to", Text),
    Column("references", JSONB, quote=True),
    Column("body_text", Text),
    Column("search", TSVECTOR),
    PrimaryKeyConstraint("id", name="principal_mail_pkey"),
    *_control_plane("principal_mail"),
)

mailbox = Table(
    "mailbox",
    metadata,
    Column("id", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("principal_id", Text, nullable=False),
    Column("read_at", TIMESTAMP(timezone=False)),
    Column("archived_at", TIMESTAMP(timezone=False)),
    Column("trashed_at", TIMESTAMP(timezone=False)),
    Column("priority", Text),
    Column("classification", Text),
    Column("status", Text),
    Column("assignee", Text),
    Column("direction", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("created_at", TIMESTAMP(timezone=False), nullable=False),
    Column("from_address", Text),
    Column("subject", Text),
    Column("snippet", Text),
    Column("message_id", Text),
    Column("in_reply_to", Text),
    Column("refs", JSONB),
    Column("attachments", JSONB),
    Column("labels", ARRAY(Text)),
    Column("snoozed_until", TIMESTAMP(timezone=False)),
    PrimaryKeyConstraint("id", name="mailbox_pkey"),
    ForeignKeyConstraint(["id"], ["mailbox.principal_mail.id"], name="mailbox_id_fkey", ondelete="CASCADE"),
    *_control_plane("mailbox"),
    postgresql_with={"fillfactor": 85},
)

mailbox_event = Table(
    "mailbox_event",
    metadata,
    Column("seq", BigInteger, Identity(always=True), nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("principal_id", Text, nullable=False),
    Column("message_id", Text, nullable=False),
    Column("op", Text, nullable=False),
    Column("transaction_id", BigInteger, nullable=False, server_default=text("(pg_current_xact_id()::text::bigint)")),
    Column(
        "horizon",
        BigInteger,
        nullable=False,
        server_default=text("(pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"),
    ),
    Column("is_floor", Boolean, nullable=False, server_default=text("false")),
    Column("created_at", TIMESTAMP(timezone=False), nullable=False, server_default=UTC_NOW),
    PrimaryKeyConstraint("seq", name="mailbox_event_pkey"),
    *_control_plane("mailbox_event"),
)

_PAGE: Final = ("tenant_id", "principal_id", text("created_at DESC"), text("id DESC"))
_ACTIVE: Final = "direction = 'inbound' AND archived_at IS NULL AND trashed_at IS NULL"


def _index(table: Table, name: str, *columns: object, where: str | None = None, **options: object) -> None:
    """Declare an index; columns that are texts of SQL keep their order and direction."""
    if where is not None:
        options["postgresql_where"] = text(where)
    Index(f"{table.name}_{name}_idx", *columns, _table=table, **options)  # type: ignore[arg-type]


_index(principal_mail, "tenant_id_principal_id_message_key", "tenant_id", "principal_id", "message_key",
       unique=True, where="message_key IS NOT NULL")  # fmt: skip
_index(principal_mail, "tenant_id_principal_id_message_id", "tenant_id", "principal_id", "message_id")
_index(principal_mail, "tenant_id_principal_id_created_at_id_asc", "tenant_id", "principal_id", "created_at", "id")
_index(principal_mail, "refs", "refs", postgresql_using="gin")
_index(principal_mail, "search", "search", postgresql_using="gin", postgresql_with={"fastupdate": "off"})
_index(principal_mail, "principal_id", "principal_id")

_index(mailbox, "tenant_id_principal_id_active", *_PAGE, where=_ACTIVE)
_index(mailbox, "tenant_id_principal_id_unread", *_PAGE,
       where="direction = 'inbound' AND read_at IS NULL AND archived_at IS NULL AND trashed_at IS NULL")  # fmt: skip
_index(mailbox, "tenant_id_principal_id_priority", *_PAGE[:2], "priority", *_PAGE[2:],
       where=f"{_ACTIVE} AND priority IS NOT NULL")  # fmt: skip
_index(mailbox, "tenant_id_principal_id_no_priority", *_PAGE, where=f"{_ACTIVE} AND priority IS NULL")
_index(mailbox, "tenant_id_principal_id_archived_at", *_PAGE, where="archived_at IS NOT NULL AND trashed_at IS NULL")
_index(mailbox, "tenant_id_principal_id_trashed_at", *_PAGE, where="trashed_at IS NOT NULL")
_index(mailbox, "tenant_id_principal_id_outbound", *_PAGE, where="direction = 'outbound'")
_index(mailbox, "tenant_id_principal_id_snoozed_until", *_PAGE[:2], "snoozed_until", where="snoozed_until IS NOT NULL")
for _name in ("classification", "status", "assignee"):
    _index(mailbox, f"tenant_id_principal_id_{_name}", *_PAGE[:2], _name, *_PAGE[2:], where=f"{_name} IS NOT NULL")
_index(mailbox, "labels", "labels", postgresql_using="gin", where="labels IS NOT NULL")
_index(mailbox, "tenant_id", "tenant_id")
_index(mailbox, "principal_id", "principal_id")

_index(mailbox_event, "tenant_id_principal_id_transaction_id_seq",
       "tenant_id", "principal_id", "transaction_id", "seq")  # fmt: skip
_index(mailbox_event, "transaction_id_seq", "transaction_id", "seq")
_index(mailbox_event, "principal_id", "principal_id")

OUR_TABLES: Final = (principal_mail, mailbox, mailbox_event)

TRIGGER: Final = "principal_mail_add_list_row"


def _trigger_statements() -> tuple[str, ...]:
    """The function and the trigger, as the migration makes them."""
    statements = split_statements(resources.files(__package__).joinpath("sql/0004_list_rows.sql").read_text("utf-8"))
    return tuple(part for part in statements if "FUNCTION mailbox.add_list_row()" in part)


for _statement in _trigger_statements():
    event.listen(mailbox, "after_create", DDL(_statement.replace("%", "%%")))  # type: ignore[no-untyped-call]
