"""The mailbox schema: cold starts, faults, backfills, and the agreement of metadata, DDL and catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from inbox_support.mail import ANN, rows, write
from inbox_support.postgres import engine_of
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from mailkeep_inbox import (
    MailboxRef,
    MigrationChecksumError,
    SchemaCheckError,
    SchemaTypeMismatchError,
    check_mailbox_schema,
    decode_mail_frame,
    list_user_mailbox,
    mailbox_ddl,
    run_mailbox_migrations,
)
from mailkeep_inbox.migrate import (
    expected_constraints,
    expected_indexes,
    index_form,
    mailbox_migrations,
)
from mailkeep_inbox.migrations import run_migrations
from mailkeep_inbox.schema import OUR_TABLES, metadata

pytestmark = pytest.mark.anyio


@pytest.fixture
async def host(host_dsn: str) -> AsyncIterator[AsyncEngine]:
    """The engine of a host that has not met the library yet."""
    engine = engine_of(host_dsn)
    yield engine
    await engine.dispose()


async def ledger(engine: AsyncEngine) -> list[str]:
    """The recorded migrations."""
    if (await rows(engine, "SELECT to_regclass('mailbox.mailbox_migrations') AS found"))[0].found is None:
        return []
    return [row.id for row in await rows(engine, "SELECT id FROM mailbox.mailbox_migrations ORDER BY id")]


@pytest.mark.spec("INBOX-17", "INBOX-18", "INBOX-22", "INBOX-10")
async def test_four_cold_starts_at_once_apply_each_migration_once(host: AsyncEngine) -> None:
    """Replicas that start together, on a foreign search_path, record each migration once; a re-run says nothing."""
    async with host.begin() as connection:
        await connection.execute(text("CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.mailbox (id integer)"))
        await connection.execute(text(f"ALTER DATABASE {host.url.database} SET search_path = elsewhere"))
    await host.dispose()
    await asyncio.gather(*(run_mailbox_migrations(host) for _ in range(4)))
    assert await ledger(host) == [migration.id for migration in mailbox_migrations()]
    assert (await ledger(host))[:3] == [
        "0001_principal_mailbox",
        "0002_mail_threading_headers",
        "0003_mail_references",
    ]
    notices: list[str] = []
    async with host.connect() as connection:
        raw = await connection.get_raw_connection()
        driver = raw.driver_connection
        assert isinstance(driver, psycopg.AsyncConnection)
        driver.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        await run_mailbox_migrations(connection)
    assert notices == []
    await check_mailbox_schema(host)


@pytest.mark.spec("INBOX-18", "INBOX-19")
async def test_tampered_checksum_stops_every_start(host: AsyncEngine) -> None:
    """A recorded checksum that differs is named, twice in a row; an unknown recorded id is left alone."""
    await run_mailbox_migrations(host)
    await rows(host, "INSERT INTO mailbox.mailbox_migrations VALUES ('9999_newer', repeat('0', 64))")
    await run_mailbox_migrations(host)
    await rows(host, "UPDATE mailbox.mailbox_migrations SET checksum = repeat('f', 64) WHERE id LIKE '0002%'")
    for _ in range(2):
        with pytest.raises(MigrationChecksumError) as raised:
            await run_mailbox_migrations(host)
        assert raised.value.migration_id == "0002_mail_threading_headers"


@pytest.mark.spec("INBOX-21", "INBOX-22")
async def test_foreign_table_without_refs_gets_the_named_error(host: AsyncEngine) -> None:
    """The check before the GIN index names the column; a rejected start leaves neither tables nor ledger, twice."""
    async with host.begin() as connection:
        await connection.execute(text(
            "CREATE SCHEMA mailbox; CREATE TABLE mailbox.principal_mail (id text PRIMARY KEY, tenant_id text, "
            "principal_id text, message_key text, created_at timestamp, raw bytea)"
        ))  # fmt: skip
    for _ in range(2):
        with pytest.raises(SchemaTypeMismatchError, match="Rename or move") as raised:
            await run_mailbox_migrations(host)
        assert raised.value.mismatches == ("principal_mail.refs is missing (expected jsonb)",)
        assert await ledger(host) == []
        assert (await rows(host, "SELECT to_regclass('mailbox.mailbox') AS found"))[0].found is None


@pytest.mark.spec("INBOX-21")
async def test_wrong_types_are_all_named(host: AsyncEngine) -> None:
    """A changed column and a dropped one are both told, and extra columns pass."""
    await run_mailbox_migrations(host)
    await rows(host, "ALTER TABLE mailbox.mailbox ALTER COLUMN status TYPE varchar(9), ADD COLUMN extra integer")
    await rows(host, "ALTER TABLE mailbox.principal_mail DROP COLUMN body_text")
    with pytest.raises(SchemaTypeMismatchError) as raised:
        await run_mailbox_migrations(host)
    assert set(raised.value.mismatches) == {
        "principal_mail.body_text is missing (expected text)",
        "mailbox.status is character varying, expected text",
    }


@pytest.mark.spec("INBOX-24")
async def test_without_a_control_plane_the_start_fails(empty_dsn: str) -> None:
    """public.tenant and public.principal must exist; nothing of the run stays."""
    engine = engine_of(empty_dsn)
    with pytest.raises(ProgrammingError, match="tenant"):
        await run_mailbox_migrations(engine)
    assert await ledger(engine) == []
    await engine.dispose()


@pytest.mark.spec("INBOX-12", "INBOX-11")
async def test_metadata_and_migrations_make_the_same_tables(host: AsyncEngine) -> None:
    """Columns, defaults, keys, indexes, storage options and triggers agree, whichever way they were made."""
    await run_mailbox_migrations(host)
    migrated = await catalogue(host)
    async with host.begin() as connection:
        await connection.execute(text("DROP SCHEMA mailbox CASCADE; CREATE SCHEMA mailbox"))
        await connection.run_sync(lambda sync: metadata.create_all(sync, tables=list(OUR_TABLES)))
    declared = await catalogue(host)
    assert declared == migrated
    assert set(expected_indexes()) | {"principal_mail_pkey", "mailbox_pkey", "mailbox_event_pkey"} == {
        row.name for row in migrated["indexes"]
    }


async def catalogue(engine: AsyncEngine) -> dict[str, list[object]]:
    """What the server says about our tables."""
    queries = {
        "columns": "SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity "
        "FROM information_schema.columns WHERE table_schema = 'mailbox' AND table_name <> 'mailbox_migrations' "
        "ORDER BY 1, 2",
        "indexes": "SELECT indexname AS name, indexdef FROM pg_indexes "
        "WHERE schemaname = 'mailbox' AND tablename <> 'mailbox_migrations' ORDER BY 1",
        "constraints": "SELECT conname, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class t "
        "ON t.oid = c.conrelid WHERE c.connamespace = 'mailbox'::regnamespace AND contype <> 'n' "
        "AND t.relname <> 'mailbox_migrations' ORDER BY 1",
        "triggers": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
        "options": "SELECT relname, reloptions::text FROM pg_class WHERE relnamespace = 'mailbox'::regnamespace "
        "AND relkind = 'r' AND relname <> 'mailbox_migrations' ORDER BY 1",
    }
    return {name: list(await rows(engine, sql)) for name, sql in queries.items()}


@pytest.mark.spec("INBOX-11", "INBOX-12")
def test_names_and_rules_of_keys_exactly() -> None:
    """The foreign keys of the contract, each cascading, and the unique index of message keys."""
    constraints = expected_constraints()
    for table in ("principal_mail", "mailbox"):
        for other in ("tenant", "principal"):
            assert constraints[f"{table}.{table}_{other}_id_{other}_id_fk"] == (
                f"FOREIGN KEY ({other}_id) REFERENCES {other}(id) ON DELETE CASCADE"
            )
    assert constraints["mailbox.mailbox_id_fkey"] == (
        "FOREIGN KEY (id) REFERENCES mailbox.principal_mail(id) ON DELETE CASCADE"
    )
    assert expected_indexes()["principal_mail_tenant_id_principal_id_message_key_idx"] == index_form(
        "CREATE UNIQUE INDEX principal_mail_tenant_id_principal_id_message_key_idx ON mailbox.principal_mail "
        "(tenant_id, principal_id, message_key) WHERE message_key IS NOT NULL"
    )


@pytest.mark.spec("INBOX-109")
async def test_schema_check_changes_nothing_and_names_every_fault(host: AsyncEngine) -> None:
    """For a role that may only read: ledger, columns, indexes, constraints and trigger, all faults at once."""
    with pytest.raises(SchemaCheckError, match="0001_principal_mailbox is not applied"):
        await check_mailbox_schema(host)
    assert (await rows(host, "SELECT to_regnamespace('mailbox') AS found"))[0].found is None
    await run_mailbox_migrations(host)
    await check_mailbox_schema(host)
    for sql in (
        "DROP INDEX mailbox.mailbox_labels_idx",
        "DROP INDEX mailbox.mailbox_principal_id_idx",
        "CREATE INDEX mailbox_principal_id_idx ON mailbox.mailbox (principal_id DESC)",
        "ALTER TABLE mailbox.mailbox DROP CONSTRAINT mailbox_id_fkey",
        "ALTER TABLE mailbox.mailbox DROP COLUMN snippet",
        "ALTER TABLE mailbox.principal_mail DISABLE TRIGGER principal_mail_add_list_row",
        "DELETE FROM mailbox.mailbox_migrations WHERE id = '0006_event_log'",
    ):
        await rows(host, sql)
    with pytest.raises(SchemaCheckError) as raised:
        await check_mailbox_schema(host)
    assert [fault.split(" is ")[0] for fault in raised.value.faults] == [
        "migration 0006_event_log",
        "mailbox.snippet",
        "index mailbox_labels_idx",
        "index mailbox_principal_id_idx",
        "constraint mailbox.mailbox_id_fkey",
        "trigger principal_mail_add_list_row",
    ]


@pytest.mark.spec("INBOX-109")
async def test_printed_ddl_makes_the_same_schema(host_dsn: str) -> None:
    """What is printed for reading is what the migrations execute."""
    with psycopg.connect(host_dsn, autocommit=True) as connection:
        connection.execute(mailbox_ddl().encode())
    engine = engine_of(host_dsn)
    with pytest.raises(SchemaCheckError) as raised:
        await check_mailbox_schema(engine)
    await engine.dispose()
    assert all("is not applied" in fault for fault in raised.value.faults)


FRAMES = {
    "plain": b"Message-ID: <a@x>\r\nIn-Reply-To: <p@x> <q@x>\r\nReferences: <r@x> <p@x>\r\n\r\nbody",
    "folded": b"message-id:\r\n <b@x>\r\nReferences: <r1@x>\r\n\t<r2@x>\r\n  <r3@x>\r\n\r\nbody",
    "lf": b"Message-ID: <c@x>\nReferences: <r@x>\n <s@x>\n\nbody",
    "nul": b"Subject: a\0b\r\nMessage-ID: <d@x>\r\nIn-Reply-To: \0<p\0@x>\r\n\r\n\0body",
    "empty header": b"\r\n\r\nMessage-ID: <decoy@x>\r\n",
    "decoy body": b"Subject: s\r\n\r\nMessage-ID: <decoy@x>\r\nReferences: <decoy@x>\r\n",
    "hidden": b"Subject: s\nMessage-ID: <smuggled@x>\r\n\r\nbody",
    "no ids": b"Message-ID: none\r\nIn-Reply-To: soon\r\nReferences: -\r\n\r\nbody",
    "repeated": b"Message-ID: <first@x>\r\nMessage-ID: <second@x>\r\n\r\n",
    "long": b"Message-ID: <" + b"a" * 1100 + b"@x>\r\nIn-Reply-To: <p@x>\r\n\r\n",
    "junk": b"\0\xff\0",
}


@pytest.mark.spec("INBOX-23", "INBOX-22")
async def test_backfill_reads_frames_as_the_decoder_does(host: AsyncEngine) -> None:
    """Frames stored before the caches existed get what a new frame would; list rows are made for rows that lack one."""
    first = [migration for migration in mailbox_migrations() if migration.id == "0001_principal_mailbox"]
    await run_migrations(host, first, schema="mailbox", ledger="mailbox_migrations")
    for name, raw in FRAMES.items():
        await rows(
            host,
            "INSERT INTO mailbox.principal_mail (id, tenant_id, principal_id, address, direction, raw) "
            "VALUES (:id, 'acme', 'ann', 'a@x', 'inbound', :raw)",
            id=name,
            raw=raw,
        )
    await rows(host, "INSERT INTO mailbox.mailbox (id, tenant_id, principal_id) VALUES ('plain', 'acme', 'ann')")
    await run_mailbox_migrations(host)
    stored = await rows(host, 'SELECT id, message_id, in_reply_to, "references" AS refs FROM mailbox.principal_mail')
    for row in stored:
        decoded = decode_mail_frame(FRAMES[row.id])
        expected: tuple[object, ...] = (None, None, None)
        if decoded is not None:
            headers = decoded.headers
            expected = (headers.message_id, headers.in_reply_to, list(headers.references) or None)
        assert (row.message_id, row.in_reply_to, row.refs) == expected, row.id
    listed = await list_user_mailbox(host, ANN, priorities=["high"])
    assert {item.id for item in listed.items} == set(FRAMES)


@pytest.mark.spec("INBOX-61")
async def test_mail_that_a_host_inserts_gets_its_row_in_the_list(psycopg_engine: AsyncEngine) -> None:
    """A bare insert is listed, counted and can be changed; a sender's own copy is read from the start."""
    for direction in ("inbound", "outbound"):
        await rows(
            psycopg_engine,
            "INSERT INTO mailbox.principal_mail (tenant_id, principal_id, address, direction, raw, subject) "
            "VALUES ('acme', 'ann', 'a@x', :direction, '', 'bare')",
            direction=direction,
        )
    page = await list_user_mailbox(psycopg_engine, ANN, priorities=["high"], direction="all")
    assert [(item.subject, item.read) for item in page.items if item.direction == "inbound"] == [("bare", False)]
    assert [(item.subject, item.read) for item in page.items if item.direction == "outbound"] == [("bare", True)]


