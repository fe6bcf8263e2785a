"""The schema: the chain of migrations produces what schema.sql says, and the catalogue keeps our rules."""

from __future__ import annotations

from importlib import resources
from typing import Any

import psycopg
import pytest

from mailkeep.db import schema
from mailkeep.db.database import RACED_KEYS
from mailkeep.mailbox.erase import UNKEYED_TABLES
from mailkeep.preparation.document import SearchDocument
from mailkeep.preparation.encoding import ROW_COLUMNS

COLUMNS = """
SELECT table_name, column_name, row_number() OVER (PARTITION BY table_name ORDER BY ordinal_position), data_type, character_maximum_length, is_nullable, column_default,
    is_generated, is_identity, generation_expression
FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 3
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2
"""
INDEXES = "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"
STORAGE = """
SELECT a.attrelid::regclass::text, a.attname, a.attstorage, a.attcompression, c.reloptions
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY 1, a.attnum
"""
FUNCTIONS = """
SELECT proname FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
"""
TRIGGERS = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
VIEWS = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind NOT IN ('r', 'i', 'S', 't')"
)


def fetch(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(statement).fetchall()


@pytest.mark.spec("DATA-42")
def test_chain_of_migrations_produces_the_readable_sum(dsn: str, empty_dsn: str) -> None:
    """schema.sql is what a person reads, the migrations are what databases get: both give one catalogue."""
    text = resources.files("mailkeep.db").joinpath("schema.sql").read_text("utf-8")
    with psycopg.connect(empty_dsn) as connection:
        connection.execute(text.encode())
    for statement in (COLUMNS, CONSTRAINTS, INDEXES, STORAGE):
        assert fetch(dsn, statement) == fetch(empty_dsn, statement)


@pytest.mark.spec("DATA-15")
def test_referencing_columns_lead_an_index(dsn: str) -> None:
    """Without an index every cascade scans its table."""
    keys = fetch(
        dsn,
        "SELECT conrelid::regclass::text, conname, conkey::int[] FROM pg_constraint "
        "WHERE contype = 'f' AND connamespace = 'public'::regnamespace",
    )
    indexes = fetch(
        dsn,
        "SELECT indrelid::regclass::text, (indkey::int2[])[0:array_length(indkey, 1) - 1]::int[] FROM pg_index "
        "WHERE indpred IS NULL",
    )
    assert keys
    for table, name, columns in keys:
        assert any(table == on and led[: len(columns)] == columns for on, led in indexes), name


@pytest.mark.spec("DATA-2")
def test_names_are_lower_case_short_and_prefixed(dsn: str) -> None:
    """Names are contract: conflicts are recognized by them."""
    for table, name, definition in fetch(dsn, CONSTRAINTS):
        kind = definition.split()[0]
        expected = {"PRIMARY": f"pk_{table}", "FOREIGN": f"fk_{table}_", "CHECK": "ck_", "UNIQUE": "ak_"}.get(kind)
        if expected is not None:
            assert name.startswith(expected), name
        assert len(name) <= 63
    for _, name, _ in fetch(dsn, INDEXES):
        assert name.startswith(("ix_", "pk_", "ak_")), name
        assert len(name) <= 63
        assert name == name.lower()
    present = {name for _, name, _ in (*fetch(dsn, CONSTRAINTS), *fetch(dsn, INDEXES))}
    assert present >= RACED_KEYS


@pytest.mark.spec("DATA-14", "DATA-6")
def test_schema_holds_no_triggers_functions_views_or_enum_types(dsn: str) -> None:
    """Behaviour lives in code; closed sets are text."""
    for statement in (FUNCTIONS, TRIGGERS, VIEWS, "SELECT typname FROM pg_type WHERE typtype = 'e'"):
        assert fetch(dsn, statement) == []


@pytest.mark.spec("DATA-20")
def test_every_table_with_an_account_dies_with_it(dsn: str) -> None:
    """A table that names an account reaches it by cascades, or is on the list that erasing an account works through."""
    cascades = fetch(
        dsn,
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint "
        "WHERE contype = 'f' AND confdeltype = 'c'",
    )
    reached = {"mailbox_accounts", *UNKEYED_TABLES}
    while grown := {child for child, parent in cascades if parent in reached} - reached:
        reached |= grown
    for table, column, *_ in fetch(dsn, COLUMNS):
        assert column != "mailbox_account_id" or table in reached, table


@pytest.mark.spec("DATA-28")
def test_search_vector_is_generated_and_stored(dsn: str) -> None:
    """PostgreSQL 18 would make it virtual, which no index takes."""
    found = fetch(
        dsn,
        "SELECT attgenerated, attnotnull FROM pg_attribute "
        "WHERE attrelid = 'email_search_documents'::regclass AND attname = 'search_vector'",
    )
    assert [(str(kind), required) for kind, required in found] == [("s", True)]


@pytest.mark.spec("DATA-38", "SYNC-138")
def test_timeline_indexes_repeat_the_order(dsn: str) -> None:
    """Newest first, undated last, then the key: spelled in both indexes."""
    order = "received_at DESC NULLS LAST, id DESC)"
    definitions = {name: definition for _, name, definition in fetch(dsn, INDEXES)}
    assert definitions["ix_stored_emails_account_timeline"].endswith(f"(mailbox_account_id, {order}")
    assert definitions["ix_stored_emails_folder_timeline"].endswith(f"(mail_folder_id, {order}")


def test_columns_that_arrival_writes_exist(dsn: str) -> None:
    """The binary rows name columns of the schema, so that a change there is noticed here."""
    columns = {(table, column) for table, column, *_ in fetch(dsn, COLUMNS)}
    assert {("stored_emails", column) for column in ROW_COLUMNS} <= columns
    assert {("email_search_documents", column) for column in SearchDocument.COLUMNS} <= columns


@pytest.mark.spec("DATA-41")
def test_migrations_are_numbered_without_gaps_or_repetition() -> None:
    """The order of the files is the order of application."""
    numbers = [int(migration.id[:4]) for migration in schema.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
