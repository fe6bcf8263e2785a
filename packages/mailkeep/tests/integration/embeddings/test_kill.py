"""Killing the process at any moment of activation, build, switch and removal: nothing is lost, nothing spent twice."""

from __future__ import annotations

import asyncio
import os
import sys
from random import Random
from typing import Any

import pytest
from support.embedding import Machine, answer, hosted, scripted_endpoint, settings_with
from support.mail import message
from support.store import rows
from support.stored import folder, store

from mailkeep.db import Database

pytestmark = pytest.mark.anyio
MAILS = 12
ROUNDS = int(os.environ.get("MAILKEEP_KILLS", "2"))


@pytest.mark.spec("FIND-69", "FIND-71", "FIND-72", "FIND-87", "FIND-91")
async def test_killed_at_any_moment_it_ends_complete_and_each_passage_is_paid_once_but_for_calls_cut_off(
    db: Database, dsn: str
) -> None:
    """Every kill costs at most the one call it cut off; vectors are complete, the former generation is gone."""
    calls: list[list[str]] = []
    killed_in_a_call = 0
    process: asyncio.subprocess.Process | None = None
    random = Random(11)
    kill_after = 0

    def script(body: dict[str, Any]) -> tuple[int, bytes, dict[str, str]]:
        nonlocal killed_in_a_call
        calls.append(body["input"])
        if process is not None and kill_after and len(calls) >= kill_after:
            process.kill()
            killed_in_a_call += 1
        return answer(body)

    async with scripted_endpoint() as server:
        mails = [message(f"Mail {at}", body=f"Letter number {at} of a dozen.") for at in range(MAILS)]
        await store(db, await folder(db, "home"), mails)
        server.script = answer
        old = Machine(db, settings_with(hosted(server.port, model="old")))
        await old.build()
        before = (await old.embeddings.report()).spend.consumed
        await old.embeddings.close()
        server.script = script
        for round_ in range(ROUNDS + 1):
            is_last = round_ == ROUNDS
            kill_after = 0 if is_last else len(calls) + random.randint(1, 2)
            arguments = ["-m", "support.embedding_process", dsn, str(server.port)]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, env=environment()
            )
            output, _ = await asyncio.wait_for(process.communicate(), 60)
            if process.returncode == 0:
                assert output.split() == [b"running", b"done"]
                break
        assert process is not None
        assert process.returncode == 0
    texts = (await rows(db, "SELECT count(*), sum(length(text)) FROM email_chunks"))[0]
    vectors = await rows(
        db,
        "SELECT p.model_identifier, p.lifecycle_state, count(v.email_chunk_id) FROM embedding_profiles p"
        " LEFT JOIN email_embeddings v ON v.embedding_profile_id = p.id GROUP BY 1, 2 ORDER BY 1",
    )
    assert vectors == [("new", "Active", MAILS), ("old", "Superseded", 0)]
    assert texts[0] == MAILS
    sent = [text for call in calls for text in call]
    assert set(sent) == {text for (text,) in await rows(db, "SELECT text FROM email_chunks")}
    longest = max(sum(map(len, call)) for call in calls)
    total = (await rows(db, "SELECT sum(consumed_input_character_count) FROM embedding_spend_periods"))[0][0]
    assert total - before == sum(map(len, sent))
    assert texts[1] <= sum(map(len, sent)) <= texts[1] + killed_in_a_call * longest
    assert await rows(db, "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'ix_email_embeddings_hnsw%%'") == [(1,)]


def environment() -> dict[str, str]:
    """The same with the tests' own modules to be found."""
    tests = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return {**os.environ, "PYTHONPATH": tests}
