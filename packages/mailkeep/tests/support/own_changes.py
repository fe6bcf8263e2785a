"""Changes of our own as synchronization meets them: recorded by mailkeep, made by an independent client, noted by SQL.

What `converge` does is done here by hand, so that a test can stop it anywhere:

    ours = OwnChanges(db, server, user)
    change = await ours.recorded(email_id, relocation("Archive"))
    placement = ours.moved("INBOX", 3, "Archive")
    await ours.note(change, Stage.COMPLETED, placement=placement)
"""

from __future__ import annotations

import imaplib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from support.cyrus import Cyrus
from support.dovecot import PASSWORD, Dovecot

from mailkeep.config import AuthoredDeleteDisposition
from mailkeep.db import Database
from mailkeep.mutations import Mutation, Stage, Terms
from mailkeep.mutations.model import Requester, RequesterOrigin, convergence_lease
from mailkeep.mutations.record import ChangeRequest, record_changes

RETAIN: Final = AuthoredDeleteDisposition.RETAIN_LOCAL_COPY
TOMBSTONE: Final = AuthoredDeleteDisposition.RETAIN_TOMBSTONE
ERASE: Final = AuthoredDeleteDisposition.ERASE_LOCAL_COPY
_requests = itertools.count(1)


def relocation(path: str, disposition: AuthoredDeleteDisposition | None = None) -> Terms:
    """A move; with a disposition, to a folder that is not mirrored."""
    return Terms(Mutation.RELOCATE, destination_folder_path=path, local_disposition=disposition)


def copying(path: str) -> Terms:
    return Terms(Mutation.COPY, destination_folder_path=path)


def deletion(disposition: AuthoredDeleteDisposition = RETAIN) -> Terms:
    return Terms(Mutation.DELETE, local_disposition=disposition)


class OwnChanges:
    """What converging does, step by step, on one mailbox."""

    def __init__(self, db: Database, server: Dovecot | Cyrus, user: str) -> None:
        self.db = db
        self._server = server
        self._user = user

    @asynccontextmanager
    async def held_back(self) -> AsyncIterator[None]:
        """Keep every convergence pass from what is unfinished, as another process would that is busy with it."""
        async with self.db.lease(convergence_lease("anna")) as is_owner:
            assert is_owner
            yield

    async def recorded(self, email_id: UUID, terms: Terms, *, audited: bool = False) -> UUID:
        """Write the intent down; its id."""
        requester = Requester(RequesterOrigin.COMMAND, f"request {next(_requests)}")
        (record,) = await record_changes(
            self.db, [ChangeRequest(email_id, terms, requester, audit_trail_enabled=audited)], now=datetime.now(UTC)
        )
        return record.id

    async def note(
        self,
        change: UUID,
        stage: Stage,
        *,
        placement: tuple[int, int] | None = None,
        from_copy: bool = False,
        abandoned_from: Stage | None = None,
    ) -> None:
        """Write down how far the change has got, as of now."""
        await self._execute(
            """
            UPDATE mailbox_mutations SET stage = %s, stage_changed_at = %s, requires_source_removal = %s,
                placement_uid_validity = coalesce(%s, placement_uid_validity),
                placement_uid = coalesce(%s, placement_uid), abandoned_from_stage = %s
            WHERE id = %s
            """,
            stage.value,
            datetime.now(UTC),
            from_copy,
            *(placement or (None, None)),
            None if abandoned_from is None else abandoned_from.value,
            change,
        )

    async def issued(self, change: UUID) -> None:
        """Stamp that a store is about to go out."""
        await self._execute("UPDATE mailbox_mutations SET issued_at = %s WHERE id = %s", datetime.now(UTC), change)

    async def observed(self, change: UUID) -> tuple[bool, bool]:
        """Whether synchronization has met the placement, and seen the source gone."""
        async with self.db.connection() as connection:
            cursor = await connection.execute(
                "SELECT placement_observed_at IS NOT NULL, source_removal_observed_at IS NOT NULL"
                " FROM mailbox_mutations WHERE id = %s",
                [change],
            )
            (row,) = await cursor.fetchall()
            return row[0], row[1]

    async def relocated(self, email_id: UUID, source: str, uid: int, to: str, **terms: Any) -> UUID:
        """A move from intent to end."""
        change = await self.recorded(email_id, relocation(to, **terms))
        await self.note(change, Stage.COMPLETED, placement=self.moved(source, uid, to))
        return change

    async def deleted(self, email_id: UUID, source: str, uid: int, disposition: AuthoredDeleteDisposition) -> UUID:
        """A deletion from intent to end."""
        change = await self.recorded(email_id, deletion(disposition))
        self.expunged(source, uid)
        await self.note(change, Stage.COMPLETED)
        return change

    def moved(self, source: str, uid: int, to: str) -> tuple[int, int]:
        """MOVE; where COPYUID says that it went."""
        return self._placed("MOVE", source, uid, to)

    def copied(self, source: str, uid: int, to: str) -> tuple[int, int]:
        """COPY; where COPYUID says that it went."""
        return self._placed("COPY", source, uid, to)

    def expunged(self, source: str, uid: int) -> None:
        with self._server.client(self._user) as client:
            client.expunge(source, uid)

    def stored(self, source: str, uid: int, sign: str, *flags: str) -> None:
        """STORE, as we would send it."""
        with self._server.client(self._user) as client:
            (client.flag if sign == "+" else client.unflag)(source, uid, *flags)

    def _placed(self, command: str, source: str, uid: int, to: str) -> tuple[int, int]:
        with imaplib.IMAP4("127.0.0.1", self._server.ports.plain, timeout=30) as client:
            client.login(self._user, PASSWORD)
            client.select(f'"{source}"')
            status, answer = client.uid(command, str(uid), f'"{to}"')
            assert status == "OK", answer
            code = client.response("COPYUID")[1][-1]
            assert code is not None
            validity, _, there = code.decode().split()
            return int(validity), int(there)

    async def _execute(self, statement: str, *values: object) -> None:
        async with self.db.connection() as connection:
            await connection.execute(statement.encode(), values)


