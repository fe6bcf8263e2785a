"""The bus of several replicas: PostgreSQL's LISTEN and NOTIFY on the host's own database (INBOX-111).

An event goes to the listeners of this process at once and to the other replicas by one NOTIFY. Each bus holds one
connection that listens, taken out of the host's pool; when it breaks, a new one is made with growing pauses, and what
was missed meanwhile is read from the event log. What the log no longer holds becomes one event with the id `*` for
everybody who listens: fetch the list again. Behind a pooler, LISTEN needs session pooling.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox.bus import InMemoryMailboxEventBus, Listener
from mailkeep_inbox.event_log import MAX_EVENT_PAGE, mailbox_event_position, read_events_of_all_mailboxes
from mailkeep_inbox.listening import CHANNEL, listen
from mailkeep_inbox.model import EVERY_MESSAGE, MailboxEvent, MailboxEventOp, MailboxScope

logger = logging.getLogger("mailkeep_inbox")

FIRST_LISTEN_SECONDS: Final = 5.0
"""How long the host's start waits for the first connection; without one the bus keeps trying."""
SHORTEST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0
POSITION_SECONDS: Final = 10.0
"""Between two looks at the log's end. Well above the two seconds that a publish may take after its commit."""
MAX_PAYLOAD_BYTES: Final = 7_900
"""PostgreSQL refuses 8,000."""
MAX_CATCH_UP_PAGES: Final = 10


class PostgresMailboxEventBus:
    """Publishes at once; hears other replicas while a block of `listening()` runs. `publish` alone needs no block."""

    def __init__(self, db: AsyncEngine) -> None:
        self._db = db
        self._local = InMemoryMailboxEventBus()
        self._origin = uuid4().hex
        self._positions: deque[str] = deque(maxlen=2)
        self.is_listening = asyncio.Event()

    async def publish(self, scope: MailboxScope, event: MailboxEvent) -> None:
        """Tell the listeners of this process, then the other replicas. Raises what the database raises."""
        self._local.publish(scope, event)
        async with self._db.connect() as connection:
            await connection.execute(
                text("SELECT pg_notify(:channel, :payload)"),
                {"channel": CHANNEL, "payload": payload_of(self._origin, scope, event)},
            )
            await connection.commit()

    def subscribe(self, scope: MailboxScope, listener: Listener) -> Callable[[], None]:
        """Call `listener` for each event of any replica until the returned callable is called."""
        return self._local.subscribe(scope, listener)

    @property
    def subscriber_count(self) -> int:
        """How many subscriptions there are in this process."""
        return self._local.subscriber_count

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Hear the other replicas while the block runs: put it into the host's lifespan.

        Waits five seconds at most for the database; without it the block begins all the same and the bus keeps trying.
        """
        task = asyncio.create_task(self._listen(), name="mailbox bus")
        try:
            try:
                async with asyncio.timeout(FIRST_LISTEN_SECONDS):
                    await self.is_listening.wait()
            except TimeoutError:
                logger.warning("mailbox bus not connected yet: it keeps trying")
            yield
        finally:  # not a task group: that would wrap what the host's own block raises
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self) -> None:
        """Listen until cancelled, connecting again as often as it takes."""
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            try:
                async with listen(self._db, self._receive) as connection:
                    await self._catch_up()
                    self.is_listening.set()
                    pause = SHORTEST_PAUSE_SECONDS
                    while True:
                        await connection.wait(POSITION_SECONDS)
                        self._positions.append(await mailbox_event_position(self._db))
            except Exception as failure:
                self.is_listening.clear()
                logger.warning("mailbox bus lost its connection: error=%s", type(failure).__name__)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    async def _catch_up(self) -> None:
        """Pass on what was logged while nobody listened. The older of two positions: a publish follows its commit."""
        now = await mailbox_event_position(self._db)
        after = self._positions[0] if self._positions else now
        self._positions.clear()
        self._positions.append(now)
        for _ in range(MAX_CATCH_UP_PAGES):
            page = await read_events_of_all_mailboxes(self._db, after=after, limit=MAX_EVENT_PAGE)
            if not page.is_complete:
                break
            for pending in page.events:
                self._local.publish(pending.scope, pending.event)
            if not page.has_more:
                return
            after = page.next
        for scope in self._local.scopes():
            self._local.publish(scope, MailboxEvent(EVERY_MESSAGE, MailboxEventOp.CREATE))

    def _receive(self, payload: str) -> None:
        try:
            fields = json.loads(payload)
            if fields["from"] == self._origin:
                return
            event = MailboxEvent(fields["id"], MailboxEventOp(fields["op"]), fields.get("position"))
            scopes = [MailboxScope(*fields["scope"])] if "scope" in fields else self._scopes_of(fields["digest"])
        except (ValueError, KeyError, TypeError):
            logger.warning("mailbox bus ignored a notification that is not its own")
            return
        for scope in scopes:
            self._local.publish(scope, event)

    def _scopes_of(self, digest: str) -> list[MailboxScope]:
        return [scope for scope in self._local.scopes() if scope_digest(scope) == digest]


@asynccontextmanager
async def postgres_mailbox_event_bus(db: AsyncEngine) -> AsyncIterator[PostgresMailboxEventBus]:
    """A bus that listens while the block runs."""
    bus = PostgresMailboxEventBus(db)
    async with bus.listening():
        yield bus


def payload_of(origin: str, scope: MailboxScope, event: MailboxEvent) -> str:
    """The NOTIFY payload; ids too long for one are named by their digest."""
    fields: dict[str, Any] = {"from": origin, "id": event.id, "op": str(event.op)}
    if event.position is not None:
        fields["position"] = event.position
    whole = _json(fields | {"scope": [scope.tenant_id, scope.principal_id]})
    return whole if len(whole) <= MAX_PAYLOAD_BYTES else _json(fields | {"digest": scope_digest(scope)})


def scope_digest(scope: MailboxScope) -> str:
    """A short name of a mailbox."""
    return hashlib.sha256(_json([scope.tenant_id, scope.principal_id]).encode()).hexdigest()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
