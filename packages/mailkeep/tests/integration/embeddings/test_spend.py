"""What embedding costs: reservations, ceilings, periods, failures."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from support.embedding import START, Clock, Machine, answer, endpoint, hosted, scripted_endpoint, settings_with, status
from support.mail import message
from support.store import rows
from support.store import store as store_at
from support.stored import folder, store

from mailkeep.db import Database
from mailkeep.embeddings import SemanticState
from mailkeep.embeddings.spend import forget_orphans, period_start, read_spend, reserve
from mailkeep.errors import EmbeddingCeilingReached

pytestmark = pytest.mark.anyio
TEXT = "x" * 300


async def mail(db: Database, count: int = 3) -> None:
    await store(db, await folder(db, "home"), [message(f"Mail {at}", body=f"{TEXT} {at}") for at in range(count)])


async def consumed(machine: Machine) -> int:
    return (await read_spend(machine.db, machine.settings.embeddings, now=machine.clock())).consumed


async def reservations(db: Database) -> int:
    return int((await rows(db, "SELECT count(*) FROM embedding_spend_reservations"))[0][0])


@pytest.mark.spec("FIND-90", "FIND-92", "FIND-91", "FIND-88", "FIND-89")
async def test_at_the_ceiling_work_rests_until_the_period_rolls_over(db: Database) -> None:
    """Any remainder admits a whole batch; then nothing is called, dropped or refused until the next period."""
    async with scripted_endpoint() as server:
        settings = settings_with(
            hosted(server.port),
            backfill={"batch_size": 1, "max_batches_per_run": 50},
            max_input_characters_per_period=1000,
        )
        machine = Machine(db, settings)
        await mail(db)
        await machine.cut()
        await machine.embeddings.activate()
        await mail_more(db)
        await machine.cut()
        await machine.embed()
        assert [len(body["input"]) for _, body in server.requests] == [1, 1, 1, 1]
        spent = await consumed(machine)
        assert 1000 <= spent < 1000 + 400
        outcome = await machine.stage.run_pass(machine.clock())
        rollover = period_start(machine.clock(), timedelta(days=1)) + timedelta(days=1)
        assert (outcome.has_more, outcome.next_due) == (True, rollover)
        assert len(server.requests) == 4
        assert (await machine.embeddings.meaning("anything")).state is SemanticState.INACTIVE
        machine.clock.now = rollover
        await machine.embed()
        report = await machine.embeddings.report()
        assert report.serving is not None
        assert len(server.requests) == 6
        assert report.spend.consumed < 1000
        assert [
            total
            for (total,) in await rows(
                db, "SELECT consumed_input_character_count FROM embedding_spend_periods ORDER BY 1 DESC"
            )
        ] == [spent, report.spend.consumed]
        await machine.embeddings.close()


async def mail_more(db: Database) -> None:
    """Three messages more than the estimate knew of."""
    mails = [message(f"More {at}", body=f"{TEXT} {at}") for at in range(3)]
    await store_at(db, await folder(db, "home"), *mails, first_uid=100, now=START + timedelta(days=300))


@pytest.mark.spec("FIND-90")
async def test_two_workers_charging_one_period_sum_and_a_restart_keeps_it(db: Database) -> None:
    """Forty reservations at once from two processes add up exactly."""
    first, second = (Machine(db, settings_with(endpoint())) for _ in range(2))
    charges = [
        reserve(db, machine.settings.embeddings, 7, now=machine.clock())
        for machine in (first, second)
        for _ in range(20)
    ]
    await asyncio.gather(*charges)
    assert await consumed(Machine(db, settings_with(endpoint()))) == 280


@pytest.mark.spec("FIND-91")
async def test_concurrent_calls_overshoot_the_ceiling_by_one_call_only(db: Database) -> None:
    """The remainder is asked for and taken in one step: of ten calls of 60 under a ceiling of 100 two are admitted."""
    machine = Machine(db, settings_with(endpoint(), max_input_characters_per_period=100))
    calls = [reserve(db, machine.settings.embeddings, 60, now=machine.clock()) for _ in range(10)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(one, EmbeddingCeilingReached) for one in results) == 8
    assert await consumed(machine) == 120


@pytest.mark.spec("FIND-91")
async def test_a_call_that_failed_costs_nothing_and_is_repeated(db: Database) -> None:
    """What was put aside is given back; the same passages are sent again later."""
    async with scripted_endpoint() as server:
        server.script = status(401)
        machine = Machine(db, settings_with(hosted(server.port)))
        await mail(db)
        await machine.cut()
        await machine.embeddings.activate()
        result = await machine.embed()
        assert result.next_due == machine.clock() + timedelta(minutes=15)
        assert await consumed(machine) == await reservations(db) == 0
        server.script = answer
        await machine.embed()
        sent = [body["input"] for _, body in server.requests]
        assert sent[0] == sent[1]
        assert await consumed(machine) == sum(map(len, sent[1]))
        assert await reservations(db) == 0
        await machine.embeddings.close()


@pytest.mark.spec("FIND-91")
async def test_a_call_cut_off_in_the_middle_stays_charged(db: Database) -> None:
    """Nobody knows whether it was answered: its characters count as spent, once, and its reservation is tidied away."""
    machine = Machine(db, settings_with(endpoint()))
    await mail(db, 1)
    await machine.cut()
    await machine.embeddings.activate()
    chain = machine.embeddings.declared.chain  # type: ignore[union-attr]
    embed = chain.embed

    async def ended(texts: list[str], purpose: object) -> object:
        raise asyncio.CancelledError

    chain.embed = ended  # type: ignore[method-assign, assignment]
    with pytest.raises(asyncio.CancelledError):
        await machine.stage.run_pass(machine.clock())
    aside = await consumed(machine)
    assert aside > 0
    assert await reservations(db) == 1
    await forget_orphans(db, now=machine.clock() + timedelta(hours=2))
    assert await reservations(db) == 0
    chain.embed = embed  # type: ignore[method-assign]
    await machine.embed()
    assert await consumed(machine) == 2 * aside


@pytest.mark.spec("FIND-90", "FIND-91")
async def test_queries_are_charged_and_stop_at_the_ceiling(db: Database) -> None:
    """A query costs its characters; at the ceiling searches go by words, and nobody is asked."""
    async with scripted_endpoint() as server:
        machine = Machine(db, settings_with(hosted(server.port), max_input_characters_per_period=2000))
        await mail(db)
        await machine.build()
        before = await consumed(machine)
        assert (await machine.embeddings.meaning("ferry at eight")).state is SemanticState.AVAILABLE
        assert await consumed(machine) == before + len("ferry at eight")
        await reserve(db, machine.settings.embeddings, 2000, now=machine.clock())
        asked = len(server.requests)
        assert (await machine.embeddings.meaning("ferry at nine")).state is SemanticState.DEGRADED
        assert len(server.requests) == asked
        await machine.embeddings.close()


@pytest.mark.spec("FIND-90")
async def test_removing_vectors_erases_no_spend(db: Database) -> None:
    """What was paid stays paid, also when the mail goes."""
    machine = Machine(db, settings_with(endpoint()), Clock())
    await mail(db)
    await machine.build()
    spent = await consumed(machine)
    async with db.connection() as connection:
        await connection.execute("DELETE FROM stored_emails")
    assert await consumed(machine) == spent > 0


@pytest.mark.spec("FIND-79", "FIND-91")
async def test_inputs_are_cut_to_the_limit_from_the_start_and_charged_as_sent(db: Database) -> None:
    """Instruction and passage together are cut; the estimate and the charge count what is sent."""
    async with scripted_endpoint() as server:
        settings = settings_with(hosted(server.port, passage_instruction="passage: ", input_character_limit=50))
        machine = Machine(db, settings)
        await mail(db, 1)
        await machine.cut()
        assert (await machine.embeddings.forecast()).estimate.outstanding_characters == 50
        await machine.build()
        assert server.requests[0][1]["input"] == ["passage: " + "x" * 41]
        assert await consumed(machine) == 50
        await machine.embeddings.close()


@pytest.mark.spec("FIND-79")
async def test_a_batch_over_the_bound_is_refused_not_split(db: Database) -> None:
    """Whoever asks for more at once has a defect; requests of the stage keep to the bound."""
    async with scripted_endpoint() as server:
        machine = Machine(db, settings_with(hosted(server.port), max_passages_per_request=2))
        model = machine.embeddings.declared
        assert model is not None
        from mailkeep.providers import Purpose

        with pytest.raises(ValueError, match="refused"):
            await model.embed(["a", "b", "c"], Purpose.PASSAGE)
        await mail(db, 5)
        await machine.build()
        assert [len(body["input"]) for _, body in server.requests] == [2, 2, 1]
        await machine.embeddings.close()


@pytest.mark.spec("FIND-85")
async def test_passages_that_vanish_during_the_call_are_left_out_and_paid(db: Database) -> None:
    """The others of the batch are stored; the charge is the whole batch's."""
    async with scripted_endpoint() as server:
        machine = Machine(db, settings_with(hosted(server.port)))
        await mail(db, 3)
        await machine.cut()
        await machine.embeddings.activate()
        server.is_silent = True
        embed = machine.embeddings.declared.chain.embed  # type: ignore[union-attr]

        async def during(texts: list[str], purpose: object) -> object:
            server.is_silent = False
            vectors = await embed(texts, purpose)  # type: ignore[arg-type]
            await rows(db, "DELETE FROM stored_emails WHERE subject = 'Mail 1' RETURNING id")
            return vectors

        machine.embeddings.declared.chain.embed = during  # type: ignore[union-attr, method-assign, assignment]
        await machine.embed()
        assert (await rows(db, "SELECT count(*) FROM email_embeddings"))[0][0] == 2
        assert await consumed(machine) == sum(len(text) for text in server.requests[0][1]["input"])
        assert len(server.requests[0][1]["input"]) == 3
        await machine.embeddings.close()
