"""Migrations as values: how a file becomes statements and what its checksum covers."""

from __future__ import annotations

import pytest

from mailkeep_inbox.errors import MigrationChecksumError
from mailkeep_inbox.migrations import ExpectedColumn, Migration, pending_migrations, split_statements


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT 1; SELECT 2;", ("SELECT 1", "SELECT 2")),
        ("SELECT ';'; SELECT 'it''s; fine'", ("SELECT ';'", "SELECT 'it''s; fine'")),
        ("SELECT E'\\';'; SELECT 2", ("SELECT E'\\';'", "SELECT 2")),
        ('CREATE TABLE "a;b" ();', ('CREATE TABLE "a;b" ()',)),
        ("SELECT $x$ ; $y$ ; $x$; SELECT 2", ("SELECT $x$ ; $y$ ; $x$", "SELECT 2")),
        ("-- one; two\nSELECT 1; -- end", ("-- one; two\nSELECT 1",)),
        ("/* a; /* b; */ c; */ SELECT 1;", ("/* a; /* b; */ c; */ SELECT 1",)),
        ("SELECT '-- no comment;'", ("SELECT '-- no comment;'",)),
        (" ; ;\n", ()),
        ("SELECT $1; SELECT 'open", ("SELECT $1", "SELECT 'open")),
    ],
)
def test_statements_end_at_semicolons_outside_quotes_and_comments(sql: str, expected: tuple[str, ...]) -> None:
    """A file is cut where PostgreSQL itself would end a statement."""
    assert split_statements(sql) == expected


@pytest.mark.spec("INBOX-19", "DATA-44")
def test_checksum_ignores_white_space_and_nothing_else() -> None:
    """Reindenting is not an edit, any other change is; the checksum is 64 lower-case hex digits."""
    one = Migration.from_sql("0001", "CREATE TABLE a (\n    b text\n);\nSELECT 1;")
    reindented = Migration.from_sql("0001", "CREATE TABLE a ( b   text );\n\n\tSELECT 1;")
    edited = Migration.from_sql("0001", "CREATE TABLE a ( b varchar );\nSELECT 1;")
    assert one.checksum == reindented.checksum != edited.checksum
    assert len(one.checksum) == 64
    assert set(one.checksum) <= set("0123456789abcdef")


@pytest.mark.spec("INBOX-22")
def test_checksum_leaves_the_column_check_out() -> None:
    """When a migration checks columns is no part of what it does to the schema."""
    plain = Migration("0001", ("SELECT 1",))
    checking = Migration("0001", ("SELECT 1",), {0: (ExpectedColumn("t", "c", "text"),)})
    assert plain.checksum == checking.checksum


@pytest.mark.spec("INBOX-18")
def test_pending_are_those_the_ledger_lacks_and_an_edited_one_is_named() -> None:
    """The ledger decides what is to be done; a recorded migration that differs stops everything."""
    first, second = Migration("0001", ("SELECT 1",)), Migration("0002", ("SELECT 2",))
    assert pending_migrations([first, second], {"0001": first.checksum, "0009": "unknown"}) == (second,)
    with pytest.raises(MigrationChecksumError) as raised:
        pending_migrations([first, second], {"0001": "f" * 64})
    assert (raised.value.migration_id, raised.value.recorded) == ("0001", "f" * 64)
    assert raised.value.current == first.checksum


@pytest.mark.spec("INBOX-21")
def test_unmapped_column_type_is_an_error() -> None:
    """A type name that the catalogue never gives would make every check fail, so it is refused where it is written."""
    with pytest.raises(ValueError, match="varchar"):
        ExpectedColumn("t", "c", "varchar")
