"""The transport wrapper: neither side breaks the other, and every known recipient gets a copy."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest
from inbox_support.mail import ANN, PRIORITIES, RecordingBus, count, message_to, rows
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from mailkeep_inbox import (
    MailboxPersistArgs,
    MailboxRef,
    SenderAuthorization,
    create_mailbox_persist,
    list_user_mailbox,
    write_mailbox_message,
)
from mailkeep_inbox.bounds import MAX_FRAME_BYTES

pytestmark = pytest.mark.anyio

FRAME = (
    b"From: Bo <bo@acme.example>\r\nTo: Ann <usr_ann@acme.example>\r\nMessage-ID: <m@x>\r\nSubject: s\r\n\r\nbody\r\n"
)
EVERYBODY = ("usr_ann@acme.example", "bob@acme.example")


def frame(raw: bytes = FRAME, recipients: Sequence[str] = EVERYBODY) -> MailboxPersistArgs:
    """A frame for the transport."""
    return MailboxPersistArgs(sender_address="bo@acme.example", recipients=recipients, raw=raw)


def wrapped(engine: AsyncEngine, **options: Any) -> Any:
    """A wrapped transport that answers "sent" unless it is told otherwise."""
    values: dict[str, Any] = {
        "upstream": lambda _: "sent",
        "authorize_sender": lambda _: SenderAuthorization("acme", "acme.example"),
    }
    return create_mailbox_persist(engine, **(values | options))


def raising(failure: Exception) -> Any:
    """A callable that raises."""

    async def call(*_: object) -> None:
        raise failure

    return call


@pytest.mark.spec("INBOX-40", "INBOX-41", "INBOX-44", "INBOX-33")
async def test_frame_reaches_the_transport_and_every_known_principal(engine: AsyncEngine) -> None:
    """One row a principal, one event and one hook call each; a retry and a direct write meet the same key."""
    bus, told = RecordingBus(), []
    persist = wrapped(engine, bus=bus, on_row=told.append)
    assert await persist(frame()) == "sent"
    assert await persist(frame()) == "sent"
    assert await write_mailbox_message(engine, message_to(ANN, message_id="<m@x>")) is None
    assert [(each[0], each[2]) for each in bus.wire] == [("ann", "create"), ("bob", "create")]
    assert [(row.principal_id, row.recipient_address, row.sender_address) for row in told] == [
        ("ann", "usr_ann@acme.example", "bo@acme.example"),
        ("bob", "bob@acme.example", "bo@acme.example"),
    ]
    assert await count(engine) == await count(engine, "mailbox") == 2
    (shown,) = (await list_user_mailbox(engine, ANN, priorities=PRIORITIES)).items
    assert (shown.subject, shown.from_, shown.snippet) == ("s", "Bo <bo@acme.example>", "body")


@pytest.mark.spec("INBOX-40")
async def test_transport_that_raises_is_raised_after_the_copy(engine: AsyncEngine) -> None:
    """The mailbox write is still tried, then the same exception object comes out."""
    failure = ConnectionError("upstream")
    with pytest.raises(ConnectionError) as raised:
        await wrapped(engine, upstream=raising(failure))(frame())
    assert raised.value is failure
    assert await count(engine) == 2


@pytest.mark.spec("INBOX-40", "INBOX-42", "INBOX-43", "INBOX-41")
@pytest.mark.parametrize(
    ("options", "args", "stage"),
    [
        ({"authorize_sender": raising(RuntimeError())}, frame(), "authorize_sender"),
        ({"authorize_sender": lambda _: None}, frame(), "authorize_sender"),
        ({"authorize_sender": lambda _: SenderAuthorization(" ", "acme.example")}, frame(), "scope"),
        ({"resolve_refs": raising(RuntimeError())}, frame(), "resolve_refs"),
        ({"resolve_refs": lambda _: [{"kind": "x"}]}, frame(), "resolve_refs"),
        ({}, frame(b"x" * (MAX_FRAME_BYTES + 1)), "size"),
        ({}, frame(recipients=[f"u{n}@elsewhere.example" for n in range(51)]), "recipients"),
    ],
)
async def test_mailbox_side_fails_quietly(
    psycopg_engine: AsyncEngine, caplog: pytest.LogCaptureFixture, options: Any, args: MailboxPersistArgs, stage: str
) -> None:
    """The transport's value comes back; one ERROR names sender and stage; there is no row."""
    with caplog.at_level(logging.ERROR):
        assert await wrapped(psycopg_engine, **options)(args) == "sent"
    (record,) = caplog.records
    assert "sender=bo@acme.example" in record.getMessage()
    assert f"stage={stage}" in record.getMessage()
    assert await count(psycopg_engine) == 0


