"""Reading stored mail: verified, bounded, within the scope."""

from __future__ import annotations

import asyncio
from uuid import UUID, uuid4

import pytest
from support.mail import File, conversation, message, raw
from support.store import EPOCH, NOW, execute, header_only, inbox, rows, store

from mailkeep.db import Database
from mailkeep.errors import (
    ContentCountRefused,
    ContentNotStored,
    ContentRepeated,
    ContentSelectionRefused,
    EmailNotAccessible,
    StoredContentUnreadable,
)
from mailkeep.mailbox import (
    BodyState,
    ContentAvailability,
    ContentFailure,
    EmailContent,
    Flags,
    FolderBinding,
    ReadableFolder,
    ReadOptions,
    ReadResult,
    Scope,
    Truncation,
    attachment,
    raw_mime,
    read_contents,
    store_batch,
)

pytestmark = pytest.mark.anyio


def scope(*bindings: FolderBinding) -> Scope:
    """A scope of the given folders."""
    folders = tuple(ReadableFolder(b.folder_id, b.account_id, b.alias, b.special_use) for b in bindings)
    return Scope(tuple({b.account_id for b in bindings}), folders, includes_junk=False)


async def ids(db: Database) -> list[UUID]:
    """The keys of all stored messages by UID."""
    return [row[0] for row in await rows(db, "SELECT id FROM stored_emails ORDER BY uid")]


def contents(result: ReadResult) -> list[EmailContent]:
    """The outcomes, all of which succeeded."""
    assert all(isinstance(outcome, EmailContent) for outcome in result.outcomes), result.outcomes
    return [outcome for outcome in result.outcomes if isinstance(outcome, EmailContent)]


@pytest.mark.spec("SYNC-131", "SYNC-132", "SYNC-135")
async def test_content_tells_headers_body_files_flags_and_conversation(db: Database) -> None:
    """One email as a person would see it, quotation included."""
    binding = await inbox(db)
    body = "New text.\n\nOn Monday Bo wrote:\n> old text\n"
    mail = message(
        "Hello",
        body=body,
        cc="Cy <cy@example.com>",
        message_id="a@example.com",
        headers=[("Bcc", "dee@example.com")],
        files=[File("plan.pdf", "application/pdf", b"12345")],
    )
    reply = message("Re: Hello", in_reply_to="a@example.com")
    await store(db, binding, mail, reply, flags=Flags(seen=True))
    first, second = await ids(db)
    (content,) = contents(await read_contents(db, ids=[first], scope=scope(binding), now=NOW))
    assert (content.account_id, content.folder, content.size_octets) == ("ann", "INBOX", len(mail))
    assert (content.from_[0].display_name, content.cc[0].display_name) == ("Ann Lee", "Cy")
    assert content.bcc[0].normalized_address == "DEE@EXAMPLE.COM"
    assert content.body.text.split() == body.split()
    assert (content.body.state, content.body.truncation) == (BodyState.READABLE, Truncation.NONE)
    assert content.attachments is not None
    assert [(one.file_name, one.size_octets) for one in content.attachments] == [("plan.pdf", 5)]
    assert (content.flags, content.flags_observed_at) == (Flags(seen=True), NOW)
    assert content.other_stored_email_ids == (second,)
    assert await rows(db, "SELECT count(*) FROM email_content_repair_requests") == [(0,)]


@pytest.mark.spec("SYNC-129")
async def test_requests_that_name_too_much_or_nothing_are_refused(db: Database) -> None:
    """One to ten distinct emails, or one conversation."""
    empty = scope()
    for refusal, request in (
        (ContentSelectionRefused, {}),
        (ContentSelectionRefused, {"ids": [uuid4()], "thread_id": uuid4()}),
        (ContentCountRefused, {"ids": [uuid4() for _ in range(11)]}),
        (ContentRepeated, {"ids": [UUID(int=1), UUID(int=1)]}),
    ):
        with pytest.raises(refusal):
            await read_contents(db, scope=empty, now=NOW, **request)  # type: ignore[arg-type]