@pytest.mark.spec("INBOX-6", "INBOX-17")
async def test_migrations_join_the_transaction_of_a_session(host: AsyncEngine) -> None:
    """On a session of the host's the schema commits or rolls back with it."""
    async with AsyncSession(host) as session:
        await session.execute(text("SELECT 1"))
        await run_mailbox_migrations(session)
        await session.rollback()
    assert await ledger(host) == []


@pytest.mark.spec("INBOX-105")
async def test_deleting_in_the_control_plane_uses_indexes(psycopg_engine: AsyncEngine) -> None:
    """The cascade from a principal or a tenant finds its rows by an index of each table."""
    await write(psycopg_engine, refs=[MailboxRef("case", "1")])
    async with psycopg_engine.connect() as connection:
        await connection.execute(text("SET LOCAL enable_seqscan = off"))
        for table in ("principal_mail", "mailbox", "mailbox_event"):
            for column, value in (("principal_id", "ann"), ("tenant_id", "acme")):
                plan = await connection.execute(
                    text(f"EXPLAIN DELETE FROM ONLY mailbox.{table} WHERE {column} = :value"), {"value": value}
                )
                assert "Seq Scan" not in "\n".join(row[0] for row in plan)
    with pytest.raises(DBAPIError):
        await rows(psycopg_engine, "INSERT INTO mailbox.mailbox (id, tenant_id, principal_id) VALUES ('x', 'a', 'b')")
