"""Stems, accents and scripts over stored mail: what a search finds once the stage `languages` ran, and how it runs."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
from support.mail import message
from support.stored import folder, settings_for, store

from mailkeep.db import Database
from mailkeep.languages import LanguageStage
from mailkeep.languages import queries as queries_module
from mailkeep.languages import stage as stage_module
from mailkeep.mailbox import AccountId, rederive_pass, request_rederivation
from mailkeep.preparation import DEFAULT_LIMITS
from mailkeep.search import Match, SearchRequest, search_emails
from mailkeep.stages import StageCounts, drain

pytestmark = pytest.mark.anyio
HOME = settings_for("home")
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)

ENGLISH = "We kept running along the harbour with both dogs and then sat down to eat at the old pier."
GERMAN = "Die Häuser am Fluss sind alle verkauft, wir sollten uns bald die anderen Wohnungen ansehen."


def now() -> datetime:
    return NOW


async def derive(db: Database) -> None:
    """Run the stage to its end."""
    (result,) = await drain([LanguageStage(db)], db, now=now)
    assert result.error is None


async def found(db: Database, text: str) -> tuple[Match, ...]:
    """All matches of a query."""
    return (await search_emails(db, HOME, SearchRequest(query_text=text))).matches


async def subjects(db: Database, text: str) -> set[str | None]:
    """The subjects of all that is found."""
    return {match.summary.subject for match in await found(db, text)}


async def scalar(db: Database, statement: str) -> Any:
    """One value of one row."""
    async with db.connection() as connection:
        row = await (await connection.execute(statement)).fetchone()
    assert row is not None
    return row[0]


FORMS = [
    (ENGLISH, "run", "**running**"),
    (ENGLISH, "dog", "**dogs**"),
    (ENGLISH, "runs", "**running**"),
    (GERMAN, "Haus", "**Häuser**"),
    (GERMAN, "wohnung", "**Wohnungen**"),
    (
        "Nous avons reçu les dernières factures de la maison et les avons payées hier soir.",
        "facture",
        "**factures**",
    ),
    ("Завтра утром мы получим новые книги из городской библиотеки и сразу начнём читать.", "книга", "**книги**"),
]


@pytest.mark.spec("FIND-108")
async def test_other_forms_of_a_word_are_found_in_the_mail_s_own_language(db: Database) -> None:
    """`run` finds `running` in an English message, `Haus` finds `Häuser` in a German one, and the extract marks it."""
    bodies = list(dict.fromkeys(body for body, _, _ in FORMS))
    mails = [message(f"Body {at}", body=body) for at, body in enumerate(bodies)]
    await store(db, await folder(db, "home"), [*mails, message("Other", body="Kwz qqq 12 345.")])
    assert [await subjects(db, query) for _, query, _ in FORMS] == [set()] * len(FORMS)
    await derive(db)
    for body, query, marked in FORMS:
        (match,) = await found(db, query)
        assert match.summary.subject == f"Body {bodies.index(body)}"
        assert any(marked in snippet for snippet in match.snippets), query


@pytest.mark.spec("FIND-108")
async def test_a_stem_of_one_language_meets_no_word_of_another(db: Database) -> None:
    """The English stem of `dies` and `died` is `die`, which in German mail is only an article."""
    await store(
        db,
        await folder(db, "home"),
        [
            message("English", body="The old oak in front of the church may die before the winter, says the gardener."),
            message("German", body=GERMAN),
        ],
    )
    await derive(db)
    assert await subjects(db, "died") == {"English"}
    assert await subjects(db, "die") == {"English", "German"}


@pytest.mark.spec("FIND-108")
async def test_exact_words_rank_before_other_forms_and_quotes_ask_for_the_exact_form(db: Database) -> None:
    """Whoever types `running` sees it first; in quotes only it."""
    filler = "We talked about it for a while in the garden and then everybody went home before the rain came."
    await store(
        db,
        await folder(db, "home"),
        [message("Form", body=f"They run. {filler}"), message("Exact", body=f"They were running. {filler}")],
    )
    await derive(db)
    assert [match.summary.subject for match in await found(db, "running")] == ["Exact", "Form"]
    assert await subjects(db, '"running"') == {"Exact"}
    assert await subjects(db, "everybody -run") == set()


ACCENTS = [
    ("über", "uber"), ("uber", "über"), ("Müller", "mueller"), ("Mueller", "müller"), ("Straße", "strasse"),
    ("naïveté", "naivete"), ("Ærøskøbing", "aeroskobing"), ("Łódź", "lodz"), ("čeština", "cestina"),
    ("résumé", "resume"), ("résumé", "résumé"), ("ΆΝΕΜΟΣ", "ανεμος"), ("أحمد", "احمد"),
    ("ещё", "еще"), ("I\u0301ris", "íris"), ("Nguyễn", "nguyen"),
]  # fmt: skip


@pytest.mark.spec("FIND-109")
async def test_accents_are_found_with_and_without(db: Database) -> None:
    """A word is found with its accents, without them, and with the letters that stand in for them; and it is shown."""
    mails = [message(written, from_="bo@third.test", body=f"Kwz {written} xqj.") for written, _ in ACCENTS]
    await store(db, await folder(db, "home"), mails)
    await derive(db)
    for written, typed in ACCENTS:
        shown = {
            unicodedata.normalize("NFC", match.summary.subject or ""): match.snippets
            for match in await found(db, typed)
        }
        assert "**" in shown[unicodedata.normalize("NFC", written)][0]


async def test_arabic_is_found_without_its_vowel_signs(db: Database) -> None:
    """Vowel signs are written by few and typed by fewer."""
    await store(db, await folder(db, "home"), [message("One", body="Kwz مُحَمَّد xqj."), message("Two", body="Kwz xqj.")])
    await derive(db)
    assert await subjects(db, "محمد") == {"One"}


async def test_accents_are_folded_in_subjects_and_names(db: Database) -> None:
    """`jurgen` finds Jürgen as an author, `uberraschung` the subject."""
    await store(
        db,
        await folder(db, "home"),
        [
            message("Überraschung", body="x"),
            message("Two", from_="=?utf-8?q?J=C3=BCrgen?= <j@example.com>", body="x"),
        ],
    )
    await derive(db)
    assert await subjects(db, "uberraschung") == {"Überraschung"}
    assert await subjects(db, "jurgen") == {"Two"}


@pytest.mark.spec("FIND-109")
@pytest.mark.case("191")
async def test_thai_words_are_found_inside_their_runs(db: Database) -> None:
    """Thai writes no blanks between words either."""
    await store(
        db,
        await folder(db, "home"),
        [message("One", body="สวัสดีครับ พรุ่งนี้ประชุมสิบโมงเช้า"), message("Two", body="ขอบคุณมากครับ")],
    )
    for typed in ("ประชุม", "พรุ่งนี้", '"ประชุมสิบโมง"', "สิบ"):
        (match,) = await found(db, typed)
        assert match.summary.subject == "One"
        assert "**" in match.snippets[0]


@pytest.mark.spec("FIND-109")
async def test_picture_signs_are_found(db: Database) -> None:
    """An emoji is a word; its colour and form do not matter, and a flag is one sign."""
    await store(
        db,
        await folder(db, "home"),
        [
            message("Party", body="There will be cake 🎉🎉 on Friday."),
            message("Thumb", body="Fine 👍🏽"),
            message("Flag", body="Travelling 🇩🇪 next week, not 🇫🇷."),
        ],
    )
    await derive(db)
    for typed, subject in (("🎉", "Party"), ("👍", "Thumb"), ("🇩🇪", "Flag"), ("cake 🎉", "Party")):
        (match,) = await found(db, typed)
        assert match.summary.subject == subject
        assert "**" in match.snippets[0]


PARTS = [
    "report", "spring-report.pdf", "files.example.org", "example.org", "https://files.example.org/2026/spring-report.pdf",
    "ann.lee", "lee", "ann.lee@mail.example.com", "mail.example.com", f"https://t.example/{'a' * 60}",
]  # fmt: skip


@pytest.mark.case("188")
async def test_links_addresses_and_over_long_tokens_are_found_by_their_parts(db: Database) -> None:
    """Whatever part of a link or address one remembers finds it; so does the start of a token of 3,000 letters."""
    body = (
        "See https://files.example.org/2026/spring-report.pdf or write to ann.lee@mail.example.com "
        f"https://t.example/{'a' * 3000}"
    )
    stranger = message("Two", from_="bo@third.test", to="cy@third.test", body="Nothing.")
    await store(
        db, await folder(db, "home"), [message("One", from_="bo@third.test", to="cy@third.test", body=body), stranger]
    )
    await derive(db)
    assert [await subjects(db, typed) for typed in PARTS] == [{"One"}] * len(PARTS)


@pytest.mark.spec("FIND-110")
async def test_the_stage_goes_on_where_it_was_killed_and_new_rules_begin_anew(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is outstanding is a question to the database: nothing is lost, nothing done twice, all redone by new rules."""
    await store(db, await folder(db, "home"), [message(f"Mail {n}", body=ENGLISH) for n in range(5)])
    stage = LanguageStage(db, pass_documents=2)
    first = await stage.run_pass(NOW)
    assert (first.done, first.has_more) == (2, True)
    assert await stage.count() == StageCounts(done=2, outstanding=3, failed=0)
    (result,) = await drain([LanguageStage(db, pass_documents=2)], db, now=now)
    assert result.done == 3
    assert await scalar(db, "SELECT count(*) FROM email_search_documents WHERE language = 'en'") == 5
    monkeypatch.setattr(stage_module, "RULES", stage_module.RULES + 1)
    assert (await stage.count()).outstanding == 5