@pytest.mark.spec("INBOX-41", "INBOX-42", "INBOX-53")
async def test_unknown_and_foreign_recipients_cost_the_others_nothing(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """A principal of another tenant, an unknown one and other domains are skipped, the unknown told once."""
    recipients = ["usr_ann@acme.example", "usr_oda@acme.example", "nobody@acme.example", "bob@other.example"]
    with caplog.at_level(logging.WARNING):
        await wrapped(engine)(frame(recipients=recipients))
    (record,) = caplog.records
    assert "count=2 addresses=['usr_oda@acme.example', 'nobody@acme.example']" in record.getMessage()
    assert [row.principal_id for row in await rows(engine, "SELECT principal_id FROM mailbox.mailbox")] == ["ann"]


@pytest.mark.spec("INBOX-43")
async def test_refs_are_resolved_once_and_the_first_ones_stay(engine: AsyncEngine) -> None:
    """One call a frame with what was decoded; a retry asks again and changes nothing; twenty are kept."""
    asked = []

    async def resolve(request: Any) -> list[MailboxRef]:
        asked.append(request)
        return [MailboxRef("case", f"{len(asked)}-{n}") for n in range(25)]

    persist = wrapped(engine, resolve_refs=resolve)
    await persist(frame())
    await persist(frame())
    assert len(asked) == 2
    assert asked[0].decoded.headers.subject == "s"
    assert asked[0].sender_authorization == SenderAuthorization("acme", "acme.example")
    stored = await rows(
        engine, "SELECT jsonb_array_length(refs) AS n, refs -> 0 ->> 'id' AS first FROM mailbox.mailbox"
    )
    assert [(row.n, row.first) for row in stored] == [(20, "1-0"), (20, "1-0")]
    await wrapped(engine, resolve_refs=lambda _: None)(frame(FRAME.replace(b"m@x", b"n@x")))
    (row,) = await rows(engine, "SELECT count(*) AS n FROM mailbox.principal_mail WHERE refs IS NULL")
    assert row.n == 2


@pytest.mark.spec("INBOX-45", "INBOX-46", "INBOX-31")
async def test_junk_is_stored_and_told_apart_by_content(engine: AsyncEngine) -> None:
    """Frames of 2, 4 and a million octets, undecodable or without a usable Message-ID, are kept once each."""
    junk = [b"ab", b"abcd", b"\0" * MAX_FRAME_BYTES, b"Message-ID: <a\0@x>\r\n\r\n", b"Message-ID:  \r\n\r\n",
            b"Message-ID: <" + b"a" * 5000 + b"@x>\r\nSubject: n\0ul\r\n\r\n"]  # fmt: skip
    persist = wrapped(engine)
    for raw in [*junk, *junk]:
        await persist(frame(raw, ["ann@acme.example"]))
    stored = await rows(engine, "SELECT message_key, message_id, subject FROM mailbox.principal_mail")
    assert len(stored) == len(junk)
    assert all(row.message_key.startswith("transport:raw:") and row.message_id is None for row in stored)
    assert {row.subject for row in stored} == {None, "nul"}


@pytest.mark.spec("INBOX-41")
async def test_fifty_recipients_are_delivered(psycopg_engine: AsyncEngine) -> None:
    """The bound counts what came in, before anything is filtered."""
    await rows(psycopg_engine, "INSERT INTO public.principal SELECT 'p' || n, 'acme' FROM generate_series(1, 50) AS n")
    await wrapped(psycopg_engine)(frame(recipients=[f"p{n}@acme.example" for n in range(1, 51)]))
    assert await count(psycopg_engine) == 50


@pytest.mark.spec("INBOX-28")
async def test_four_identical_frames_at_once_leave_one_row(engine: AsyncEngine) -> None:
    """And one event."""
    bus = RecordingBus()
    persist = wrapped(engine, bus=bus)
    await asyncio.gather(*(persist(frame(recipients=["ann@acme.example"])) for _ in range(4)))
    assert (await count(engine), len(bus.published)) == (1, 1)


@pytest.mark.spec("INBOX-46")
async def test_principal_deleted_meanwhile_costs_others_nothing(inbox_dsn: str, psycopg_engine: AsyncEngine) -> None:
    """A foreign-key failure asks for the known principals again and tries once more."""
    import psycopg

    deleted = []

    def delete(_c: Any, _cur: Any, sql: str, *_rest: Any) -> None:
        if "INSERT INTO mailbox.principal_mail" in sql and not deleted:
            deleted.append(True)
            with psycopg.connect(inbox_dsn, autocommit=True) as other:
                other.execute("DELETE FROM public.principal WHERE id = 'bob'")

    event.listen(psycopg_engine.sync_engine, "before_cursor_execute", delete)
    await wrapped(psycopg_engine)(frame())
    assert deleted
    assert [row.principal_id for row in await rows(psycopg_engine, "SELECT principal_id FROM mailbox.mailbox")] == [
        "ann"
    ]


@pytest.mark.spec("INBOX-8", "INBOX-40")
async def test_cancelling_propagates_and_leaves_nothing(engine: AsyncEngine) -> None:
    """A wrapper cancelled while it writes stores no part and swallows no cancellation."""
    reached = asyncio.Event()

    async def wait(_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    for option in ("resolve_refs", "upstream"):
        reached.clear()
        task = asyncio.ensure_future(wrapped(engine, **{option: wait})(frame()))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    blocker = engine.connect()
    async with blocker as connection:
        await connection.exec_driver_sql("LOCK TABLE mailbox.principal_mail IN ACCESS EXCLUSIVE MODE")
        task = asyncio.ensure_future(wrapped(engine)(frame()))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        while not (await rows(engine, waiting))[0][0]:  # noqa: ASYNC110 -- the server has no event for it
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (await count(engine), await count(engine, "mailbox"), await count(engine, "mailbox_event")) == (0, 0, 0)


@pytest.mark.spec("INBOX-107")
async def test_same_key_with_other_bytes_raises_the_alarm(
    engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    """A true retry is silent; other content under a known Message-ID is told to the host and to the log."""
    conflicts: list[Any] = []
    persist = wrapped(engine, on_conflict=conflicts.append)
    await persist(frame())
    await persist(frame())
    assert conflicts == []
    with caplog.at_level(logging.WARNING):
        await persist(frame(FRAME + b"more", ["ann@acme.example"]))
    (conflict,) = conflicts
    (stored,) = await rows(engine, "SELECT id FROM mailbox.mailbox WHERE principal_id = 'ann'")
    assert (conflict.scope, conflict.message_key, conflict.stored_id) == (ANN, "transport:mid:<m@x>:ann", stored.id)
    assert "other content" in caplog.text


@pytest.mark.spec("INBOX-8", "INBOX-44")
async def test_hooks_may_be_plain_or_async_and_may_raise(engine: AsyncEngine, caplog: pytest.LogCaptureFixture) -> None:
    """Every callable in both forms; a hook that raises is logged and the next recipient still told."""
    told = []

    async def upstream(_: object) -> str:
        return "sent"

    async def authorize(_: str) -> SenderAuthorization:
        return SenderAuthorization("acme", "acme.example")

    def on_row(row: Any) -> None:
        told.append(row.principal_id)
        raise RuntimeError

    with caplog.at_level(logging.ERROR):
        assert await wrapped(engine, upstream=upstream, authorize_sender=authorize, on_row=on_row)(frame()) == "sent"
    assert told == ["ann", "bob"]
    assert len(caplog.records) == 2


@pytest.mark.spec("INBOX-47", "INBOX-40")
@pytest.mark.parametrize("place", [1, 2, 3])
async def test_broken_connection_after_the_transport_is_repaired_by_a_retry(
    inbox_dsn: str, psycopg_engine: AsyncEngine, place: int
) -> None:
    """Cut before either statement or the commit: the transport's value stands, no row; sending again writes the copies."""
    import psycopg

    seen: list[int] = []

    def kill(*_: Any) -> None:
        seen.append(len(seen))
        if len(seen) == place:
            with psycopg.connect(inbox_dsn, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )

    event.listen(psycopg_engine.sync_engine, "before_cursor_execute", kill)
    event.listen(psycopg_engine.sync_engine, "commit", kill)
    assert await wrapped(psycopg_engine)(frame()) == "sent"
    event.remove(psycopg_engine.sync_engine, "before_cursor_execute", kill)
    event.remove(psycopg_engine.sync_engine, "commit", kill)
    await psycopg_engine.dispose()
    assert (await count(psycopg_engine), await count(psycopg_engine, "mailbox")) == (0, 0)
    assert await wrapped(psycopg_engine)(frame()) == "sent"
    assert (await count(psycopg_engine), await count(psycopg_engine, "mailbox")) == (2, 2)
