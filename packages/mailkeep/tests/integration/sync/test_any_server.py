"""One scenario on every server: whatever it can and cannot do, the mirror ends as an independent client sees it.

The servers are Dovecot with all that it has, Dovecot behind a proxy that takes one extension after another away down to
RFC 3501, and Cyrus. After each step a run is made, the mirror is compared with what Python's imaplib sees (UIDs, octets
by digest, flags, keywords), and what imaplib saw before the run must still be so: nothing is ever marked as read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import proxy as proxies
from support.accounts import account_at
from support.cyrus import Cyrus
from support.dovecot import Dovecot, OtherClient
from support.engine import mail, rows, run_once
from support.proxy import Proxy
from support.view import View, mirrored, seen

from mailkeep.db import Database
from mailkeep.sync import AccountOutcome

pytestmark = pytest.mark.anyio

SERVERS = {
    "dovecot": proxies.NOTHING,
    "dovecot without QRESYNC": proxies.NO_QRESYNC,
    "dovecot without CONDSTORE": proxies.NO_CONDSTORE,
    "dovecot without LIST-STATUS": proxies.NO_LIST_STATUS,
    "dovecot with few extensions": proxies.FEW_EXTENSIONS,
    "dovecot as of RFC 3501": proxies.EVERYTHING,
    "cyrus": proxies.NOTHING,
    "cyrus without QRESYNC": proxies.NO_QRESYNC,
    "cyrus as of RFC 3501": proxies.EVERYTHING,
}
SPACE, FOREIGN, AMPERSAND, BRACKETS = "Old post", "Pr&APw-fung &MEI-", "R&-D", "per (haps) [x]"
QUOTE, BACKSLASH = 'the "best"', "back\\slash"  # names that Cyrus refuses to make


@dataclass
class Scene:
    """A mailbox on some server, another client of it, and the mirror."""

    db: Database
    home: Path
    server: Dovecot | Cyrus
    user: str
    proxy: Proxy
    other: OtherClient
    arriving: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def delimiter(self) -> str:
        return "." if isinstance(self.server, Cyrus) else "/"

    def hides(self, capability: str) -> bool:
        return self.proxy.lacks(capability)

    def put(self, folder: str, count: int, *flags: str) -> None:
        for _ in range(count):
            self.other.append(folder, mail(next(self.numbers)), flags=flags)

    def view(self) -> View:
        return seen(self.server.ports.plain, self.user)

    async def run(self) -> AccountOutcome:
        account = account_at(self.proxy.port, user_name=self.user)
        return await run_once(self.db, self.home, account, until_complete=True, max_metadata_batch_size=5)

    async def settled(self) -> View:
        """Run once; the mirror equals the mailbox, which is as it was before the run."""
        before = self.view()
        outcome = await self.run()
        assert not outcome.is_failed, outcome
        assert {binding.remote_path for binding in outcome.resolved} == set(before)
        assert self.view() == before
        assert await mirrored(self.db, set(before)) == before
        return before


@pytest.fixture(params=SERVERS)
def scene(request: pytest.FixtureRequest, db: Database, tmp_path: Path, user: str) -> Iterator[Scene]:
    server: Dovecot | Cyrus = request.getfixturevalue(request.param.split()[0])
    with ExitStack() as stack:
        other = stack.enter_context(server.client(user))
        proxy = stack.enter_context(Proxy(server.ports.plain, hides=SERVERS[request.param]))
        yield Scene(db, tmp_path, server, user, proxy, other)


@pytest.mark.spec("SYNC-17", "SYNC-29", "SYNC-52", "SYNC-56", "SYNC-69", "SYNC-70", "SYNC-72", "SYNC-75", "SYNC-76")
@pytest.mark.case("71", "73", "77", "80", "82", "22", "23", "49", "65")
async def test_arrivals_flags_keywords_moves_and_expunges_are_followed(scene: Scene) -> None:
    """In folders of every kind of name, with mail that arrives in the middle of a run and a move by another client."""
    other, names = scene.other, [SPACE, FOREIGN, AMPERSAND, BRACKETS, f"Top{scene.delimiter}Sub"]
    names += [] if isinstance(scene.server, Cyrus) else [QUOTE, BACKSLASH]
    for name in names:
        other.create(name)
        scene.put(name, 2)
    scene.put("INBOX", 12)
    scene.put("INBOX", 1, "\\Seen", "\\Answered")
    arriving = iter(["late"])

    def arrive(_: int, command: str) -> None:
        if "BODY.PEEK[]" in command and (name := next(arriving, None)):
            other.append("INBOX", mail(name), flags=["\\Flagged"])
            other.flag("INBOX", 2, "\\Flagged")
            other.expunge("INBOX", 1)

    scene.proxy.before_command = arrive
    assert not (await scene.run()).is_failed
    assert next(arriving, None) is None
    view = await scene.settled()
    assert set(names) <= set(view)
    assert len(view["INBOX"][1]) == 13

    other.flag("INBOX", "3:5", "\\Seen", "$Forwarded", "Work")
    other.flag("INBOX", 6, "\\Deleted")
    other.unflag("INBOX", 13, "\\Answered")
    other.flag(FOREIGN, 1, "\\Draft")
    await scene.settled()
    other.unflag("INBOX", 4, "Work", "\\Seen")
    other.move("INBOX", "7:8", SPACE)
    other.expunge("INBOX", 9)
    other.expunge("INBOX", 14)
    scene.put("INBOX", 1)
    other.expunge(AMPERSAND, "1:*")
    view = await scene.settled()
    assert (len(view[SPACE][1]), len(view[AMPERSAND][1])) == (4, 0)

    assert scene.proxy.refused == []  # nothing is asked of a server that it does not offer
    assert bool(scene.proxy.count("VANISHED")) is not scene.hides("QRESYNC")
    assert bool(scene.proxy.count("CHANGEDSINCE")) is not scene.hides("CONDSTORE")
    assert bool(scene.proxy.count("RETURN (ALL)")) is not scene.hides("ESEARCH")
    bodies = scene.proxy.count("BODY.PEEK")
    outcome = await scene.run()
    assert scene.proxy.count("BODY.PEEK") == bodies
    assert all(folder.arrivals.stored == folder.flags_changed == folder.gone == 0 for folder in outcome.folders)


@pytest.mark.spec("SYNC-19", "SYNC-30", "SYNC-51", "SYNC-71", "SYNC-25")
@pytest.mark.case("1", "2", "4")
async def test_folders_renamed_recreated_and_repointed_are_followed(scene: Scene) -> None:
    """A renamed folder, one that was made anew under its old name, and one whose mail has new UIDs and UIDVALIDITY."""
    other = scene.other
    for name in ("Plan", "Again", "Moved"):
        other.create(name)
        scene.put(name, 6)
    other.flag("Moved", 2, "\\Flagged", "\\Seen", "Kept")
    await scene.settled()
    ids = await _ids(scene.db, "Moved")

    other.rename("Plan", "Old plan")
    other.delete("Again")
    other.create("Again")
    scene.put("Again", 4)
    view = await scene.settled()
    assert "Plan" not in view

    other.give_new_uids("Moved", skipping=1)
    scene.put("Moved", 1)
    bodies = scene.proxy.count("BODY.PEEK[]")
    view = await scene.settled()
    assert sorted(view["Moved"][1]) == [1, 2, 3, 4, 5, 6]
    after = await _ids(scene.db, "Moved")
    assert {digest: after[digest] for digest in ids if digest in after} == {
        digest: identity for digest, identity in ids.items() if digest in after
    }
    assert len(set(ids) & set(after)) == 5
    assert scene.proxy.count("BODY.PEEK[]") == bodies + 1  # the one that arrived
    await scene.settled()


async def _ids(db: Database, path: str) -> dict[str, tuple[Any, ...]]:
    """What a message is to everything derived from it, by its digest."""
    found = await rows(
        db,
        """
        SELECT encode(c.sha256_hash, 'hex'), e.id, e.email_thread_id, e.stored_at, c.stored_at, d.extracted_at
        FROM stored_emails e JOIN mail_folders f ON f.id = e.mail_folder_id
        JOIN email_message_contents c ON c.stored_email_id = e.id
        JOIN email_search_documents d ON d.stored_email_id = e.id
        WHERE f.remote_path = %s AND e.remote_expunge_observed_at IS NULL
        """,
        path,
    )
    return {row[0]: tuple(row[1:]) for row in found}
