"""Generations of vectors: activation, build, switch, cancellation, removal, on a real database."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from support.embedding import START, Clock, Machine, answer, endpoint, hosted, scripted_endpoint, settings_with
from support.mail import message
from support.store import store as store_at
from support.stored import folder, store

from mailkeep.db import Database
from mailkeep.embeddings import Outcome, Prospect, Registration, SemanticState
from mailkeep.errors import ReindexRefused

pytestmark = pytest.mark.anyio
FERRY = "The ferry leaves at eight from pier four. " * 40


async def scalar(db: Database, statement: str, *values: object) -> Any:
    async with db.connection() as connection:
        row = await (await connection.execute(statement, values)).fetchone()
    assert row is not None
    return row[0]


async def mail(db: Database, count: int = 3, *, first_uid: int = 1) -> None:
    """Some letters that were stored a second later than those with smaller UIDs."""
    mails = [message(f"Mail {at}", body=f"Letter number {at}. {FERRY}") for at in range(count)]
    now = START + timedelta(seconds=first_uid)
    await store_at(db, await folder(db, "home"), *mails, first_uid=first_uid, now=now)


@pytest.mark.spec("FIND-67", "FIND-69")
async def test_activation_starts_once_and_the_forecast_counts_uncut_mail(db: Database) -> None:
    """Before cutting the estimate foretells, after it counts; asking twice resumes; once serving nothing is spent."""
    machine = Machine(db, settings_with(endpoint(passage_instruction="passage: ")))
    await mail(db)
    before = await machine.embeddings.forecast()
    assert before.prospect is Prospect.WOULD_START
    assert before.estimate.uncut_emails == 3
    await machine.cut()
    counted = await machine.embeddings.forecast()
    characters = await scalar(db, "SELECT sum(length(text) + length('passage: ')) FROM email_chunks")
    assert counted.estimate.uncut_emails == 0
    assert counted.estimate.outstanding_characters == characters
    assert counted.estimate.approximate_tokens == -(-characters // 4)
    assert 0.6 < before.estimate.outstanding_characters / characters < 1.6
    assert (await machine.embeddings.activate())[0] is Registration.STARTED
    assert (await machine.embeddings.activate())[0] is Registration.ALREADY_BUILDING
    assert (await machine.embeddings.forecast()).prospect is Prospect.WOULD_RESUME
    await machine.embed()
    spent = (await machine.embeddings.report()).spend.consumed
    assert spent == characters
    assert (await machine.embeddings.activate())[0] is Registration.ALREADY_SERVING
    await machine.embed()
    assert (await machine.embeddings.report()).spend.consumed == spent


@pytest.mark.spec("FIND-69", "FIND-63")
async def test_of_concurrent_activations_one_builds(db: Database) -> None:
    """Eight activations of two models at once leave one building row; the others resume it or are refused."""
    machines = [Machine(db, settings_with(endpoint(model=f"letters-{at % 2}"))) for at in range(8)]
    await mail(db, 1)
    results = await asyncio.gather(*(one.embeddings.activate() for one in machines), return_exceptions=True)
    started = [one for one in results if isinstance(one, tuple) and one[0] is Registration.STARTED]
    refused = [one for one in results if isinstance(one, ReindexRefused)]
    assert len(started) == 1
    assert len(refused) == 4
    assert await scalar(db, "SELECT count(*) FROM embedding_profiles WHERE lifecycle_state = 'Building'") == 1


@pytest.mark.spec("FIND-68")
async def test_an_estimate_above_the_whole_ceiling_starts_nothing(db: Database) -> None:
    """The refusal names both numbers and leaves no profile; what is spent already does not count."""
    machine = Machine(db, settings_with(endpoint(), max_input_characters_per_period=100))
    await mail(db)
    with pytest.raises(ReindexRefused, match=r"\d{4} characters, above the period's ceiling of 100"):
        await machine.embeddings.activate()
    assert await scalar(db, "SELECT count(*) FROM embedding_profiles") == 0


@pytest.mark.spec("FIND-70", "FIND-71", "FIND-72", "FIND-62")
async def test_a_new_model_is_read_only_when_complete_and_the_former_vectors_go(db: Database) -> None:
    """Searches keep the old generation while the new one is built; after the switch its vectors and index go."""
    old = Machine(db, settings_with(endpoint(model="old")))
    await mail(db)
    await old.build()
    new = Machine(db, settings_with(endpoint(model="new"), backfill={"batch_size": 1, "max_batches_per_run": 1}))
    await new.embeddings.activate()
    await new.stage.run_pass(new.clock())
    report = await new.embeddings.report()
    assert report.serving is not None
    assert report.serving.profile.identity.model_identifier == "old"
    assert (await old.embeddings.meaning("ferry")).state is SemanticState.AVAILABLE
    await new.embed()
    report = await new.embeddings.report()
    assert report.serving is not None
    assert report.serving.profile.identity.model_identifier == "new"
    # Removal is a later pass's, and any process's: one that died after the switch is made good.
    later = Machine(db, new.settings)
    await later.stage.run_pass(later.clock())
    assert await scalar(db, "SELECT count(DISTINCT embedding_profile_id) FROM email_embeddings") == 1
    assert await scalar(db, "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'ix_email_embeddings_hnsw%%'") == 1
    assert await scalar(db, "SELECT count(*) FROM embedding_profiles") == 2


@pytest.mark.spec("FIND-71", "FIND-84", "FIND-87", "FIND-88")
async def test_the_switch_waits_for_a_refused_message(db: Database) -> None:
    """A message that the provider refuses is stepped past, recorded, and tried again by the next walk over all mail."""
    async with scripted_endpoint() as server:
        server.script = lambda body: (400, b"", {}) if any("number 1" in t for t in body["input"]) else answer(body)
        machine = Machine(db, settings_with(hosted(server.port)))
        await mail(db)
        await machine.cut()
        await machine.embeddings.activate()
        await machine.embed()
        # The three together, then each alone: one of them is to blame, the others have their vectors.
        together, *alone = [len(body["input"]) for _, body in server.requests]
        assert len(alone) == 3
        assert sum(alone) == together
        report = await machine.embeddings.report()
        assert report.building is not None
        assert report.building.estimate.embedded_emails == 2
        assert report.building.estimate.outstanding_emails == report.refused_emails == 1
        server.script = answer
        asked = len(server.requests)
        await machine.embed()
        assert len(server.requests) == asked
        machine.clock.move(minutes=16)
        await machine.embed()
        report = await machine.embeddings.report()
        assert report.building is None
        assert report.serving is not None
        assert report.refused_emails == 0
        await machine.embeddings.close()


@pytest.mark.spec("FIND-73", "FIND-74")
async def test_cancelling_removes_what_was_built_and_leaves_what_is_read(db: Database) -> None:
    """Only the building row ends; cancelling again says so; the old model is built anew when it is wanted again."""
    old = Machine(db, settings_with(endpoint(model="old")))
    await mail(db)
    await old.build()
    new = Machine(db, settings_with(endpoint(model="new"), backfill={"batch_size": 1, "max_batches_per_run": 1}))
    await new.embeddings.activate()
    await new.stage.run_pass(new.clock())
    assert await scalar(db, "SELECT count(DISTINCT embedding_profile_id) FROM email_embeddings") == 2
    assert await new.embeddings.cancel() is Outcome.CANCELLED
    assert await new.embeddings.cancel() is Outcome.NOTHING_BUILDING
    await new.stage.run_pass(new.clock())
    assert await scalar(db, "SELECT count(DISTINCT embedding_profile_id) FROM email_embeddings") == 1
    report = await old.embeddings.report()
    assert report.serving is not None
    assert report.serving.profile.identity.model_identifier == "old"


@pytest.mark.spec("FIND-73")
async def test_of_a_cancellation_and_a_switch_at_once_one_wins(db: Database) -> None:
    """Either the profile is read and nothing was cancelled, or it was cancelled and is not read."""
    for round_ in range(6):
        machine = Machine(db, settings_with(endpoint(model=f"m{round_}"), backfill={"batch_size": 500}))
        if round_ == 0:
            await mail(db)
            await machine.cut()
        _, profile = await machine.embeddings.activate()
        _, outcome = await asyncio.gather(machine.stage.run_pass(machine.clock()), machine.embeddings.cancel())
        state = await scalar(db, "SELECT lifecycle_state FROM embedding_profiles WHERE id = %s", profile.id)
        assert state == ("Superseded" if outcome is Outcome.CANCELLED else "Active")


@pytest.mark.spec("FIND-72")
async def test_removal_stops_when_the_profile_is_wanted_again(db: Database) -> None:
    """A superseded profile that is activated again keeps the vectors that survived, and pays for the others only."""
    old = Machine(db, settings_with(endpoint(model="old")))
    await mail(db, 4)
    await old.build()
    new = Machine(db, settings_with(endpoint(model="new")))
    await new.embeddings.activate()
    await new.embed()
    await old.embeddings.activate()
    removed = await scalar(
        db,
        "SELECT count(*) FROM email_embeddings v JOIN embedding_profiles p ON p.id = v.embedding_profile_id WHERE p.model_identifier = 'old'",
    )
    spent = (await old.embeddings.report()).spend.consumed
    await old.embed()
    assert (await old.embeddings.report()).building is None
    chunks = await scalar(db, "SELECT count(*) FROM email_chunks")
    assert removed == chunks
    assert (await old.embeddings.report()).spend.consumed == spent


@pytest.mark.spec("FIND-66", "FIND-52")
async def test_an_edited_declaration_writes_and_spends_nothing(db: Database) -> None:
    """New mail stays without vectors while another model than the serving one is declared, and searches are degraded."""
    await mail(db)
    await Machine(db, settings_with(endpoint(model="old"))).build()
    edited = Machine(db, settings_with(endpoint(model="edited")))
    spent = (await edited.embeddings.report()).spend.consumed
    await mail(db, 1, first_uid=50)
    await edited.cut()
    await edited.embed()
    report = await edited.embeddings.report()
    assert report.spend.consumed == spent
    assert report.serving is not None
    assert report.serving.estimate.outstanding_emails == 1
    assert report.activation_outstanding
    assert (await edited.embeddings.meaning("ferry")).state is SemanticState.DEGRADED
    assert await edited.embeddings.state() is SemanticState.DEGRADED


@pytest.mark.spec("FIND-75", "DATA-33")
@pytest.mark.parametrize("metric", ["Cosine", "InnerProduct", "EuclideanDistance"])
async def test_each_metric_has_its_index(db: Database, metric: str) -> None:
    """The index is made at activation, while there is nothing in it, with the operators of the metric."""
    machine = Machine(db, settings_with(endpoint(distance_metric=metric)))
    _, profile = await machine.embeddings.activate()
    definition = await scalar(
        db, "SELECT indexdef FROM pg_indexes WHERE indexname = %s", f"ix_email_embeddings_hnsw_{profile.id.hex}"
    )
    operators = {"Cosine": "vector_cosine_ops", "InnerProduct": "vector_ip_ops", "EuclideanDistance": "vector_l2_ops"}
    assert f"((embedding)::vector(16)) {operators[metric]}" in definition
    assert str(profile.id) in definition


@pytest.mark.spec("FIND-76", "FIND-65")
async def test_a_refused_index_fails_no_activation(db: Database, dsn: str) -> None:
    """A role that does not own the table activates all the same, and its searches compare one by one."""
    await mail(db)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE guest_of_vectors LOGIN")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO guest_of_vectors")
    try:
        async with Database(psycopg.conninfo.make_conninfo(dsn, user="guest_of_vectors")) as guest:
            machine = Machine(guest, settings_with(endpoint()))
            await machine.build()
            report = await machine.embeddings.report()
            assert report.serving is not None
            assert not report.serving.has_index
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DROP OWNED BY guest_of_vectors")
            connection.execute("DROP ROLE guest_of_vectors")


@pytest.mark.spec("FIND-64", "DATA-32")
async def test_vectors_of_another_width_are_refused_and_two_widths_coexist(db: Database) -> None:
    """The check and the key together keep a vector to its profile's width; erasing mail erases vectors, not profiles."""
    await mail(db, 1)
    await Machine(db, settings_with(endpoint(model="a"))).build()
    wide = Machine(db, settings_with(endpoint(model="b", dimension=24), backfill={"batch_size": 1}))
    _, profile = await wide.embeddings.activate()
    chunk = await scalar(db, "SELECT id FROM email_chunks ORDER BY ordinal LIMIT 1")
    insert = "INSERT INTO email_embeddings VALUES (%s, %s, %s, %s::vector, now()) RETURNING 1"
    with pytest.raises(psycopg.errors.CheckViolation, match="ck_email_embeddings_dimension"):
        await scalar(db, insert, chunk, profile.id, 24, "[1,2,3]")
    async with db.connection() as connection:
        await connection.execute(f"DROP INDEX ix_email_embeddings_hnsw_{profile.id.hex}")
    with pytest.raises(Exception, match=r"wrote the same rows first|fk_email_embeddings"):
        await scalar(db, insert, chunk, profile.id, 3, "[1,2,3]")
    await wide.stage.run_pass(wide.clock())
    assert await scalar(db, "SELECT count(DISTINCT dimension) FROM email_embeddings") == 2
    async with db.connection() as connection:
        await connection.execute("DELETE FROM stored_emails")
    assert await scalar(db, "SELECT count(*) FROM email_embeddings") == 0
    assert await scalar(db, "SELECT count(*) FROM embedding_profiles") == 2


