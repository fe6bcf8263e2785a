"""The session that waits: what it can send, what it is told, how it ends."""

import socket

import pytest
from pydantic import SecretStr
from support.accounts import account_at
from support.scripted_imap import PASSWORD, ScriptedImap

from mailkeep.errors import MailServerUnavailable
from mailkeep.imap import Timeouts, WatchingSession
from mailkeep.imap.dialogue import Command
from mailkeep.imap.watching import WATCHING_VERBS, WatchingDialogue

pytestmark = pytest.mark.anyio

QUICK = Timeouts(connect=5, idle=0.3, command=5, farewell=0.2)
OPEN = "> EXAMINE *\n* 3 EXISTS\nOK done\n"


async def connect(server: ScriptedImap) -> WatchingSession:
    session = await WatchingSession.connect(account_at(server.port), SecretStr(PASSWORD), timeouts=QUICK)
    await session.examine("INBOX")
    return session


@pytest.mark.spec("SYNC-29")
async def test_a_watching_session_has_no_verb_that_reads_or_changes_mail() -> None:
    """The list is closed: anything else is refused before a byte of it goes out."""
    assert {b"CAPABILITY", b"EXAMINE", b"ID", b"IDLE", b"LOGOUT", b"NOOP", b"NOTIFY", b"STATUS"} == WATCHING_VERBS
    async with ScriptedImap(OPEN) as server:
        session = await connect(server)
        dialogue: WatchingDialogue = session.dialogue
        for verb in (b"SELECT INBOX", b"UID STORE 1 +FLAGS (\\Seen)", b"UID FETCH 1 (FLAGS)", b"APPEND", b"EXPUNGE"):
            with pytest.raises(AssertionError):
                dialogue.run(Command([verb]))
        await session.close()
    assert server.commands == ["CAPABILITY", 'LOGIN "anna" "open sesame"', "CAPABILITY", 'EXAMINE "INBOX"', "LOGOUT"]


@pytest.mark.spec("SYNC-88")
@pytest.mark.case("50")
async def test_a_wait_is_renewed_on_the_same_connection_and_the_connection_is_kept_alive() -> None:
    """DONE and IDLE again after the renewal interval; probes find a flow that was dropped on the way."""
    script = OPEN + ">> IDLE\n!continue idling\nOK done\n>> STATUS *\n* STATUS INBOX (MESSAGES 3)\nOK done\n"
    async with ScriptedImap(script) as server:
        session = await connect(server)
        for _ in range(3):
            assert not await session.wait(0.02)
        connected = session._stream._socket
        assert connected is not None
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        await session.close()
        assert server.answers == [b"DONE"] * 3
        assert server.connections == 1


@pytest.mark.spec("SYNC-87")
@pytest.mark.parametrize("event", ["4 EXISTS", "2 EXPUNGE", "VANISHED 7", "2 FETCH (FLAGS (\\\\Seen))"])
async def test_arrivals_removals_and_flags_end_a_wait(event: str) -> None:
    """Both spellings of a removal count."""
    async with ScriptedImap(f"{OPEN}> IDLE\n* {event}\n!continue idling\nOK done\n") as server:
        session = await connect(server)
        assert await session.wait(30)
        await session.close()


async def test_what_only_keeps_the_connection_warm_is_no_news() -> None:
    """Dovecot says "still here"; others repeat the number of messages."""
    script = f"{OPEN}> IDLE\n* OK Still here\n* 3 EXISTS\n* 0 RECENT\n!continue idling\nOK done\n"
    async with ScriptedImap(script) as server:
        session = await connect(server)
        assert not await session.wait(0.05)
        await session.close()


@pytest.mark.parametrize("script", ["!hang", "!continue idling\n!hang", "* OK [NOTIFICATIONOVERFLOW] x\n!hang"])
async def test_a_server_that_falls_silent_or_stops_telling_ends_the_session(script: str) -> None:
    """Neither the go-ahead nor the end of IDLE is waited for without bound."""
    async with ScriptedImap(f"{OPEN}> IDLE\n{script}\n") as server:
        session = await connect(server)
        with pytest.raises(MailServerUnavailable):
            await session.wait(0.02)
        assert not session.is_usable
        session.abandon()
