"""Changing the mailbox: 5,000 messages archived in one act, and how soon a star is on the server while mailkeep serves.

The rival of the first is Python's imaplib with the one command that does it, which knows nothing of crashes: no record,
no look at what is moved, no placement kept. MAILKEEP_BENCH_CHANGES sets the number of messages.
"""

from __future__ import annotations

import asyncio
import imaplib
import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

from mailkeep.app import App
from mailkeep.mutations import Mutation, Terms
from mailkeep.mutations.model import Requester, RequesterOrigin
from mailkeep.mutations.record import ChangeRequest, record_changes
from mailkeep.sync import open_resources
from mailkeep.sync.changes import carry_out_changes

from .figure import Figure
from .first_sync import MAILKEEP, BenchmarkInvalidError, installation, sync_once, work_folder
from .mailserver import PASSWORD, USER, Dovecot, warm

MESSAGES: Final = int(os.environ.get("MAILKEEP_BENCH_CHANGES", "5000"))
STARS: Final = 9
SIGN_IN_COMMANDS: Final = 2  # CAPABILITY and LOGIN, before commands are counted
POLL_SECONDS: Final = 0.002
PATIENCE_SECONDS: Final = 60.0


def measure() -> Iterator[Figure]:
    """Yield the time and the commands of archiving, and the latency of a star."""
    with work_folder() as folder, Dovecot.start(users=(USER,), folder=folder) as server:
        server.fill(USER, "INBOX", (_message(number) for number in range(MESSAGES)))
        server.fill(USER, "Twin", (_message(number) for number in range(MESSAGES)))
        with server.client(USER) as other:
            other.create("Archive")
            other.append("Sent", _message(MESSAGES))
        warm(server)
        environment, data = installation(folder / "home", server)
        sync_once(environment, data)
        rival = _by_imaplib(server)
        seconds, commands = asyncio.run(_archive(folder / "home", server))
        yield Figure("archive_seconds", seconds, "s", "imaplib, one UID MOVE", rival)
        yield Figure("archive_commands", commands, "commands")
        latencies = _stars(folder / "home", environment, server)
        yield Figure("star_latency_p50", statistics.median(latencies) * 1000, "ms")
        yield Figure("star_latency_max", max(latencies) * 1000, "ms")


def _message(number: int) -> bytes:
    head = f"From: ann@example.com\r\nSubject: message {number}\r\nMessage-ID: <{number}@example.com>\r\n"
    return f"{head}Date: Tue, 05 Mar 2024 09:30:00 +0000\r\n\r\ntext of {number}\r\n".encode()


def _by_imaplib(server: Dovecot) -> float:
    with imaplib.IMAP4(server.host, server.ports.plain) as client:
        client.login(USER, PASSWORD)
        client.select("Twin")
        begun = time.monotonic()
        status, _ = client.uid("MOVE", "1:*", "Archive")
        if status != "OK":
            raise BenchmarkInvalidError("imaplib could not move the messages")
        return time.monotonic() - begun


async def _archive(home: Path, server: Dovecot) -> tuple[float, int]:
    """Record the act, and run the account until nothing of it is left; seconds and commands of the passes."""
    async with App.open(home) as mailkeep:
        ids = await _ids(mailkeep, "INBOX")
        if len(ids) != MESSAGES:
            raise BenchmarkInvalidError(f"{len(ids)} of {MESSAGES} messages are stored")
        (account,) = mailkeep.accounts()
        begun = time.monotonic()
        await _record(mailkeep, ids, Terms(Mutation.RELOCATE, destination_folder_path="Archive"), "archive")
        resources_of = open_resources(mailkeep.db, mailkeep.settings, home, access=mailkeep.access)
        async with resources_of as resources:
            while await _unfinished(mailkeep):
                await carry_out_changes(resources, account)
            seconds = time.monotonic() - begun
        section = mailkeep.settings.mail_synchronization
        ring, period = mailkeep.settings.data_encryption, section.write_connection_idle_period
        commands = mailkeep.access.writer(account, ring, idle_period=period).commands_sent
        with server.client(USER) as other:
            if len(other.uids("Archive")) != 2 * MESSAGES or other.uids("INBOX"):
                raise BenchmarkInvalidError("not every message was moved, or not once")
        return seconds, commands + SIGN_IN_COMMANDS


def _stars(home: Path, environment: Mapping[str, str], server: Dovecot) -> list[float]:
    """Seconds from the call to the flag on the server, of stars recorded beside a process that serves."""
    command = [str(MAILKEEP), "serve", "--port", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as serving:
        try:
            return asyncio.run(_starred(home, server))
        finally:
            serving.terminate()


async def _starred(home: Path, server: Dovecot) -> list[float]:
    latencies = []
    async with App.open(home) as mailkeep:
        (email_id,) = await _ids(mailkeep, "SENT")
        with imaplib.IMAP4(server.host, server.ports.plain) as client:
            client.login(USER, PASSWORD)
            client.select("Sent", readonly=True)
            for number in range(STARS + 1):
                wanted = number % 2 == 0
                begun = time.monotonic()
                terms = Terms(Mutation.SET_FLAGGED, desired_flagged_state=wanted)
                await _record(mailkeep, [email_id], terms, f"star {number}")
                while _is_flagged(client) is not wanted:
                    if time.monotonic() - begun > PATIENCE_SECONDS:
                        raise BenchmarkInvalidError("a star did not reach the server")
                    await asyncio.sleep(POLL_SECONDS)
                latencies.append(time.monotonic() - begun)
    return latencies[1:]  # the first waits for the process to start


def _is_flagged(client: imaplib.IMAP4) -> bool:
    client.noop()
    _, answer = client.fetch("1", "(FLAGS)")
    return b"\\Flagged" in (answer[-1] or b"")


async def _record(mailkeep: App, ids: Sequence[UUID], terms: Terms, name: str) -> None:
    requester = Requester(RequesterOrigin.COMMAND, name)
    requests = [ChangeRequest(one, terms, requester) for one in ids]
    await record_changes(mailkeep.db, requests, now=datetime.now(UTC))


async def _ids(mailkeep: App, alias: str) -> list[UUID]:
    async with mailkeep.db.connection() as connection:
        rows = await connection.execute(
            "SELECT e.id FROM stored_emails e JOIN mail_folders f ON f.id = e.mail_folder_id WHERE f.alias = %s",
            [alias],
        )
        return [row[0] for row in await rows.fetchall()]


async def _unfinished(mailkeep: App) -> bool:
    async with mailkeep.db.connection() as connection:
        rows = await connection.execute("SELECT FROM mailbox_mutations WHERE stage <> 'Completed' LIMIT 1")
        return await rows.fetchone() is not None
