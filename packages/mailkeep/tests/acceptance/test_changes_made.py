"""Changes from their asking to the server and back: by command, and by an agent over stdio."""

from __future__ import annotations

import sys
import time
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from support.command import TIMEOUT_SECONDS, Installation
from support.dovecot import Dovecot, is_installed
from support.mail import message

LETTERS = [
    message(f"Letter {number}", body=f"heron {number}\n", message_id=f"m{number}@example.com") for number in range(4)
]
PERMIT = "tool_changes = { flags = true, moves = true }\naudit_trail = { enabled = true }\n"


@pytest.fixture(scope="module")
def server() -> Any:
    """A server whose mailboxes the tests change, each under a user of its own."""
    if not is_installed():
        pytest.skip("Dovecot is not installed (Debian: dovecot-imapd)")
    with Dovecot.start(users=("vera", "willy")) as started:
        yield started


def mailbox(installation: Installation, server: Dovecot, user: str, *, permits: str = "") -> dict[str, str]:
    """A mirrored account with four letters and a folder Later; the ids of the letters by subject."""
    server.fill(user, "INBOX", LETTERS)
    with server.client(user) as client:
        client.create("Later")
    installation.add_account(server, user=user)
    if permits:
        file = installation.home / "mailkeep.toml"
        file.write_text(file.read_text().replace('account_id = "work"\n', f'account_id = "work"\n{permits}', 1))
    installation.run("sync", "--once")
    return {one["subject"]: one["id"] for one in installation.run("list", "--json").json["emails"]}


@pytest.mark.spec("MUT-9", "MUT-13", "MUT-45", "MUT-62", "MUT-66", "MUT-B7")
def test_a_star_and_a_move_reach_the_server_and_are_read_back_and_undone(
    installation: Installation, server: Dovecot
) -> None:
    """The next run makes them; the message keeps its id through the move and back; the trail tells of each."""
    ids = mailbox(installation, server, "vera", permits=PERMIT)
    moved, starred = ids["Letter 0"], ids["Letter 1"]
    installation.run("mark", starred, "--star", "--add-keyword", "Work")
    installation.run("move", moved, "--to", "later", "--request-id", "tidy")
    with server.client("vera") as client:
        assert client.flags("INBOX") == dict.fromkeys((1, 2, 3, 4), frozenset())
    installation.run("sync", "--once")
    with server.client("vera") as client:
        assert client.flags("INBOX") == {2: frozenset({"\\Flagged", "Work"}), 3: frozenset(), 4: frozenset()}
        assert len(client.uids("Later")) == 1
    flags = installation.run("show", starred, "--json").json["flags"]
    assert (flags["flagged"], flags["seen"], flags["keywords"]) == (True, False, ["WORK"])
    assert installation.run("show", moved, "--json").json["folder"] == "LATER"
    assert installation.run("changes", "list", "--json").json["changes"] == []
    (undone,) = installation.run("changes", "undo", "--request", "tidy", "--json").json["undone"]
    assert undone["outcome"] == "Recorded"
    installation.run("sync", "--once")
    with server.client("vera") as client:
        assert client.uids("Later") == []
        assert len(client.uids("INBOX")) == 4
    assert installation.run("show", moved, "--json").json["folder"] == "INBOX"
    entries = installation.run("changes", "audit", "--account", "work", "--json").json["entries"]
    assert sorted(one["mutation"] for one in entries) == ["add-keywords", "relocate", "relocate", "set-flagged"]
    assert {one["outcome"] for one in entries} == {"Performed"}


@pytest.mark.spec("MCP-1", "MCP-113", "MUT-3", "MUT-13", "SYNC-2")
@pytest.mark.anyio
async def test_an_agent_reads_without_marking_and_marks_when_it_is_asked(
    installation: Installation, server: Dovecot
) -> None:
    """Proof 20 over stdio: every reading tool leaves the server's flags alone; the changes asked for arrive.

    What is offered follows the settings file without a restart of the client's process.
    """
    ids = mailbox(installation, server, "willy", permits=PERMIT)
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "mailkeep", "mcp"], env=installation.variables()
    )
    async with Client(stdio_client(command)) as client:
        offered = {tool.name for tool in (await client.list_tools()).tools}
        assert {"set_mail_flags", "move_emails", "undo_mail_change"} <= offered
        assert not {"copy_emails", "delete_emails"} & offered
        for tool, arguments in (
            ("list_accounts", {}),
            ("list_emails", {}),
            ("list_saved_searches", {}),
            ("search_emails", {"query_text": "heron"}),
            ("get_email_content", {"stored_email_ids": list(ids.values())}),
        ):
            assert not (await client.call_tool(tool, arguments)).is_error
        installation.run("sync", "--once")
        with server.client("willy") as imap:
            assert imap.flags("INBOX") == dict.fromkeys((1, 2, 3, 4), frozenset())
        arguments = {"stored_email_id": ids["Letter 2"], "seen": True, "request_id": "r"}
        answer = await client.call_tool("set_mail_flags", arguments)
        (change,) = answer.structured_content["recorded_changes"]
        assert change["state"] == "pending"
        moved = {"stored_email_ids": [ids["Letter 3"]], "destination": "LATER"}
        assert not (await client.call_tool("move_emails", moved)).is_error
        installation.run("sync", "--once")
        file = installation.home / "mailkeep.toml"
        file.write_text(file.read_text().replace("moves = true", "moves = true, copies = true"))
        ends = time.monotonic() + TIMEOUT_SECONDS
        while "copy_emails" not in {tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools}:
            assert time.monotonic() < ends, "the changed settings were not taken up"
            await anyio.sleep(0.1)
        again = await client.call_tool("set_mail_flags", arguments)
        assert again.structured_content["recorded_changes"] == [{**change, "state": "completed"}]
    with server.client("willy") as imap:
        assert imap.flags("INBOX") == {1: frozenset(), 2: frozenset(), 3: frozenset({"\\Seen"})}
        assert len(imap.uids("Later")) == 1
