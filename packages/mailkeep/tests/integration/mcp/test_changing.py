"""The tools that change mail as a client meets them: offered where permitted, recorded once, previewed, undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult, TextContent
from support.changes import EVERYTHING, execute, fill, imap, rows, settings_of

from mailkeep.app import App
from mailkeep.db import Database
from mailkeep.mailbox import Flags, SpecialUse
from mailkeep.mcp.server import make_server

pytestmark = pytest.mark.anyio
PERMITTED = settings_of(imap(tool_changes=EVERYTHING), mcp_endpoint={"deleting_enabled": True})
READING = {"list_accounts", "list_emails", "search_emails", "list_saved_searches", "get_email_content"}
ANY = {"undo_mail_change", "get_mail_changes"}


@pytest.fixture
async def app(db: Database, tmp_path: Path) -> App:
    """An App whose one account permits tools everything."""
    return App(tmp_path, PERMITTED, db)


@asynccontextmanager
async def connected(app: App) -> AsyncIterator[Client]:
    """A client in this process; results are checked against the published output schemas."""
    async with Client(make_server(app)) as client:
        await client.list_tools()
        yield client


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    structured: dict[str, Any] = result.structured_content
    return structured


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return text_of(result)


def texts(ids: list[UUID]) -> list[str]:
    return [str(one) for one in ids]


@pytest.mark.spec("MCP-80", "MCP-57", "MUT-58", "MUT-B7", "SYNC-2")
async def test_tools_are_offered_as_the_settings_of_the_moment_permit(app: App) -> None:
    """Any account's switch lists a tool; what is not listed answers like a name that never was; no restart between."""
    (one,) = await fill(app.db, 1)
    flags = READING | ANY | {"set_mail_flags"}
    moves = READING | ANY | {"move_emails", "archive_emails", "trash_emails"}
    cases = (
        (settings_of(), READING),
        (settings_of(imap(), imap("work", tool_changes={"flags": True})), flags),
        (settings_of(imap(tool_changes={"moves": True})), moves),
        (settings_of(imap(tool_changes={"copies": True})), READING | ANY | {"copy_emails"}),
        (settings_of(imap(tool_changes={"deletions": True})), READING),
        (
            settings_of(imap(tool_changes={"deletions": True}), mcp_endpoint={"deleting_enabled": True}),
            READING | ANY | {"delete_emails"},
        ),
        (PERMITTED, flags | moves | {"copy_emails", "delete_emails"}),
    )
    async with connected(app) as client:
        for settings, offered in cases:
            app.settings = settings
            assert {tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools} == offered
            if "set_mail_flags" not in offered:
                with pytest.raises(MCPError) as absent:
                    await client.call_tool("set_mail_flags", {"stored_email_id": str(one), "flagged": True})
                with pytest.raises(MCPError) as unknown:
                    await client.call_tool("no_such_tool", {})
                assert (absent.value.code, str(absent.value)) == (unknown.value.code, str(unknown.value))
    assert await rows(app.db, "SELECT FROM mailbox_mutations") == []


@pytest.mark.spec("MCP-113", "MCP-114", "MUT-58", "MUT-13")
async def test_set_mail_flags_records_all_of_a_call_or_none(app: App) -> None:
    """Order seen, flagged, keywords; keywords are not echoed; the same request gives its records; another value 51012."""
    (one,) = await fill(app.db, 1)
    arguments: dict[str, Any] = {
        "stored_email_id": str(one),
        "keyword_change": "replace",
        "keywords": [],
        "flagged": False,
        "seen": True,
        "request_id": "r1",
    }
    async with connected(app) as client:
        result = await call(client, "set_mail_flags", **arguments)
        changes = result.pop("recorded_changes")
        assert result == {"stored_email_id": str(one), "account_id": "home", "folder_alias": "INBOX"}
        assert [(change["change"], change["state"]) for change in changes] == [
            ("set-seen", "pending"),
            ("set-flagged", "pending"),
            ("set-keywords", "pending"),
        ]
        await execute(app.db, "UPDATE mailbox_mutations SET stage = 'Completed'")
        again = (await call(client, "set_mail_flags", **arguments))["recorded_changes"]
        assert [(change["change_record_id"], change["state"]) for change in again] == [
            (change["change_record_id"], "completed") for change in changes
        ]
        for changed in ({"seen": False}, {"keywords": ["A"]}):
            assert "51012" in await refused(client, "set_mail_flags", **arguments | changed)
        only = {"stored_email_id": str(one)}
        for bad in (
            {},
            {"keyword_change": "add"},
            {"keywords": ["A"]},
            {"keyword_change": "add", "keywords": []},
            {"keyword_change": "remove", "keywords": []},
            {"keyword_change": "add", "keywords": ["A"] * 65},
            {"keyword_change": "add", "keywords": ["sentinel two"]},
            {"keyword_change": "toggle", "keywords": ["A"]},
            {"seen": "yes"},
            {"flagged": True, "request_id": "x" * 129},
        ):
            text = await refused(client, "set_mail_flags", **only | bad)
            assert text.startswith("mailkeep error 51012: ")
            assert "sentinel" not in text
        assert "53002" in await refused(client, "set_mail_flags", stored_email_id=str(uuid4()), seen=True)
        assert "51004" in await refused(client, "set_mail_flags", stored_email_id="x", seen=True)
    assert len(await rows(app.db, "SELECT FROM mailbox_mutations")) == 3