@pytest.mark.spec("SYNC-130", "FIND-6", "FIND-8")
async def test_unknown_hidden_and_withheld_mail_are_the_same_failure(db: Database) -> None:
    """Each email has its own outcome, in order, and a failure tells nothing of what is there."""
    binding, other = await inbox(db), await inbox(db, alias="OTHER")
    await store(db, binding, message("readable"), message("buried"))
    await store(db, other, message("withheld"), first_uid=3)
    readable, buried, withheld = await ids(db)
    await execute(db, "UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE uid = 2")
    asked = [buried, readable, withheld, uuid4()]
    result = await read_contents(db, ids=asked, scope=scope(binding), now=NOW)
    assert [type(outcome).__name__ for outcome in result.outcomes] == [
        "ContentFailure",
        "EmailContent",
        "ContentFailure",
        "ContentFailure",
    ]
    failures = [outcome for outcome in result.outcomes if isinstance(outcome, ContentFailure)]
    assert {(type(one.error), str(one.error)) for one in failures} == {
        (EmailNotAccessible, "there is no readable email with that id")
    }
    assert [one.stored_email_id for one in failures] == [buried, withheld, asked[3]]
    await execute(db, "UPDATE stored_emails SET is_retained_after_authored_delete = true WHERE uid = 2")
    assert len(contents(await read_contents(db, ids=[buried], scope=scope(binding), now=NOW))) == 1


@pytest.mark.spec("SYNC-120", "SYNC-130", "DATA-22")
@pytest.mark.parametrize(
    ("damage", "defect"),
    [
        ("DELETE FROM email_message_contents WHERE stored_email_id = %s", "Missing"),
        ("UPDATE email_message_contents SET raw_mime = 'short' WHERE stored_email_id = %s", "ByteLengthMismatch"),
        (
            "UPDATE email_message_contents SET raw_mime = set_byte(raw_mime, 3, 7) WHERE stored_email_id = %s",
            "HashMismatch",
        ),
    ],
)
async def test_damaged_octets_are_told_and_one_repair_is_recorded(db: Database, damage: str, defect: str) -> None:
    """Concurrent reads of damaged content leave one request whose count is exact; other emails are still read."""
    binding = await inbox(db)
    await store(db, binding, message("secret subject"), message("fine"))
    broken, fine = await ids(db)
    await execute(db, damage, [broken])
    results = await asyncio.gather(
        *(read_contents(db, ids=[broken, fine], scope=scope(binding), now=NOW) for _ in range(4))
    )
    for result in results:
        failure, content = result.outcomes
        assert isinstance(failure, ContentFailure)
        assert isinstance(failure.error, StoredContentUnreadable)
        assert "secret" not in str(failure.error)
        assert isinstance(content, EmailContent)
    assert await rows(db, "SELECT stored_email_id, defect, request_count FROM email_content_repair_requests") == [
        (broken, defect, 4)
    ]


@pytest.mark.spec("SYNC-120", "SYNC-132")
async def test_content_that_was_never_stored_is_described_and_asks_no_repair(db: Database) -> None:
    """The header's facts, a reason in the body's place, counts absent."""
    binding = await inbox(db)
    header = raw("From: Ann <ann@example.com>\nTo: bo@example.com\nSubject: Film\n\n")
    await store_batch(
        db,
        binding,
        uid_validity=EPOCH,
        arrivals=[header_only(1, header), header_only(2, header, ContentAvailability.AWAITING_STORAGE_HEADROOM)],
        now=NOW,
    )
    found = contents(await read_contents(db, ids=await ids(db), scope=scope(binding), now=NOW))
    assert [one.body.state for one in found] == [
        BodyState.NOT_STORED_EXCEEDED_SIZE_LIMIT,
        BodyState.NOT_STORED_AWAITING_STORAGE_HEADROOM,
    ]
    assert (found[0].subject, found[0].attachments) == ("Film", None)
    assert (found[0].from_[0].address, found[0].to[0].address) == ("ann@example.com", "BO@EXAMPLE.COM")
    with pytest.raises(ContentNotStored):
        await raw_mime(db, found[0].stored_email_id, scope=scope(binding), now=NOW)
    assert await rows(db, "SELECT count(*) FROM email_content_repair_requests") == [(0,)]


@pytest.mark.spec("SYNC-132")
async def test_encrypted_body_is_named_as_such(db: Database) -> None:
    """An encrypted message with nothing readable is not an empty one."""
    binding = await inbox(db)
    await store(
        db,
        binding,
        raw(
            'Subject: s\nContent-Type: multipart/encrypted; protocol="application/pgp-encrypted"; boundary=b\n\n'
            "--b\nContent-Type: application/pgp-encrypted\n\nVersion: 1\n--b\n"
            "Content-Type: application/octet-stream\n\nsealed\n--b--\n"
        ),
    )
    (content,) = contents(await read_contents(db, ids=await ids(db), scope=scope(binding), now=NOW))
    assert (content.body.state, content.body.text) == (BodyState.ENCRYPTED_NOT_READABLE_LOCALLY, "")


