"""Attachments in search: found as one with their message, below its own words, and told by name and place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support import files
from support.mail import File, message
from support.stored import NOW, folder, settings_for, store

from mailkeep.db import Database
from mailkeep.derived import attachment_stage
from mailkeep.languages import LanguageStage
from mailkeep.search import Filters, Match, SearchRequest, search_emails
from mailkeep_message import Limits

pytestmark = pytest.mark.anyio
HOME = settings_for("home")
RECEIVED = datetime(2026, 3, 1, tzinfo=UTC)

ENGLISH = (
    "The tenants were painting the fences along the meadow and then they went to repair all of the older gates "
    "behind the house before the winter came."
)


async def filled(db: Database, *mails: bytes) -> None:
    """Store mail and run what follows arrival."""
    await store(db, await folder(db, "home"), mails)
    await LanguageStage(db).run_pass(NOW)
    await attachment_stage(db, HOME, limits=Limits()).run_pass(NOW)


async def found(db: Database, text: str, **filters: Any) -> list[Match]:
    """All matches of a query, best first."""
    request = SearchRequest(query_text=text, filters=Filters(**filters))
    return list((await search_emails(db, HOME, request)).matches)


def places(match: Match) -> list[tuple[int, str | None]]:
    """Where in the attachments it was found."""
    return [(hit.position, hit.file_name) for hit in match.found_in]


@pytest.mark.spec("FIND-105")
async def test_a_hit_in_an_attachment_names_it_with_an_extract(db: Database) -> None:
    """Name, place and surroundings of the words; the body contributes nothing that is not in it."""
    await filled(
        db,
        message("Papers", body="See attached.\n", files=[
            File("photo.jpg", "image/jpeg", b"\xff\xd8"),
            File("lease.pdf", "application/pdf", files.pdf("Cover", "The deposit is due in September.")),
        ]),
        message("Other", body="Nothing here.\n", files=[File("b.txt", "text/plain", b"no such thing")]),
    )  # fmt: skip
    (match,) = await found(db, "deposit september")
    assert (match.summary.subject, match.snippets, places(match)) == ("Papers", (), [(1, "lease.pdf")])
    (snippet,) = match.found_in[0].snippets
    assert "The **deposit** is due in **September**" in snippet


@pytest.mark.spec("FIND-103")
async def test_words_meet_across_subject_people_body_and_attachment(db: Database) -> None:
    """A person thinks of one message: who wrote, what about, what was attached."""
    await filled(
        db, message("Roof", from_="Jo Doe <jo@example.net>", body="As promised.\n",
                    files=[File("offer.docx", files.WORD, files.docx("Slate tiles and gutters"))]),
    )  # fmt: skip
    for query in ("jo gutters", "roof promised slate", "offer jo"):
        (match,) = await found(db, query)
        assert places(match) == [(0, "offer.docx")]
    assert await found(db, "roof -gutters") == []
    assert await found(db, "gutters -roof") == []
    assert len(await found(db, "gutters OR thatch")) == 1


@pytest.mark.spec("FIND-103")
async def test_a_word_of_the_message_itself_ranks_above_one_of_an_attachment(db: Database) -> None:
    """Even when the attachment holds it often and is newer; a file's name ranks above its text, often above once."""
    body = message("a", body="one violin\n", received_at=RECEIVED)
    name = message("b", body="-\n", received_at=RECEIVED, files=[File("violin.bin", "application/octet-stream", b"\0")])
    text = message(
        "c",
        body="-\n",
        received_at=RECEIVED + timedelta(days=9),
        files=[File("x.txt", "text/plain", b"violin " * 50)],
    )
    once = message(
        "d", body="-\n", received_at=RECEIVED + timedelta(days=10), files=[File("y.txt", "text/plain", b"violin")]
    )
    await filled(db, text, name, body, once)
    matches = await found(db, "violin")
    assert [match.summary.subject for match in matches] == ["a", "b", "c", "d"]
    assert [places(match) for match in matches] == [[], [(0, "violin.bin")], [(0, "x.txt")], [(0, "y.txt")]]
    assert matches[1].found_in[0].snippets == ()


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ("花見", "**花見**"),
        ("上野公園", "**上野公園**"),
        ("園", "**園**"),
        ("timeta*", "**timetable**"),
        ('"winter timetable"', "**winter** **timetable**"),
        ("invoice-4711", "**invoice**"),
        ("muller", None),
        ("fence", "**fences**"),
        ("paint", "**painting**"),
    ],
)
@pytest.mark.spec("FIND-103")
async def test_scripts_prefixes_phrases_accents_and_stems_work_in_attachments(
    db: Database, query: str, marked: str | None
) -> None:
    """What works in a body works in a file."""
    text = f"{ENGLISH}\nwinter timetable\ninvoice-4711 for Müller\n来週の土曜日、上野公園で花見をしませんか。\n"
    await filled(
        db,
        message("Files", body=f"{ENGLISH}\n".replace("fences", "walls").replace("painting", "building"),
                files=[File("a.txt", "text/plain", text.encode())]),
    )  # fmt: skip
    (match,) = await found(db, query)
    assert places(match) == [(0, "a.txt")]
    if marked is not None:
        assert any(marked in snippet for snippet in match.found_in[0].snippets), match.found_in