@pytest.mark.spec("FIND-87", "FIND-83")
async def test_a_build_goes_on_where_another_process_stopped(db: Database) -> None:
    """After some passes a fresh process embeds exactly what is left: every passage is paid once."""
    settings = settings_with(endpoint(), backfill={"batch_size": 2, "max_batches_per_run": 1})
    await mail(db, 7)
    first = Machine(db, settings)
    await first.cut()
    await first.embeddings.activate()
    await first.stage.run_pass(first.clock())
    assert await scalar(db, "SELECT count(*) FROM backfill_positions") == 1
    second = Machine(db, settings)
    await second.embed()
    characters = await scalar(db, "SELECT sum(length(text)) FROM email_chunks")
    report = await second.embeddings.report()
    assert report.serving is not None
    assert report.spend.consumed == characters
    assert await scalar(db, "SELECT count(*) FROM backfill_positions") == 0


@pytest.mark.spec("FIND-83", "FIND-89")
async def test_new_mail_gets_its_vectors_while_the_walk_rests(db: Database) -> None:
    """Mail that arrives after a completed walk is embedded by the next pass, without a walk over all mail."""
    machine = Machine(db, settings_with(endpoint()))
    await mail(db)
    await machine.build()
    await machine.embed()
    machine.clock.move(minutes=1)
    await mail(db, 2, first_uid=90)
    await machine.cut()
    result = await machine.embed()
    assert result.done == 2
    outcome = await machine.stage.run_pass(machine.clock())
    assert outcome.next_due == machine.clock() + timedelta(minutes=15)
    assert machine.embeddings.next_pass_at == outcome.next_due


