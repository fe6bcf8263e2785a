"""A look at the tables for people who know SQL: one read-only statement, and the way to psql."""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg

from mailkeep.db.database import Database
from mailkeep.errors import StatementRefused


@dataclass(frozen=True, slots=True)
class SqlResult:
    """Rows of one statement; `was_cut` when there were more than are given."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...] = field(default=())
    was_cut: bool = False


async def read_only(db: Database, statement: str, *, max_rows: int) -> SqlResult:
    """Run one statement of a person in a read-only transaction that is rolled back; at most `max_rows` rows.

    Raises StatementRefused with the server's own words, which may quote the statement but nothing else.
    """
    async with db.connection() as connection:
        try:
            await connection.execute("SET TRANSACTION READ ONLY")
            # A pipeline speaks the extended protocol, which takes exactly one statement; the simple one would take
            # "COMMIT; DELETE ..." as two, the second no longer read-only. As bytes, percent signs are no placeholders.
            async with connection.pipeline():
                octets = statement.encode("utf-8", "surrogateescape")
                cursor = await connection.execute(octets, prepare=False)
            if cursor.description is None:
                return SqlResult(())
            rows = await cursor.fetchmany(max_rows + 1)
            columns = tuple(column.name for column in cursor.description)
            return SqlResult(columns, tuple(tuple(row) for row in rows[:max_rows]), len(rows) > max_rows)
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.InternalError, psycopg.NotSupportedError) as error:
            raise StatementRefused(error.diag.message_primary or "the statement cannot be run") from error
        except psycopg.errors.QueryCanceled as error:
            raise StatementRefused("the statement took longer than persistence.command_timeout_seconds") from error
        finally:
            await connection.rollback()


def psql_environment(dsn: str) -> dict[str, str]:
    """The variables that make psql connect as we do; the password travels here and never as an argument."""
    options = psycopg.pq.Conninfo.parse(dsn.encode("utf-8"))
    return {
        option.envvar.decode("ascii"): option.val.decode("utf-8")
        for option in options
        if option.envvar is not None and option.val is not None
    }