async def derived(db: Database, email_id: UUID) -> tuple[Any, ...]:
    """Everything of a message that carrying it over must leave as it is."""
    async with db.connection() as connection:
        cursor = await connection.execute(
            """
            SELECT e.email_thread_id, e.parent_stored_email_id, e.stored_at, e.internet_message_id, e.subject,
                e.received_at, e.attachments_read_by, c.sha256_hash, c.stored_at, d.extracted_at, d.body_text,
                d.attachment_vector,
                (SELECT array_agg((p.id, p.ordinal, p.text) ORDER BY p.ordinal)::text FROM email_chunks p
                    WHERE p.stored_email_id = e.id),
                (SELECT array_agg((t.attachment_position, t.file_name, t.outcome))::text FROM email_attachment_texts t
                    WHERE t.stored_email_id = e.id)
            FROM stored_emails e
            LEFT JOIN email_message_contents c ON c.stored_email_id = e.id
            LEFT JOIN email_search_documents d ON d.stored_email_id = e.id
            WHERE e.id = %s
            """,
            [email_id],
        )
        (row,) = await cursor.fetchall()
        return tuple(row)


async def whereabouts(db: Database) -> dict[UUID, tuple[str, int, str]]:
    """Every stored message: alias, UID, and `present`, `kept` (readable although gone) or `hidden`."""
    async with db.connection() as connection:
        cursor = await connection.execute(
            """
            SELECT e.id, f.alias, e.uid, CASE WHEN e.remote_expunge_observed_at IS NULL THEN 'present'
                WHEN e.is_retained_after_authored_delete THEN 'kept' ELSE 'hidden' END
            FROM stored_emails e JOIN mail_folders f ON f.id = e.mail_folder_id ORDER BY e.id
            """
        )
        return {row[0]: (row[1], row[2], row[3]) for row in await cursor.fetchall()}
