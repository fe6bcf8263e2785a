"""Lexical search over stored mail: what is found, in which order, with which extracts."""

from __future__ import annotations

import pytest
from support.mail import File, message
from support.stored import folder, settings_for, store

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.errors import FilterRefused, ResultLimitRefused
from mailkeep.search import Filters, RetrievalMode, SearchRequest, SearchResult, SemanticSearch, search_emails
from mailkeep.search.queries import FolderNames, Selection, read_summaries

pytestmark = pytest.mark.anyio
HOME = settings_for("home")


async def search(db: Database, text: str, *, settings: Settings = HOME, limit: int = 20) -> SearchResult:
    """Search everything readable."""
    return await search_emails(db, settings, SearchRequest(query_text=text, result_limit=limit))


async def subjects(db: Database, text: str) -> set[str | None]:
    """The subjects of all that is found."""
    return {match.summary.subject for match in (await search(db, text)).matches}


@pytest.mark.parametrize("text", ["ann", "ANN", "lee", '"ann lee"', "ann@example.com", "example.com", "example", "an*"])
async def test_people_are_found_by_name_address_and_parts(db: Database, text: str) -> None:
    """`ann` finds Ann Lee and ann@example.com; a stranger's message is not found."""
    await store(
        db,
        await folder(db, "home"),
        [
            message("First", from_="Ann Lee <ann@example.com>", to="robin@other.test", body="Plain."),
            message("Second", from_="Bo <bo@third.test>", to="robin@other.test", body="Plain."),
        ],
    )
    assert await subjects(db, text) == {"First"}


@pytest.mark.case("191")
@pytest.mark.parametrize("text", ["快乐", "新年快乐", "乐", "祝", '"新年快乐"', "年快", "快乐*"])
async def test_cjk_is_found_at_any_length_and_shown(db: Database, text: str) -> None:
    """A query of one character or many finds the run it lies in, in the body, and the extract marks it."""
    await store(
        db,
        await folder(db, "home"),
        [message("One", body="祝你们新年快乐，万事如意。"), message("Two", body="明天下雨。")],
    )
    result = await search(db, text)
    assert [match.summary.subject for match in result.matches] == ["One"]
    assert any("**" in snippet for snippet in result.matches[0].snippets)


@pytest.mark.case("191")
async def test_cjk_is_found_in_the_subject_and_in_names(db: Database) -> None:
    """Subject and people are searched like the body."""
    await store(
        db,
        await folder(db, "home"),
        [message("東京タワーの写真", body="x"), message("Two", from_="山田太郎 <y@example.jp>", body="x")],
    )
    assert await subjects(db, "タワー") == {"東京タワーの写真"}
    assert await subjects(db, "太郎") == {"Two"}


@pytest.mark.case("193")
async def test_a_star_finds_the_beginnings_of_words(db: Database) -> None:
    """`licen*` finds license, licensed and licence."""
    bodies = ["a license", "is licensed", "my licence", "a list"]
    await store(db, await folder(db, "home"), [message(body, body=body) for body in bodies])
    assert await subjects(db, "licen*") == set(bodies[:3])


@pytest.mark.case("188")
async def test_an_over_long_link_is_found_by_its_beginning(db: Database) -> None:
    """PostgreSQL drops a word over 2,047 octets; its beginning still leads to the message."""
    link = "https://files.example.net/share/quarterly/" + "Q" * 6000
    await store(db, await folder(db, "home"), [message("Long", body=f"See {link} please."), message("Other")])
    for text in (link[:60], link[:400], "https://files.example.net/share/quart", "quarterly"):
        assert await subjects(db, text) == {"Long"}, text


@pytest.mark.spec("FIND-35")
async def test_operators_combine_words(db: Database) -> None:
    """Words are all required, OR is either, a minus excludes, quotes keep the order."""
    bodies = ["red apple", "green apple", "apple red", "pear"]
    await store(db, await folder(db, "home"), [message(body, body=body) for body in bodies])
    assert await subjects(db, "apple red") == {"red apple", "apple red"}
    assert await subjects(db, '"red apple"') == {"red apple"}
    assert await subjects(db, "pear OR green") == {"pear", "green apple"}
    assert await subjects(db, "apple -red") == {"green apple"}
    assert await subjects(db, "-apple") == {"pear"}


@pytest.mark.spec("FIND-35")
@pytest.mark.parametrize(
    "text",
    [
        "apple' OR '1'='1",
        "apple & ! | ( ) <->",
        "apple:*B <2> 'x",
        "apple\\",
        '"apple',
        "apple*'; DROP TABLE email_search_documents; --",
        "'apple':*",
        "%s %(x)s apple",
    ],
)
async def test_hostile_query_text_is_words(db: Database, text: str) -> None:
    """Nothing typed is query or SQL syntax beyond the four operators; nothing fails and nothing is harmed."""
    await store(db, await folder(db, "home"), [message("One", body="apple")])
    await search(db, text)
    assert await subjects(db, "apple") == {"One"}


@pytest.mark.spec("FIND-35", "FIND-38")
async def test_a_query_without_a_word_matches_nothing(db: Database) -> None:
    """Punctuation alone is an ordinary empty result that carries mode, capability and freshness."""
    await store(db, await folder(db, "home"), [message("One")])
    for text in ("!!! ...", "-", "absentword"):
        result = await search(db, text)
        assert result.matches == ()
        assert result.match_count.count == 0
        assert result.retrieval_mode is RetrievalMode.LEXICAL
        assert result.semantic_search is SemanticSearch.INACTIVE
        assert [entry.folder_alias for entry in result.folder_freshness] == ["INBOX"]


