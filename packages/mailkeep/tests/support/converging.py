"""Carrying changes out in tests: mail mirrored from a real server, changes recorded for it, passes over them.

mailbox = await Mirrored.of(db, home, server.ports.plain, user)
change = await mailbox.asked(1, Terms(Mutation.SET_FLAGGED, desired_flagged_state=True))
await mailbox.converge()
assert (await mailbox.row(change)).stage is Stage.COMPLETED
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from uuid import UUID

from psycopg.rows import dict_row
from support.accounts import account_at
from support.engine import engine, rows, run_once

from mailkeep.config import AccountSettings, AuthoredDeleteDisposition
from mailkeep.db import Database
from mailkeep.mutations import Mutation, MutationRecord, Terms
from mailkeep.mutations.converge import Converged
from mailkeep.mutations.model import Requester, RequesterOrigin
from mailkeep.mutations.record import ChangeRequest, record_changes
from mailkeep.mutations.rows import record_of
from mailkeep.sync.changes import carry_out_changes
from mailkeep.sync.resources import utc_now

_requests = itertools.count(1)
STAR: Final = Terms(Mutation.SET_FLAGGED, desired_flagged_state=True)
UNSTAR: Final = Terms(Mutation.SET_FLAGGED, desired_flagged_state=False)
READ: Final = Terms(Mutation.SET_SEEN, desired_seen_state=True)
DELETE: Final = Terms(Mutation.DELETE, local_disposition=AuthoredDeleteDisposition.RETAIN_LOCAL_COPY)


def move_to(path: str, *, creates: bool = False) -> Terms:
    return Terms(Mutation.RELOCATE, destination_folder_path=path, creates_destination=creates)


def copy_to(path: str, *, creates: bool = False) -> Terms:
    return Terms(Mutation.COPY, destination_folder_path=path, creates_destination=creates)


def keywords(mutation: Mutation, *names: str) -> Terms:
    return Terms(mutation, keywords=names)


@dataclass(slots=True)
class Mirrored:
    """A mirrored mailbox; `account` may be pointed elsewhere between passes."""

    db: Database
    home: Path
    account: AccountSettings
    bounds: dict[str, Any]
    now: Callable[[], datetime] = utc_now

    @classmethod
    async def of(cls, db: Database, home: Path, port: int, user: str, **bounds: Any) -> Self:
        """Mirror a mailbox as it is now."""
        mirrored = cls(db, home, account_at(port, user_name=user), bounds)
        await run_once(db, home, mirrored.account, until_complete=True)
        return mirrored

    def at(self, port: int) -> None:
        """Reach the same mailbox at another port from now on: through a proxy, or no longer through one."""
        self.account = self.account.model_copy(update={"port": port})

    async def asked(self, uid: int, *terms: Terms, alias: str = "INBOX", audited: bool = False) -> UUID:
        """Record changes of a message, in one call; the id of the first."""
        return (await self.asked_of([uid], *terms, alias=alias, audited=audited))[0]

    async def asked_of(
        self, uids: Sequence[int], *terms: Terms, alias: str = "INBOX", audited: bool = False
    ) -> list[UUID]:
        """Record changes of many messages in one call."""
        found = await rows(
            self.db,
            """
            SELECT e.uid, e.id FROM stored_emails e JOIN mail_folders f ON f.id = e.mail_folder_id
            WHERE f.alias = %s AND e.uid = ANY(%s) AND e.remote_expunge_observed_at IS NULL
            """,
            alias,
            list(uids),
        )
        ids = dict(found)
        requests = [
            ChangeRequest(
                ids[uid],
                one,
                Requester(RequesterOrigin.COMMAND, f"request {next(_requests)}"),
                audit_trail_enabled=audited,
            )
            for one in terms
            for uid in uids
        ]
        return [record.id for record in await record_changes(self.db, requests, now=datetime.now(UTC))]

    async def converge(self) -> Converged:
        """One pass in resources of its own, as a process that starts, does it and ends."""
        async with engine(self.db, self.home, self.account, now=self.now, **self.bounds) as resources:
            return await carry_out_changes(resources, self.account)

    async def row(self, change: UUID) -> MutationRecord:
        async with self.db.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute("SELECT * FROM mailbox_mutations WHERE id = %s", [change])
            (found,) = await cursor.fetchall()
            return record_of(found)

    async def rewrite(self, change: UUID, **columns: Any) -> None:
        """Put a row where a process that died would have left it."""
        settings = ", ".join(f"{name} = %s" for name in columns)
        async with self.db.connection() as connection:
            await connection.execute(
                f"UPDATE mailbox_mutations SET {settings} WHERE id = %s", [*columns.values(), change]
            )
