"""Migrations as values: statements, checksums, and which of them a ledger lacks. Pure.

Apart from the runner, so that a program can compare its migrations with a ledger without loading the database library.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mailkeep_inbox.errors import MigrationChecksumError

_WHITESPACE: Final = re.compile(r"\s+")
_DOLLAR_TAG: Final = re.compile(r"\$(?:[A-Za-z_][A-Za-z_0-9]*)?\$")

KNOWN_TYPES: Final = frozenset(
    {
        "bigint",
        "boolean",
        "bytea",
        "character",
        "character varying",
        "date",
        "double precision",
        "integer",
        "interval",
        "jsonb",
        "numeric",
        "smallint",
        "text",
        "text[]",
        "timestamp with time zone",
        "timestamp without time zone",
        "tsvector",
        "uuid",
        "vector",
    }
)
"""The type names that an `ExpectedColumn` may ask for, as `information_schema` spells them, arrays as `text[]`."""


@dataclass(frozen=True, slots=True)
class ExpectedColumn:
    """A column that the code relies on. An unknown type name is refused, since nothing could ever equal it."""

    table: str
    name: str
    data_type: str

    def __post_init__(self) -> None:
        if self.data_type not in KNOWN_TYPES:
            raise ValueError(f"{self.table}.{self.name}: {self.data_type!r} is not a type this check knows")


@dataclass(frozen=True, slots=True)
class Migration:
    """One reviewed step, permanent once shipped.

    `statements` run in order, one at a time, so that every driver takes them. `check_columns_before` maps the index of
    a statement to columns that must exist as declared before it runs: a clash with a host's table of the same name
    then gets its own error rather than the server's. It is no part of the checksum (INBOX-22).
    """

    id: str
    statements: tuple[str, ...]
    check_columns_before: Mapping[int, tuple[ExpectedColumn, ...]] = field(default_factory=dict)

    @classmethod
    def from_sql(cls, migration_id: str, sql: str) -> Migration:
        """Read a plain SQL file: statements end at `;` outside quotes, dollar quotes and comments."""
        return cls(id=migration_id, statements=split_statements(sql))

    @property
    def checksum(self) -> str:
        """SHA-256 in lower hex over the statements, white space collapsed: reindenting is no edit (INBOX-19)."""
        collapsed = [_WHITESPACE.sub(" ", statement).strip() for statement in self.statements]
        return hashlib.sha256(";\n".join(collapsed).encode()).hexdigest()


def split_statements(sql: str) -> tuple[str, ...]:
    """Split at top-level `;`. Comments stay with the statement after them; a trailing comment alone is dropped.

    Understands '…' with doubled quotes, E'…' escapes, "…", $tag$…$tag$, -- and nested /* */ (PostgreSQL §4.1).
    """
    statements: list[str] = []
    start = position = 0
    has_code = False
    while position < len(sql):
        if sql[position] == ";":
            if has_code:
                statements.append(sql[start:position].strip())
            start, has_code = position + 1, False
            position += 1
            continue
        end, is_comment = _token_end(sql, position)
        has_code = has_code or not (is_comment or sql[position].isspace())
        position = end
    if has_code:
        statements.append(sql[start:].strip())
    return tuple(statements)


def _token_end(sql: str, position: int) -> tuple[int, bool]:
    """The end of the quoted text, comment or single character at `position`, and whether it is a comment."""
    pair = sql[position : position + 2]
    if pair == "--":
        end = sql.find("\n", position)
        return (len(sql) if end < 0 else end), True
    if pair == "/*":
        return _block_comment_end(sql, position), True
    if sql[position] in "'\"":
        takes_escapes = position > 0 and sql[position - 1] in "eE" and not sql[position - 2 : position - 1].isalnum()
        return _quote_end(sql, position, takes_escapes=takes_escapes), False
    if sql[position] == "$" and (tag := _DOLLAR_TAG.match(sql, position)):
        end = sql.find(tag.group(), tag.end())
        return (len(sql) if end < 0 else end + len(tag.group())), False
    return position + 1, False


def _block_comment_end(sql: str, position: int) -> int:
    depth = 0
    for mark in re.finditer(r"/\*|\*/", sql[position:]):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return position + mark.end()
    return len(sql)


def _quote_end(sql: str, position: int, *, takes_escapes: bool) -> int:
    quote, index = sql[position], position + 1
    while index < len(sql):
        if takes_escapes and sql[index] == "\\":
            index += 2
            continue
        if sql[index] == quote:
            if sql[index + 1 : index + 2] != quote:
                return index + 1
            index += 1
        index += 1
    return len(sql)


def pending_migrations(migrations: Sequence[Migration], recorded: Mapping[str, str]) -> tuple[Migration, ...]:
    """Those that the ledger lacks, in order. Raises MigrationChecksumError for the first recorded one that differs."""
    for migration in migrations:
        checksum = recorded.get(migration.id)
        if checksum is not None and checksum != migration.checksum:
            raise MigrationChecksumError(migration.id, recorded=checksum, current=migration.checksum)
    return tuple(migration for migration in migrations if migration.id not in recorded)