@pytest.mark.spec("FIND-35")
@pytest.mark.parametrize("text", ["", "   ", "x" * 513, "a\x00b", "a\nb", "a\ud800b"])
async def test_query_text_out_of_bounds_is_refused(db: Database, text: str) -> None:
    """Blank, over 512 characters, control characters: 51002, and the value is not repeated."""
    with pytest.raises(FilterRefused) as refusal:
        await search(db, text)
    assert "xxx" not in str(refusal.value)


@pytest.mark.spec("FIND-36")
@pytest.mark.parametrize("limit", [0, 51, -1])
async def test_result_limit_out_of_bounds_is_refused(db: Database, limit: int) -> None:
    """1 to 50; never clamped."""
    with pytest.raises(ResultLimitRefused):
        await search(db, "x", limit=limit)


@pytest.mark.spec("FIND-37")
async def test_subject_outranks_people_and_people_outrank_the_body(db: Database) -> None:
    """The weights A, B and D order equal matches, and the same request gives the same sequence."""
    await store(
        db,
        await folder(db, "home"),
        [
            message("In body", body="zephyr"),
            message("In name", from_="Zephyr Jones <z@example.com>", body="plain"),
            message("Zephyr", body="plain"),
        ],
    )
    first = await search(db, "zephyr")
    assert [match.summary.subject for match in first.matches] == ["Zephyr", "In name", "In body"]
    assert [m.relevance_rank for m in first.matches] == sorted((m.relevance_rank for m in first.matches), reverse=True)
    assert await search(db, "zephyr") == first


@pytest.mark.spec("FIND-43")
async def test_a_match_outside_the_body_has_no_snippet(db: Database) -> None:
    """The opening of a body that did not match is not shown as if it had."""
    await store(db, await folder(db, "home"), [message("Zephyr", body="plain words of the body")])
    (match,) = (await search(db, "zephyr")).matches
    assert match.snippets == ()


@pytest.mark.spec("FIND-41", "FIND-42", "FIND-44", "FIND-45")
async def test_snippets_keep_the_operator_s_bounds(db: Database) -> None:
    """At most the configured count and length, an endless word cut with an ellipsis, the highlight closed."""
    filler = " ".join(f"w{n}" for n in range(200))
    body = f"needle {filler} needle {filler} needle {filler} needle\n\n{'needle' + 'x' * 1_500}"
    await store(db, await folder(db, "home"), [message("Long", body=body)])
    tight = settings_for("home", mailbox_search={"snippets_per_email": 2, "words_per_snippet": 6})
    (match,) = (await search(db, "needle", settings=tight)).matches
    assert len(match.snippets) == 2
    assert all(snippet.count("**") == 2 and len(snippet.split()) <= 6 for snippet in match.snippets)
    (match,) = (await search(db, "needlex*", settings=tight)).matches
    assert all(len(snippet.replace("**", "")) <= 6 * 64 + 1 and snippet.endswith("…") for snippet in match.snippets)
    assert all(snippet.count("**") == 2 for snippet in match.snippets)


@pytest.mark.spec("FIND-42")
async def test_printed_stars_in_mail_are_no_highlight(db: Database) -> None:
    """A fragment counts as matching by the control marks, not by stars that mail may print."""
    await store(db, await folder(db, "home"), [message("Zephyr", body="**bold** words without the query's word")])
    (match,) = (await search(db, "zephyr")).matches
    assert match.snippets == ()


@pytest.mark.spec("FIND-41")
async def test_a_word_far_inside_a_long_body_is_shown(db: Database) -> None:
    """The headline reads a bounded part of the body, around the first place of the word."""
    body = "\n".join(f"line {n} of a long report" for n in range(3000)) + "\nthe needle at last\n"
    await store(db, await folder(db, "home"), [message("Report", body=body)])
    (match,) = (await search(db, "needle")).matches
    assert any("**needle**" in snippet for snippet in match.snippets)


@pytest.mark.spec("FIND-34")
async def test_quoted_text_and_attachments_are_not_searched(db: Database) -> None:
    """Only the trimmed body is indexed; the words of a quotation and of a file find nothing."""
    mail = message(
        "Answer", body="Agreed.\n\n> the quotedword of before\n", files=[File("a.txt", "text/plain", b"filedword")]
    )
    await store(db, await folder(db, "home"), [mail])
    assert await subjects(db, "agreed") == {"Answer"}
    assert await subjects(db, "quotedword OR filedword") == set()


@pytest.mark.spec("FIND-39")
async def test_a_match_that_left_the_selection_before_it_was_shown_is_dropped(db: Database) -> None:
    """Summaries re-apply the whole selection: what was expunged between ranking and reading is not in the window."""
    binding = await folder(db, "home")
    await store(db, binding, [message("Kept", body="zephyr"), message("Gone", body="zephyr")])
    names = FolderNames(binding.account_id, "Home", "INBOX")
    async with db.connection() as connection:
        rows = await (await connection.execute("SELECT id, subject FROM stored_emails")).fetchall()
        await connection.execute("UPDATE stored_emails SET remote_expunge_observed_at = now() WHERE subject = 'Gone'")
        for folders, expected in (({binding.folder_id: names}, {"Kept"}), ({}, set())):
            found = await read_summaries(connection, Selection(folders, Filters()), [row[0] for row in rows])
            assert {summary.subject for summary in found.values()} == expected


@pytest.mark.case("182")
async def test_control_characters_never_reach_the_document(db: Database) -> None:
    """A NUL in subject and body neither refuses the row nor forges a mark."""
    octets = b"From: a@example.com\r\nSubject: nul\x00led \x01f1\r\n\r\nbody\x00word \x01w2948\r\n"
    await store(db, await folder(db, "home"), [octets])
    assert len((await search(db, "bodyword")).matches) == 1
