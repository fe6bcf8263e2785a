"""`search_emails` where search by meaning is on: mode, state and the nearest passage, bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.embedding import Machine, answer, hosted, scripted_endpoint, settings_with, status
from support.mail import message
from support.stored import folder, store

from mailkeep.app import App
from mailkeep.db import Database
from mailkeep.mcp.arguments import SearchEmailsArguments
from mailkeep.mcp.catalog import TOOLS
from mailkeep.mcp.results import SearchEmailsResult

pytestmark = pytest.mark.anyio


async def call(app: App, text: str) -> SearchEmailsResult:
    (tool,) = [one for one in TOOLS if one.name == "search_emails"]
    result = await tool.call(app, SearchEmailsArguments(query_text=text))
    assert isinstance(result, SearchEmailsResult)
    return result


@pytest.mark.spec("MCP-110", "MCP-2", "FIND-51")
async def test_a_tool_s_search_goes_by_meaning_and_sends_the_query_s_words_only(db: Database, tmp_path: Path) -> None:
    """A message without the words is found and shows its nearest passage; a failing provider leaves the words."""
    async with scripted_endpoint() as server:
        settings = settings_with(hosted(server.port))
        machine = Machine(db, settings)
        await store(db, await folder(db, "home"), [message("Ferry", body="It leaves at eight. " * 300)])
        await machine.build()
        await machine.embeddings.close()
        app = App(tmp_path, settings, db)
        asked = len(server.requests)
        found = await call(app, "departure from:ann")
        assert [body["input"] for _, body in server.requests[asked:]] == [["departure"]]
        assert (found.retrieval_mode, found.semantic_search) == ("hybrid", "available")
        (match,) = found.matches
        assert match.snippets == []
        assert match.nearest_passage is not None
        assert match.nearest_passage.startswith("It leaves at eight.")
        assert len(match.nearest_passage) < 24 * 64
        server.script = status(503)
        without = await call(app, "departure")
        assert (without.retrieval_mode, without.semantic_search, without.matches) == ("lexical", "degraded", [])
        server.script = answer
        await app.embeddings.close()
