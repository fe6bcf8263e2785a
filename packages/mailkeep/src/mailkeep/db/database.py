"""The database of one process: which server, a pool of connections, and the gate at the door."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import select
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from mailkeep.config import (
    PersistenceSettings,
    PipelineClass,
    PipelineSettings,
    ResilienceSettings,
    Settings,
    resolve_secret,
)
from mailkeep.db import embedded, schema
from mailkeep.errors import ConcurrencyConflict, DatabaseUnavailable, PipelineRejected
from mailkeep.resilience import Conduct, Pipeline

log = logging.getLogger(__name__)

# The pool warns of every connection it fails to make, with the server's words. One line of ours tells as much.
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)

CONNECT_TIMEOUT_SECONDS: Final = 10
POOL_MIN_SIZE: Final = 1
POOL_MAX_SIZE: Final = 8
IDLE_IN_TRANSACTION_SECONDS: Final = 120
REDO_WAIT_SECONDS: Final = 0.05
REDO_MAX_WAIT_SECONDS: Final = 1.0

_TAKE_LEASE: Final = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
_LEAVE_LEASE: Final = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"

RACED_KEYS: Final = frozenset(
    {
        "pk_mailbox_accounts",
        "ix_mail_folders_account_alias_generation",
        "pk_synchronization_checkpoints",
        "pk_email_thread_identifiers",
        "ix_email_chunks_email_ordinal",
        "pk_email_embeddings",
        "ix_embedding_profiles_identity_fingerprint",
        "pk_mail_rederivation_positions",
        "pk_mail_rederivation_runs",
    }
)

WATCHFUL: Final[dict[str, Any]] = {
    "keepalives_idle": 60,
    "keepalives_interval": 15,
    "keepalives_count": 4,
    "tcp_user_timeout": 120_000,
}
"""A server whose machine is gone is noticed within two minutes, not after the two hours that Linux waits; what the
connection string itself says stands."""
CONDUCT: Final = Conduct(is_transient=lambda error: isinstance(error, DatabaseUnavailable))

Result = TypeVar("Result")

Connection = psycopg.AsyncConnection
"""What the capabilities' queries run on; a transaction is open from the first statement on."""


