"""Typed queries over stored mail: every field, grouping, facets, and mail that resembles a message."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from support.mail import File, message
from support.stored import folder, settings_for, store

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import EmailNotAccessible, FilterRefused
from mailkeep.languages import LanguageStage
from mailkeep.mailbox import Flags, SpecialUse
from mailkeep.search import (
    Direction,
    FacetKind,
    Filters,
    Grouping,
    ListRequest,
    SearchRequest,
    SearchResult,
    list_emails,
    search_emails,
)
from mailkeep.stages import drain

pytestmark = pytest.mark.anyio
HOME = settings_for("home")
TWO = settings_for("home", "work")


def at(month: int, day: int) -> datetime:
    """Ten in the morning of a day in 2026."""
    return datetime(2026, month, day, 10, tzinfo=UTC)


async def search(db: Database, text: str, *, settings: Settings = HOME, **more: object) -> SearchResult:
    """Search everything readable."""
    return await search_emails(db, settings, SearchRequest(query_text=text, **more))  # type: ignore[arg-type]


async def found(db: Database, text: str, *, settings: Settings = HOME) -> set[str | None]:
    """The subjects of all that is found."""
    return {match.summary.subject for match in (await search(db, text, settings=settings)).matches}


async def fill(db: Database) -> None:
    """Six messages in three folders that differ in everything that the fields look at."""
    inbox = await folder(db, "home", special_use=SpecialUse.INBOX)
    trash = await folder(db, "home", "DELETED", special_use=SpecialUse.TRASH)
    junk = await folder(db, "home", "BULK", special_use=SpecialUse.JUNK)
    await store(
        db,
        inbox,
        [
            message(
                "Ferry", from_="Jürgen Lee <jl@boats.example>", to="Robin Roe <rr@home.example>",
                received_at=at(3, 2), body="The ferry leaves at noon.",
            ),
            message(
                "Invoice", from_="Bo <bo@shop.example>", to="rr@home.example", cc="Lee Marsh <lm@third.example>",
                received_at=at(3, 3), body="Ferry tickets. " + "x" * 5000,
            ),
        ],
        flags=Flags(seen=True, keywords=("WORK",)),
    )  # fmt: skip
    await store(
        db,
        inbox,
        [message("Plan", from_="Cy <cy@shop.example>", to="jl@boats.example", received_at=at(2, 1),
                 body="See the file.", files=[File("deck-plan.txt", "text/plain", b"upper deck")])],
        first_uid=10,
        flags=Flags(flagged=True, answered=True),
    )  # fmt: skip
    await store(
        db,
        inbox,
        [message("Draft", from_="rr@home.example", to="bo@shop.example", received_at=at(3, 4), body="Dear Bo")],
        first_uid=20,
        flags=Flags(draft=True, seen=True),
    )
    await store(
        db,
        trash,
        [message("Old", from_="Dee <dee@old.example>", to="rr@home.example", received_at=at(1, 1), body="ferry")],
    )
    await store(
        db,
        junk,
        [message("Win", from_="spam@bad.example", to="rr@home.example", received_at=at(3, 6), body="ferry prize")],
    )

    await drain([LanguageStage(db)], db, now=lambda: datetime.now(UTC))


FINDS = {
    "from:jl@boats.example": {"Ferry"},
    "from:lee": {"Ferry"},
    "from:jurgen": {"Ferry"},
    "from:jürgen": {"Ferry"},
    'from:"jürgen lee"': {"Ferry"},
    "from:jür*": {"Ferry"},
    "from:shop.example": {"Invoice", "Plan"},
    "from:@shop.example": {"Invoice", "Plan"},
    "-from:lee ferry": {"Invoice", "Old"},
    "from:lee OR from:cy": {"Ferry", "Plan"},
    "to:lee": {"Invoice"},
    "to:jl": {"Plan"},
    "to:robin": {"Ferry"},
    "to:rr@home.example": {"Ferry", "Invoice", "Old"},
    "cc:lm@third.example": {"Invoice"},
    "cc:third.example": {"Invoice"},
    "subject:ferry": {"Ferry"},
    "ferry": {"Ferry", "Invoice", "Old"},
    "ferry -subject:ferry": {"Invoice", "Old"},
    "subject:(ferry": {"Ferry"},
    "(subject:ferry OR tickets) noon": {"Ferry"},
    "in:inbox ferry": {"Ferry", "Invoice"},
    "in:deleted": {"Old"},
    "in:trash": {"Old"},
    "ferry -in:trash": {"Ferry", "Invoice"},
    "in:spam": {"Win"},
    "in:anywhere ferry": {"Ferry", "Invoice", "Old", "Win"},
    "in:nowhere ferry": set(),
    "is:unread": {"Plan", "Old"},
    "is:read ferry": {"Ferry", "Invoice"},
    "is:flagged": {"Plan"},
    "is:answered": {"Plan"},
    "-is:answered in:inbox": {"Ferry", "Invoice", "Draft"},
    "is:draft": {"Draft"},
    "has:attachment": {"Plan"},
    "filename:deck": {"Plan"},
    "filename:nothing": set(),
    "keyword:work": {"Ferry", "Invoice"},
    "larger:4k": {"Invoice"},
    "smaller:4k in:inbox": {"Ferry", "Plan", "Draft"},
    "before:2026-02 in:anywhere": {"Old"},
    "after:2026-03-03 before:2026-03-05": {"Invoice", "Draft"},
    "is:flagged OR is:draft": {"Plan", "Draft"},
    "-(is:flagged OR is:draft) in:inbox": {"Ferry", "Invoice"},
}


@pytest.mark.spec("FIND-35", "FIND-107")
async def test_every_field_finds_what_it_says(db: Database) -> None:
    """By sender, recipient, copy, subject, place, state, attachment, keyword, size and time, with exclusion and choice."""
    await fill(db)
    async with db.connection() as connection:
        await connection.execute(
            "INSERT INTO email_attachment_texts (stored_email_id, attachment_position, document_extracted_at, rule_version,"
            " attempt_count, last_attempt_at, file_name, name_vector, media_type, size_octets)"
            " SELECT id, 0, now(), 1, 1, now(), 'Deck-Plan.txt', '', 'text/plain', 1 FROM stored_emails WHERE subject = 'Plan'"
        )
    assert {text: await found(db, text) for text in FINDS} == FINDS


@pytest.mark.spec("FIND-107")
async def test_fields_alone_give_the_newest_first_with_their_count(db: Database) -> None:
    """Without a word there is nothing to rank by."""
    await fill(db)
    result = await search(db, "in:inbox", result_limit=2)
    assert [match.summary.subject for match in result.matches] == ["Draft", "Invoice"]
    assert (result.match_count.count, result.match_count.is_exact) == (4, True)
    assert [match.summary.subject for match in (await search(db, "from:shop.example")).matches] == ["Invoice", "Plan"]


@pytest.mark.spec("FIND-107", "FIND-1")
async def test_a_query_narrows_within_the_request_and_never_widens_it(db: Database) -> None:
    """Arguments and fields both hold; a field cannot reach a folder that the arguments left out."""
    await fill(db)
    await store(db, await folder(db, "work"), [message("Other", body="ferry")])
    result = await search(db, "ferry in:trash", settings=TWO, folders=("role:Inbox",))
    assert result.matches == ()
    assert await found(db, "ferry account:work", settings=TWO) == {"Other"}
    result = await search(db, "is:unread", settings=TWO, filters=Filters(sender_address="dee@old.example"))
    assert [match.summary.subject for match in result.matches] == ["Old"]


@pytest.mark.spec("FIND-35", "FIND-38")
async def test_a_query_that_asks_for_nothing_says_so(db: Database) -> None:
    """Nothing found because nothing was asked is told apart."""
    await fill(db)
    for text in ("*", "???", "()", "OR"):
        result = await search(db, text)
        assert result.asked_for_nothing
        assert result.matches == ()
    assert not (await search(db, "absent")).asked_for_nothing


async def test_too_many_branches_are_refused(db: Database) -> None:
    """A query is a condition of bounded size."""
    with pytest.raises(FilterRefused):
        await search(db, " OR ".join("is:read" for _ in range(65)))


@pytest.mark.spec("FIND-113")
async def test_copies_and_conversations_are_shown_as_one(db: Database) -> None:
    """Copies in two folders do not fill the window; a conversation is its best message, with the others named."""
    inbox, sent = await folder(db, "home"), await folder(db, "home", "SENT")
    first = message("Ferry", message_id="1@x", body="ferry ferry")
    reply = message("Re: Ferry", message_id="2@x", in_reply_to="1@x", body="the ferry it is")
    await store(db, inbox, [first, reply])
    await store(db, sent, [first, message("Else", message_id="3@x", body="a ferry")])
    plain = await search(db, "ferry")
    copies = await search(db, "ferry", grouping=Grouping.COPIES)
    conversations = await search(db, "ferry", grouping=Grouping.CONVERSATIONS)
    assert [len(result.matches) for result in (plain, copies, conversations)] == [4, 3, 2]
    assert {match.summary.subject: len(match.others) for match in copies.matches} == {
        "Ferry": 1,
        "Re: Ferry": 0,
        "Else": 0,
    }
    assert sorted(len(match.others) for match in conversations.matches) == [0, 2]
    assert conversations.match_count.count == 4


@pytest.mark.spec("FIND-113")
async def test_facets_count_the_ranked_messages_and_only_what_may_be_read(db: Database) -> None:
    """By sender, folder and month; junk that is not searched is not counted."""
    await fill(db)
    result = await search(db, "ferry", with_facets=True, result_limit=1)
    counts = {(facet.kind, facet.value): facet.count for facet in result.facets}
    assert counts == {
        (FacetKind.SENDER, "bo@shop.example"): 1,
        (FacetKind.SENDER, "dee@old.example"): 1,
        (FacetKind.SENDER, "jl@boats.example"): 1,
        (FacetKind.FOLDER, "home/INBOX"): 2,
        (FacetKind.FOLDER, "home/DELETED"): 1,
        (FacetKind.MONTH, "2026-03"): 2,
        (FacetKind.MONTH, "2026-01"): 1,
    }
    assert len(result.matches) == 1


@pytest.mark.spec("FIND-112")
async def test_more_like_this_finds_what_shares_its_rare_words(db: Database) -> None:
    """A message's rare words lead; itself and what shares only common words stay away or behind."""
    inbox = await folder(db, "home")
    await store(
        db,
        inbox,
        [
            message("Harbour dredging", body="The dredging of the harbour basin begins after the spring tide."),
            message("Tide tables", body="For the dredging we need the tide tables of the harbour basin."),
            *[message(f"Noise {n}", body="The of after begins we need for the.") for n in range(20)],
        ],
    )
    (seed,) = (await search(db, "subject:dredging")).matches
    alike = await search(db, "", like=seed.summary.stored_email_id)
    assert alike.matches[0].summary.subject == "Tide tables"
    assert seed.summary.stored_email_id not in [match.summary.stored_email_id for match in alike.matches]
    narrowed = await search(db, "subject:noise", like=seed.summary.stored_email_id)
    assert all(str(match.summary.subject).startswith("Noise") for match in narrowed.matches)
    with pytest.raises(EmailNotAccessible):
        await search(db, "", like=uuid4())


@pytest.mark.spec("FIND-24", "FIND-25")
async def test_a_cursor_knows_the_richer_filters(db: Database) -> None:
    """A listing by the new filters pages on, and its cursor fits no other filter."""
    await fill(db)
    wanted = ListRequest(
        filters=Filters(excluding=(Filters(is_remotely_answered=True),)), direction=Direction.OLDEST_FIRST, page_size=2
    )
    first = await list_emails(db, HOME, wanted)
    assert first.next_cursor is not None
    rest = await list_emails(
        db, HOME, ListRequest(filters=wanted.filters, direction=wanted.direction, cursor=first.next_cursor)
    )
    assert [email.subject for email in (*first.emails, *rest.emails)] == ["Old", "Ferry", "Invoice", "Draft"]
    with pytest.raises(Exception, match="other filters"):
        await list_emails(db, HOME, ListRequest(direction=wanted.direction, cursor=first.next_cursor))