@pytest.mark.parametrize("query", ["rechnung", "2026", "請求", "rechnung_mai", "rechnung_mai-2026.pdf"])
@pytest.mark.spec("FIND-103")
async def test_names_of_attachments_are_found_by_their_parts(db: Database, query: str) -> None:
    """Also of files that nothing can be read from."""
    await filled(
        db,
        message("x", files=[File("rechnung_mai-2026.pdf", "application/pdf", b"broken"),
                            File("請求書.png", "image/png", b"\x89")]),
    )  # fmt: skip
    (match,) = await found(db, query)
    assert places(match) == [(1, "請求書.png") if query == "請求" else (0, "rechnung_mai-2026.pdf")]


@pytest.mark.spec("FIND-105")
async def test_an_attachment_that_holds_everything_is_named_alone(db: Database) -> None:
    """Where some file has all the words, files with one of them are no answer; at most two are named."""
    await filled(
        db,
        message("Trip", body="About the island.\n", files=[
            File("one.txt", "text/plain", b"island"),
            File("both.txt", "text/plain", b"island and ferry"),
            File("more.txt", "text/plain", b"ferry to the island"),
            File("most.txt", "text/plain", b"the island ferry"),
        ]),
    )  # fmt: skip
    (match,) = await found(db, "island ferry")
    assert len(match.found_in) == 2
    assert {hit.file_name for hit in match.found_in} <= {"both.txt", "more.txt", "most.txt"}


@pytest.mark.spec("FIND-105")
async def test_nothing_is_named_when_the_message_itself_answers(db: Database) -> None:
    """A common word of a file is not shown as the reason when body and subject hold the whole query."""
    await filled(db, message("Ferry", body="To the island.\n", files=[File("a.txt", "text/plain", b"island")]))
    (match,) = await found(db, "ferry island")
    assert (match.found_in, len(match.snippets)) == ((), 1)


@pytest.mark.spec("FIND-103")
async def test_filters_meet_attachments_too(db: Database) -> None:
    """Entering by a filter reads the same words as entering by the index."""
    await filled(
        db,
        message("a", from_="Jo <jo@example.net>", files=[File("a.txt", "text/plain", b"harbour")]),
        message("b", files=[File("b.txt", "text/plain", b"harbour")]),
    )
    (match,) = await found(db, "harbour", sender_address="jo@example.net")
    assert (match.summary.subject, places(match)) == ("a", [(0, "a.txt")])


@pytest.mark.spec("FIND-42")
async def test_reserved_marks_in_a_file_forge_no_highlight(db: Database) -> None:
    """Control characters never reach the store, so a file cannot mark words itself."""
    await filled(db, message("x", files=[File("a.txt", "text/plain", b"harbour \x02forged\x03 tide")]))
    (match,) = await found(db, "harbour")
    assert match.found_in[0].snippets == ("**harbour** forged tide",)