class Database:
    """Where mail is kept: `async with Database.open(settings, home) as db`.

    `db.connection()` lends a connection for one transaction. Errors of the driver that speak of the server or of a
    lost race leave it as DatabaseUnavailable and ConcurrencyConflict; all others pass.
    """

    def __init__(
        self, dsn: str, *, persistence: PersistenceSettings | None = None, resilience: PipelineSettings | None = None
    ) -> None:
        """For a server that runs already, whose schema is in place; the gate is passed on entering."""
        self._dsn = dsn
        self._persistence = persistence if persistence is not None else PersistenceSettings()
        self._home: Path | None = None
        self._stack = AsyncExitStack()
        self._pool: AsyncConnectionPool[Connection] | None = None
        kind = PipelineClass.DATABASE_COMMAND_EXECUTION
        self._patience = resilience or ResilienceSettings().of(kind)
        self._pipeline = Pipeline(kind, "database", self._patience, CONDUCT)
        self._is_away = False

    @classmethod
    def open(cls, settings: Settings, home: Path) -> Self:
        """The database that the settings name: an external one by its dsn, else the embedded server below `home`.

        Nothing happens before it is entered. Entering raises DatabaseUnavailable (35001), MigrationMissing (32001),
        SchemaStateUnreadable (32002) or TextSearchConfigurationMismatch (32003). The embedded database is migrated on
        entering, an external one never is (DATA-48).
        """
        database = cls(
            external_dsn(settings, home) or "",
            persistence=settings.persistence,
            resilience=settings.resilience.database_command_execution,
        )
        if settings.persistence.dsn is None:
            database._home = home
        return database

    @property
    def dsn(self) -> str:
        """The connection string in use; it may hold a password and is not for showing."""
        return self._dsn

    @property
    def pool(self) -> AsyncConnectionPool[Connection]:
        """The open pool; its connections are not in autocommit mode."""
        if self._pool is None:
            raise RuntimeError("the database is not open")
        return self._pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """One connection for one transaction: committed at the end, rolled back by any exception.

        Getting one is repeated while the database is away (SYNC-34), what happens in the transaction never (SYNC-37).
        """
        try:
            connection = await self._pipeline.run(self._borrow)
        except PipelineRejected as error:
            raise DatabaseUnavailable(error.message) from error
        try:
            async with connection:
                yield connection
        except psycopg.Error as error:
            if is_lost_race(error):
                raise ConcurrencyConflict("another process wrote the same rows first") from error
            if is_server_trouble(error):
                raise DatabaseUnavailable(f"the database failed ({error.sqlstate or type(error).__name__})") from error
            raise
        finally:
            await self.pool.putconn(connection)

    async def _borrow(self) -> Connection:
        """A connection of the pool that works; one line in the log when there is none, and one when there is again."""
        try:
            connection = await self.pool.getconn(timeout=self._patience.attempt_timeout.total_seconds())
        except PoolTimeout as error:
            if not self._is_away:
                self._is_away = True
                log.warning("database unavailable")
            raise DatabaseUnavailable("the database gave no connection in time") from error
        if self._is_away:
            self._is_away = False
            log.info("database available again")
        return connection

    @asynccontextmanager
    async def lease(self, name: str) -> AsyncIterator[bool]:
        """Be the only process that holds `name` until the end of the block; False when another one does.

        Held by a connection of its own, so that it ends with the process however that ends. Raises DatabaseUnavailable.
        """
        try:
            connection = await psycopg.AsyncConnection.connect(
                self._dsn, autocommit=True, connect_timeout=CONNECT_TIMEOUT_SECONDS
            )
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable("the database cannot be reached") from error
        async with connection:
            try:
                row = await (await connection.execute(_TAKE_LEASE, [name])).fetchone()
            except psycopg.OperationalError as error:
                raise DatabaseUnavailable("the database cannot be reached") from error
            if row is None or not row[0]:
                yield False
                return
            try:
                yield True
            finally:
                # The lock would end with the connection, but only when the server notices that it ended.
                with contextlib.suppress(psycopg.Error):
                    await asyncio.shield(connection.execute(_LEAVE_LEASE, [name]))

    async def redo(self, work: Callable[[Connection], Awaitable[Result]]) -> Result:
        """Do `work` in one transaction; redo it whole in a fresh one when it lost a race (SYNC-39).

        Waits 50 ms doubling to 1 s, jittered in the upper half. Raises ConcurrencyConflict when the last of
        `persistence.maximum_concurrency_commit_attempts` lost too.
        """
        attempts = self._persistence.maximum_concurrency_commit_attempts
        for attempt in range(1, attempts + 1):
            try:
                async with self.connection() as connection:
                    return await work(connection)
            except ConcurrencyConflict:
                if attempt == attempts:
                    raise
            wait = min(REDO_WAIT_SECONDS * 2 ** (attempt - 1), REDO_MAX_WAIT_SECONDS)
            await asyncio.sleep(random.uniform(wait / 2, wait))  # noqa: S311 -- jitter, not a secret
        raise AssertionError("there is at least one attempt")

    async def __aenter__(self) -> Self:
        try:
            if self._home is not None:
                await self._start_embedded(self._home)
            self._pool = AsyncConnectionPool(
                self._dsn,
                kwargs={"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "mailkeep"},
                min_size=POOL_MIN_SIZE,
                max_size=POOL_MAX_SIZE,
                check=_check,
                open=False,
                name="mailkeep",
                configure=self._configure,
            )
            await self._probe()
            await self._stack.enter_async_context(self._pool)
            async with self.connection() as connection:
                await schema.pass_gate(
                    connection, text_search_configuration=self._persistence.text_search_configuration
                )
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start_embedded(self, home: Path) -> None:
        server = await asyncio.to_thread(embedded.start, home, bring_up=migrate_embedded)
        self._stack.push_async_callback(asyncio.to_thread, server.close)
        self._dsn = server.dsn

    async def _probe(self) -> None:
        """Fail at once, with a name, where the pool would go on trying until it times out."""
        try:
            connection = await psycopg.AsyncConnection.connect(self._dsn, connect_timeout=CONNECT_TIMEOUT_SECONDS)
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(_unreachable(error)) from error
        await connection.close()

    async def _configure(self, connection: Connection) -> None:
        """Bounds of each session. By SET, since connection poolers refuse the start-up parameter `options`."""
        await connection.execute("SET timezone = 'UTC'")
        await connection.execute(f"SET statement_timeout = {self._persistence.command_timeout_seconds * 1000}")
        await connection.execute(f"SET idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_SECONDS * 1000}")
        # Compiling costs more than any statement of ours runs.
        await connection.execute("SET jit = off")
        # A plan made while a table was empty would be kept while a first synchronization fills it.
        await connection.execute("SET plan_cache_mode = force_custom_plan")
        await connection.commit()


async def _check(connection: Connection) -> None:
    """Whether a pooled connection still lives. The server speaks unasked only to say good-bye, so silence is a yes."""
    socket = select.poll()  # select() knows no descriptor above 1023
    socket.register(connection.fileno(), select.POLLIN)
    if socket.poll(0):
        await AsyncConnectionPool.check_connection(connection)


def _unreachable(error: psycopg.OperationalError) -> str:
    """What to look at; the driver's own text names hosts and users."""
    code = "" if error.sqlstate is None else f" ({error.sqlstate})"
    advice = "check persistence.dsn, and that PostgreSQL runs there"
    return f"the database cannot be reached or refuses the login{code}; {advice}"


def external_dsn(settings: Settings, home: Path) -> str | None:
    """The configured connection string with its password filled in; None for the embedded database."""
    dsn = settings.persistence.dsn
    if dsn is None:
        return None
    try:
        told = WATCHFUL | psycopg.conninfo.conninfo_to_dict(dsn)
        if settings.persistence.password is not None:
            told["password"] = resolve_secret(settings.persistence.password, home).get_secret_value()
        return psycopg.conninfo.make_conninfo(**told)
    except psycopg.ProgrammingError:
        raise DatabaseUnavailable("persistence.dsn is not a connection string that PostgreSQL understands") from None


async def upgrade(settings: Settings, home: Path) -> tuple[str, ...]:
    """Apply the migrations that the database lacks; the ids applied. The operator's `mailkeep db upgrade`.

    An embedded database is never behind: starting it brings it up to date, so nothing is left to apply.
    """
    dsn = external_dsn(settings, home)
    if dsn is None:
        server = await asyncio.to_thread(embedded.start, home, bring_up=migrate_embedded)
        await asyncio.to_thread(server.close)
        return ()
    try:
        return await schema.migrate(dsn)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(_unreachable(error)) from error


def migrate_embedded(server: embedded.EmbeddedServer) -> None:
    """Bring the embedded database up to this build, a copy of one that holds mail set aside first (DATA-48)."""

    async def migrate() -> None:
        async with await psycopg.AsyncConnection.connect(server.dsn) as connection:
            status = await schema.read_status(connection)
        if status.missing and status.applied:
            server.set_aside(status.missing[0])
        if status.missing:
            await schema.migrate(server.dsn)

    asyncio.run(migrate())


async def status(settings: Settings, home: Path) -> schema.SchemaStatus:
    """What the database holds of the schema, and what it lacks; changes nothing."""
    async with _server(settings, home) as dsn:
        try:
            connection = await psycopg.AsyncConnection.connect(dsn, connect_timeout=CONNECT_TIMEOUT_SECONDS)
        except psycopg.OperationalError as error:
            raise DatabaseUnavailable(_unreachable(error)) from error
        async with connection:
            return await schema.read_status(connection)


@asynccontextmanager
async def _server(settings: Settings, home: Path) -> AsyncIterator[str]:
    dsn = external_dsn(settings, home)
    if dsn is not None:
        yield dsn
        return
    server = await asyncio.to_thread(embedded.start, home)
    try:
        yield server.dsn
    finally:
        await asyncio.to_thread(server.close)


def is_lost_race(error: psycopg.Error) -> bool:
    """Whether the same work may succeed when it is redone from a fresh read (DATA-11, DATA-13).

    A deadlock, a serialization failure, a referenced row that was erased meanwhile, or somebody else's row under a key
    that two processes may mint at the same time. Any other unique violation is a failure (DATA-12).
    """
    if error.sqlstate == "23505":
        return error.diag.constraint_name in RACED_KEYS
    return error.sqlstate in ("40001", "40P01", "23503")


def is_server_trouble(error: psycopg.Error) -> bool:
    """The server or the way to it failed, not the statement: no connection, no memory, no disk, shutting down."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state[:2] in ("08", "53", "57", "58") or state in ("25006", "55P03", "XX001", "XX002")
