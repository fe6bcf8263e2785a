"""The stage `passages` on stored mail: what is cut, when again, and what is left alone."""

from __future__ import annotations

import pytest
from support.embedding import Machine, endpoint, settings_with
from support.mail import message
from support.store import rows
from support.stored import folder, store

from mailkeep.db import Database
from mailkeep.passages import cutting

pytestmark = pytest.mark.anyio
LONG = "A sentence of forty characters, or so it is. " * 60


async def passages(db: Database) -> list[tuple[object, ...]]:
    return await rows(db, "SELECT id, stored_email_id, ordinal, content_hash FROM email_chunks ORDER BY 2, 3")


@pytest.mark.spec("FIND-54", "FIND-56")
async def test_passages_stand_in_the_stored_text_where_they_say(db: Database) -> None:
    """Ordinals count from 0, offsets count characters of the trimmed body, the lossy marker follows its source."""
    mails = [message("Plain", body=LONG), message("Web", body=None, html=f"<p>{LONG}</p>")]
    await store(db, await folder(db, "home"), mails)
    await Machine(db, settings_with(endpoint())).cut()
    found = await rows(
        db,
        "SELECT e.subject, c.ordinal, c.text = substr(d.body_text, c.start_offset + 1, length(c.text)),"
        " c.is_derived_from_lossy_html FROM email_chunks c JOIN stored_emails e ON e.id = c.stored_email_id"
        " JOIN email_search_documents d ON d.stored_email_id = e.id ORDER BY 1, 2",
    )
    assert [(subject, lossy) for subject, ordinal, _, lossy in found if ordinal == 0] == [
        ("Plain", False),
        ("Web", True),
    ]
    assert len(found) > 4
    assert all(stands for _, _, stands, _ in found)


@pytest.mark.spec("FIND-58")
async def test_cutting_the_same_text_again_writes_nothing(db: Database) -> None:
    """A message read anew with the same text keeps its passages and so their vectors; another text replaces all."""
    await store(db, await folder(db, "home"), [message("One", body=LONG)])
    machine = Machine(db, settings_with(endpoint()))
    await machine.build()
    before = await passages(db)
    await rows(db, "UPDATE email_search_documents SET extracted_at = extracted_at + interval '1 s' RETURNING 1")
    machine.clock.move(minutes=16)
    assert (await machine.cut()).done == 1
    assert await passages(db) == before
    await rows(
        db,
        "UPDATE email_search_documents SET extracted_at = extracted_at + interval '1 s', body_text = 'New ' || body_text"
        " RETURNING 1",
    )
    machine.clock.move(minutes=16)
    await machine.cut()
    after = await passages(db)
    assert not {one[0] for one in before} & {one[0] for one in after}
    assert await rows(db, "SELECT count(*) FROM email_embeddings") == [(0,)]


@pytest.mark.spec("FIND-57")
async def test_new_rules_cut_everything_again(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A raised version is outstanding for all mail, and every hash differs."""
    await store(db, await folder(db, "home"), [message("One", body=LONG)])
    await Machine(db, settings_with(endpoint())).cut()
    before = {one[3] for one in await passages(db)}
    from dataclasses import replace

    from mailkeep.passages import queries, stage

    rules = replace(cutting.RULES, version=2)
    monkeypatch.setattr(queries, "VERSION", 2)
    monkeypatch.setattr(stage, "cut", lambda text, *, is_lossy: cutting.cut(text, is_lossy=is_lossy, rules=rules))
    assert (await Machine(db, settings_with(endpoint())).cut()).done == 1
    assert before.isdisjoint(one[3] for one in await passages(db))


@pytest.mark.spec("FIND-59")
async def test_the_ceiling_is_noted_and_moving_it_reaches_only_what_it_cuts(db: Database) -> None:
    """The full length is kept while a text is cut in part; a short message is not cut again when the ceiling moves."""
    await store(db, await folder(db, "home"), [message("Short", body="Hello."), message("Long", body=LONG)])
    await Machine(db, settings_with(endpoint(), max_characters_per_email=1000)).cut()
    length = "SELECT subject, chunked_text_truncated_from_character_count FROM stored_emails ORDER BY 1"
    full = (await rows(db, "SELECT max(length(body_text)) FROM email_search_documents"))[0][0]
    assert await rows(db, length) == [("Long", full), ("Short", None)]
    assert (await rows(db, "SELECT max(start_offset + length(text)) FROM email_chunks"))[0][0] <= 1000
    moved = Machine(db, settings_with(endpoint()))
    assert (await moved.cut()).done == 1
    assert await rows(db, length) == [("Long", None), ("Short", None)]


@pytest.mark.spec("FIND-60")
async def test_a_body_that_cannot_be_read_any_more_keeps_its_passages(db: Database) -> None:
    """It is counted as impossible with its reason; encrypted and empty bodies have none."""
    await store(db, await folder(db, "home"), [message("One", body=LONG), message("Empty", body="")])
    machine = Machine(db, settings_with(endpoint()))
    await machine.cut()
    before = await passages(db)
    assert before
    await rows(
        db,
        "UPDATE email_search_documents SET text_source = 'BodyNotExtracted', body_text = NULL,"
        " extracted_at = extracted_at + interval '1 s' WHERE subject_text = 'One' RETURNING 1",
    )
    machine.clock.move(minutes=16)
    assert (await machine.cut()).failed == 1
    assert await passages(db) == before
    assert (await machine.passages.count()).failed == 1
    assert await rows(db, "SELECT failure FROM email_passage_cuts ORDER BY 1 NULLS LAST") == [
        ("BodyNotExtracted",),
        (None,),
    ]


@pytest.mark.spec("FIND-60")
async def test_a_pass_is_bounded_and_the_next_one_goes_on(db: Database) -> None:
    """Fresh processes find what is left; nothing is cut twice."""
    from mailkeep.passages import PassageStage

    await store(db, await folder(db, "home"), [message(f"Mail {at}", body=f"Text {at}") for at in range(5)])
    settings = settings_with(endpoint())
    machine = Machine(db, settings)
    outcomes = [await PassageStage(db, settings, pass_emails=2).run_pass(machine.clock()) for _ in range(4)]
    assert [(one.done, one.has_more) for one in outcomes] == [(2, True), (2, True), (1, False), (0, False)]
    assert (await machine.passages.count()).done == 5


@pytest.mark.spec("FIND-60")
async def test_mail_of_a_folder_s_former_path_is_cut_too(db: Database) -> None:
    """It stays readable and searchable, so it is to be found by meaning as well."""
    await store(db, await folder(db, "home", path="Old"), [message("Old", body="Old text.")])
    await store(db, await folder(db, "home", path="New"), [message("New", body="New text.")])
    machine = Machine(db, settings_with(endpoint()))
    await machine.cut()
    assert await rows(db, "SELECT text FROM email_chunks ORDER BY 1") == [("New text.",), ("Old text.",)]