@pytest.mark.spec("SYNC-133")
async def test_bounds_are_spent_in_order_text_before_html(db: Database) -> None:
    """One body meets its own bound, the next what is left of the read, the last gets empty text and says why."""
    binding = await inbox(db)
    text = "word " * 400
    await store(db, binding, *(message(f"{n}", body=text, html=f"<p>{text}</p>") for n in range(3)))
    options = ReadOptions(max_body_characters=1000, max_characters_per_read=2500, include_html=True)
    one, two, three = contents(
        await read_contents(db, ids=await ids(db), scope=scope(binding), now=NOW, options=options)
    )
    assert (len(one.body.text), one.body.truncation) == (1000, Truncation.BODY_CHARACTER_LIMIT)
    assert one.body.html is not None
    assert 0 < len(one.body.html) <= 1000
    assert one.body.is_html_truncated
    assert one.body.original_character_count >= 1999
    assert (two.body.truncation, two.body.html) == (Truncation.READ_CHARACTER_BUDGET, None)
    assert 0 < len(two.body.text) < 1000
    assert (three.body.text, three.body.truncation) == ("", Truncation.READ_CHARACTER_BUDGET)


@pytest.mark.spec("SYNC-134")
async def test_html_is_sanitized_and_only_given_on_request(db: Database) -> None:
    """No script, no remote source; nothing at all unless asked for."""
    binding = await inbox(db)
    await store(
        db, binding, message(body=None, html='<p onclick="x()">Hi<script>x()</script><img src="http://t/"></p>')
    )
    (plain,) = contents(await read_contents(db, ids=await ids(db), scope=scope(binding), now=NOW))
    assert plain.body.html is None
    options = ReadOptions(include_html=True)
    (content,) = contents(await read_contents(db, ids=await ids(db), scope=scope(binding), now=NOW, options=options))
    assert content.body.html is not None
    assert "Hi" in content.body.html
    assert not [bad for bad in ("script", "onclick", "http") if bad in content.body.html]


@pytest.mark.spec("SYNC-129")
async def test_conversation_is_read_in_order_and_its_overflow_named(db: Database) -> None:
    """The first ten in reading order, the rest as ids; an unknown conversation is empty."""
    binding = await inbox(db)
    await store(db, binding, *conversation(12))
    stored = await ids(db)
    thread_id = (await rows(db, "SELECT DISTINCT email_thread_id FROM stored_emails"))[0][0]
    result = await read_contents(db, thread_id=thread_id, scope=scope(binding), now=NOW)
    assert [one.stored_email_id for one in contents(result)] == stored[:10]
    assert (list(result.unread_ids), result.thread_id) == (stored[10:], thread_id)
    assert (await read_contents(db, thread_id=uuid4(), scope=scope(binding), now=NOW)).outcomes == ()


@pytest.mark.spec("SYNC-135", "SYNC-102")
async def test_octets_and_attachments_come_back_as_they_were(db: Database) -> None:
    """Raw octets unchanged; a file by its position; no such position is not accessible, nor is another scope's mail."""
    binding, other = await inbox(db), await inbox(db, alias="OTHER")
    mail = message(files=[File("a.txt", "text/plain", b"one\n"), File("b.bin", octets=bytes(range(256)))])
    await store(db, binding, mail)
    (key,) = await ids(db)
    assert await raw_mime(db, key, scope=scope(binding), now=NOW) == mail
    payload = await attachment(db, key, position=1, scope=scope(binding), now=NOW)
    assert (payload.file_name, payload.media_type, payload.octets) == (
        "b.bin",
        "application/octet-stream",
        bytes(range(256)),
    )
    for position, reader in ((2, binding), (-1, binding), (0, other)):
        with pytest.raises(EmailNotAccessible):
            await attachment(db, key, position=position, scope=scope(reader), now=NOW)


@pytest.mark.spec("SYNC-129", "SYNC-75")
async def test_reading_changes_no_row(db: Database) -> None:
    """Reading mail marks nothing as read."""
    binding = await inbox(db)
    await store(db, binding, message(), flags=Flags())
    state = "SELECT e.*, e.xmin, c.xmin FROM stored_emails e JOIN email_message_contents c ON c.stored_email_id = e.id"
    before = await rows(db, state)
    await read_contents(db, ids=await ids(db), scope=scope(binding), now=NOW)
    assert await rows(db, state) == before