@pytest.mark.spec("MUT-B7", "MUT-60")
async def test_emails_are_previewed_moved_looked_after_and_moved_back(app: App) -> None:
    """A preview records nothing; records are found by id and by request; what has not begun is withdrawn."""
    ids = await fill(app.db, 3)
    await fill(app.db, 0, alias="LATER")
    there = await fill(app.db, 1, alias="ARCHIVED", role=SpecialUse.ARCHIVE)
    async with connected(app) as client:
        wish = {"stored_email_ids": texts(ids), "destination": "later"}
        found = await call(client, "move_emails", **wish, preview=True)
        assert (found["is_preview"], found["change_count"], found["changes"]) == (True, 3, [])
        assert found["would_change"] == [
            {
                "account_id": "home",
                "folder_alias": "INBOX",
                "change": "relocate",
                "count": 3,
                "first_stored_email_ids": texts(ids),
            }
        ]
        assert "53012: DestinationFolderUnmapped" in await refused(client, "move_emails", **wish | {"destination": "x"})
        assert "DestinationFolderUnresolved" in await refused(client, "trash_emails", stored_email_ids=texts(ids))
        archived = await call(client, "archive_emails", stored_email_ids=texts([*ids, *there]), request_id="a1")
        assert (archived["change_count"], archived["request_id"]) == (3, "a1")
        assert archived["left_out"] == [{"stored_email_id": str(there[0]), "reason": "alreadyThere"}]
        by_id = await call(
            client, "get_mail_changes", change_record_ids=[one["change_record_id"] for one in archived["changes"][:2]]
        )
        assert by_id["states"] == [{"state": "pending", "count": 2}]
        undone = await call(client, "undo_mail_change", of_request_id="a1", preview=True)
        assert {one["outcome"] for one in undone["undone"]} == {"withdrawn"}
        undone = await call(client, "undo_mail_change", of_request_id="a1")
        assert (undone["undone_count"], undone["is_preview"]) == (3, False)
        after = await call(client, "get_mail_changes", of_request_id="a1")
        assert after["states"] == [{"state": "dead-lettered", "count": 3}]
        assert {one["failure_code"] for one in after["changes"]} == {25008}
        assert after["changes"][0]["failure"] == "it was taken back before anything was sent"
        assert "53013" in await refused(client, "get_mail_changes", change_record_ids=[str(uuid4())])
        assert "51012" in await refused(client, "get_mail_changes")


@pytest.mark.spec("MUT-B7", "MUT-59")
async def test_copying_deleting_and_undoing_are_permitted_by_the_messages_own_account(app: App) -> None:
    """The tool is offered for another account's sake; the use case refuses this one's mail, and withheld mail as none."""
    mine = await fill(app.db, 2, flags=Flags())
    other = await fill(app.db, 1, account_id="work")
    await fill(app.db, 0, alias="LATER")
    app.settings = settings_of(
        imap(tool_changes={"copies": True, "flags": True}),
        imap("work", tool_changes={"deletions": True}),
        mcp_endpoint={"deleting_enabled": True},
    )
    async with connected(app) as client:
        copied = await call(client, "copy_emails", stored_email_ids=texts(mine), destination="later", request_id="c1")
        again = await call(client, "copy_emails", stored_email_ids=texts(mine), destination="later", request_id="c1")
        assert again["changes"] == copied["changes"]
        await execute(
            app.db, "UPDATE mailbox_mutations SET stage = 'Completed', placement_uid = 9, placement_uid_validity = 1"
        )
        assert "56004" in await refused(client, "delete_emails", stored_email_ids=texts(mine))
        assert "58002" in await refused(client, "undo_mail_change", of_request_id="c1")
        deleted = await call(client, "delete_emails", stored_email_ids=texts(other))
        assert deleted["changes"][0]["change"] == "delete"
        found = await call(client, "delete_emails", stored_email_ids=texts([*other, *mine]), preview=True)
        assert [one["code"] for one in found["would_refuse"]] == [56004]
        assert found["left_out"] == [{"stored_email_id": str(other[0]), "reason": "alreadyLeaving"}]
        assert "53002" in await refused(client, "delete_emails", stored_email_ids=[*texts(other), str(uuid4())])


@pytest.mark.spec("MUT-B7", "MCP-7", "MCP-8")
async def test_answers_and_calls_are_bounded(app: App) -> None:
    """500 emails at a time, 100 changes named of an answer, counts of all."""
    ids = await fill(app.db, 130)
    async with connected(app) as client:
        result = await call(client, "delete_emails", stored_email_ids=texts(ids), request_id="d1")
        assert (result["change_count"], len(result["changes"])) == (130, 100)
        found = await call(client, "get_mail_changes", of_request_id="d1")
        assert (found["change_count"], len(found["changes"]), found["states"][0]["count"]) == (130, 100, 130)
        too_many = ["not read"] * 501
        assert "51012" in await refused(client, "delete_emails", stored_email_ids=too_many)
        assert "51012" in await refused(client, "get_mail_changes", change_record_ids=too_many)


@pytest.mark.spec("MCP-1", "MUT-3")
async def test_no_reading_tool_asks_for_a_change(app: App) -> None:
    """Proof 20, its record side: every reading tool leaves no row behind; a change that is asked for leaves one."""
    (one,) = await fill(app.db, 1)
    async with connected(app) as client:
        await call(client, "list_accounts")
        await call(client, "list_emails")
        await call(client, "list_saved_searches")
        await call(client, "search_emails", query_text="home")
        await call(client, "get_email_content", stored_email_ids=[str(one)])
        assert await rows(app.db, "SELECT FROM mailbox_mutations") == []
        await call(client, "set_mail_flags", stored_email_id=str(one), seen=True)
    assert len(await rows(app.db, "SELECT FROM mailbox_mutations")) == 1