@pytest.mark.spec("FIND-60", "FIND-86")
async def test_junk_and_folders_without_embeddings_reach_no_provider(db: Database) -> None:
    """Neither is cut, embedded or counted by the estimate."""
    async with scripted_endpoint() as server:
        settings = settings_with(hosted(server.port))
        accounts = {
            "accounts": [
                {
                    "account_id": "home",
                    "display_name": "Home Mail",
                    "kind": "imap",
                    "host": "mail.example.com",
                    "user_name": "ann",
                    "secrets": {"password": "env:NEVER"},
                    "folders": [
                        {"alias": "INBOX", "remote_path": "INBOX"},
                        {"alias": "QUIET", "remote_path": "QUIET", "generate_embeddings": False},
                        {"alias": "JUNK", "remote_path": "JUNK", "special_use": "Junk"},
                    ],
                }
            ]
        }
        section = settings.mail_synchronization.model_validate(accounts)
        machine = Machine(db, settings.model_copy(update={"mail_synchronization": section}))
        for alias in ("INBOX", "QUIET", "JUNK", "UNMAPPED"):
            await store(db, await folder(db, "home", alias), [message(alias, body=f"In {alias} there is mail.")])
        assert (await machine.embeddings.forecast()).estimate.outstanding_emails == 1
        await machine.build()
        sent = [text for _, body in server.requests for text in body["input"]]
        assert sent == ["In INBOX there is mail."]
        await machine.embeddings.close()


@pytest.mark.spec("FIND-96")
async def test_the_report_tells_models_coverage_provider_and_spend(db: Database) -> None:
    """Declared and serving model, coverage, the provider's state with its instant, and what the period cost."""
    machine = Machine(db, settings_with(endpoint()), Clock())
    await mail(db)
    empty = await machine.embeddings.report()
    assert empty.activation_outstanding
    assert empty.serving is None
    assert empty.health.state.value == "Unobserved"
    await machine.build()
    report = await machine.embeddings.report()
    assert report.declared == machine.embeddings.declared.identity  # type: ignore[union-attr]
    assert report.serving is not None
    assert report.serving.estimate.embedded_emails == report.serving.estimate.searchable_emails == 3
    assert report.serving.has_index
    assert (report.health.state.value, report.health.observed_at) == ("Serving", machine.clock())
    assert report.spend.consumed > 0
    assert report.spend.remaining == 50_000_000 - report.spend.consumed