@pytest.mark.spec("FIND-110")
async def test_reading_mail_again_makes_its_language_outstanding(db: Database) -> None:
    """Stems belong to the words they were made from."""
    await store(db, await folder(db, "home"), [message("One", body=ENGLISH)])
    await derive(db)
    run = await request_rederivation(db, AccountId("home"), alias=None, now=NOW)
    await rederive_pass(db, run, limits=DEFAULT_LIMITS, now=now)
    assert await LanguageStage(db).count() == StageCounts(done=0, outstanding=1, failed=0)
    assert await scalar(db, "SELECT language FROM email_search_documents") is None
    await derive(db)
    assert await subjects(db, "run") == {"One"}


@pytest.mark.spec("FIND-110")
async def test_a_document_with_too_many_words_is_passed_by_with_its_reason(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stems of a text near the vector's limit would not fit; it keeps its words, and the failure goes with the mail."""
    monkeypatch.setattr(queries_module, "LARGEST_VECTOR_OCTETS", 20_000)
    words = " ".join(f"{n:05d}abcdefghijkl" for n in range(2_000))
    await store(db, await folder(db, "home"), [message("Huge", body=words), message("Small", body=ENGLISH)])
    (result,) = await drain([LanguageStage(db)], db, now=now)
    assert (result.done, result.failed) == (1, 1)
    assert await LanguageStage(db).count() == StageCounts(done=1, outstanding=0, failed=1)
    assert await scalar(db, "SELECT reason FROM email_language_failures") == "TooManyWords"
    assert await subjects(db, "00007abcdefghijkl") == {"Huge"}
    async with db.connection() as connection:
        await connection.execute("DELETE FROM stored_emails")
    assert await scalar(db, "SELECT count(*) FROM email_language_failures") == 0


@pytest.mark.spec("FIND-110")
async def test_one_refused_row_is_isolated(db: Database) -> None:
    """When PostgreSQL refuses what one document would become, the others of its pass are written."""
    await store(db, await folder(db, "home"), [message(f"Mail {n}", body=ENGLISH) for n in range(3)])
    async with db.connection() as connection:
        await connection.execute(
            "ALTER TABLE email_search_documents ADD CONSTRAINT odd CHECK (subject_text <> 'Mail 1' OR language IS NULL)"
        )
    (result,) = await drain([LanguageStage(db)], db, now=now)
    assert (result.done, result.failed) == (2, 1)
    assert await scalar(db, "SELECT reason FROM email_language_failures") == "RefusedByDatabase"


async def test_documents_from_before_these_rules_get_their_terms_anew(db: Database) -> None:
    """An upgraded store finds Thai inside old mail after one run of the stage."""
    await store(db, await folder(db, "home"), [message("One", body="พรุ่งนี้ประชุมสิบโมงเช้า")])
    async with db.connection() as connection:
        await connection.execute("UPDATE email_search_documents SET body_terms = NULL, language_rules = -1")
    assert await subjects(db, "ประชุม") == set()
    await derive(db)
    assert await subjects(db, "ประชุม") == {"One"}
