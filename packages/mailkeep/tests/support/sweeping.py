"""A mailbox in which changes are interrupted again and again, and looked at by an independent client after each restart.

One message is the target of each interruption. Its neighbours are there to be left alone: ordinary ones, and one that
another client marked as deleted. `Scene.check` says where the target must be for what its row says, and that nothing
else has changed.
"""

from __future__ import annotations

import imaplib
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self
from uuid import UUID

from support.converging import DELETE, READ, STAR, UNSTAR, Mirrored, copy_to, keywords, move_to
from support.cyrus import Cyrus
from support.dovecot import PASSWORD, Dovecot
from support.engine import mail, run_once
from support.proxy import Proxy

from mailkeep.db import Database
from mailkeep.mutations import Mutation, Stage, Terms
from mailkeep.mutations.converge import Converged
from mailkeep.sync.resources import utc_now

NO_MOVE: Final = frozenset({"MOVE"})
NO_UIDPLUS: Final = frozenset({"UIDPLUS"})
SERVERS: Final = {
    "dovecot": frozenset[str](),
    "cyrus": frozenset[str](),
    "dovecot without MOVE": NO_MOVE,
    "dovecot without UIDPLUS": NO_UIDPLUS,
    "dovecot without both": NO_MOVE | NO_UIDPLUS,
}
CARRIED: Final = ("\\Answered", "\\Draft", "kept")
"""What every target carries from the beginning, set by another client."""
CHANGES: Final[Mapping[str, Terms]] = {
    "relocate": move_to("Sent"),
    "copy": copy_to("Sent"),
    "delete": DELETE,
    "set-seen": READ,
    "set-flagged": STAR,
    "unset-flagged": UNSTAR,
    "add-keywords": keywords(Mutation.ADD_KEYWORDS, "todo", "later"),
    "remove-keywords": keywords(Mutation.REMOVE_KEYWORDS, "kept"),
    "set-keywords": keywords(Mutation.SET_KEYWORDS, "todo"),
}
FLAGS_AFTER: Final = {
    "set-seen": {*CARRIED, "\\Seen"},
    "set-flagged": {*CARRIED, "\\Flagged"},
    "unset-flagged": {*CARRIED},
    "add-keywords": {*CARRIED, "todo", "later"},
    "remove-keywords": {"\\Answered", "\\Draft"},
    "set-keywords": {"\\Answered", "\\Draft", "todo"},
}
NEIGHBOURS: Final = 3
_ITEM = re.compile(rb"FLAGS \(([^)]*)\)")
_ID = re.compile(rb"message-id:\s*<([^>]*)>", re.IGNORECASE)

View = dict[str, Counter[tuple[str, frozenset[str]]]]
"""What each folder holds: Message-ID and flags, and how often."""


class Onlooker:
    """Python's imaplib, straight at the server."""

    def __init__(self, port: int, user: str) -> None:
        self._imap = imaplib.IMAP4("127.0.0.1", port, timeout=30)
        self._imap.login(user, PASSWORD)

    def view(self) -> View:
        return {folder: self._folder(folder) for folder in ("INBOX", "Sent")}

    def close(self) -> None:
        self._imap.logout()

    def _folder(self, folder: str) -> Counter[tuple[str, frozenset[str]]]:
        self._imap.select(folder, readonly=True)
        status, answer = self._imap.uid("FETCH", "1:*", "(FLAGS BODY.PEEK[HEADER.FIELDS (MESSAGE-ID)])")
        assert status == "OK", answer
        found: Counter[tuple[str, frozenset[str]]] = Counter()
        for item, after in itertools.zip_longest(answer, answer[1:]):
            if not isinstance(item, tuple):
                continue
            flags = _ITEM.search(item[0]) or _ITEM.search(after if isinstance(after, bytes) else b"")
            named = _ID.search(item[1])
            assert flags is not None
            assert named is not None
            names = frozenset(flags[1].decode().split()) - {"\\Recent"}
            found[named[1].decode(), names] += 1
        return found


@dataclass
class Scene:
    """One server as it seems, one mailbox on it."""

    mailbox: Mirrored
    server: Dovecot | Cyrus
    user: str
    proxy: Proxy
    hides: frozenset[str]
    onlooker: Onlooker
    numbers: Iterator[int] = field(default_factory=itertools.count)
    targets: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    @contextmanager
    def _opened(cls, server: Dovecot | Cyrus, user: str, hides: frozenset[str]) -> Iterator[tuple[Proxy, Onlooker]]:
        with ExitStack() as stack:
            proxy = stack.enter_context(Proxy(server.ports.plain, hides=hides))
            onlooker = Onlooker(server.ports.plain, user)
            stack.callback(onlooker.close)
            yield proxy, onlooker

    @classmethod
    async def of(
        cls, stack: ExitStack, db: Database, home: Path, server: Dovecot | Cyrus, user: str, kind: str
    ) -> Self:
        """A mailbox with its neighbours in place."""
        with server.client(user) as other:
            for number in range(NEIGHBOURS):
                other.append("INBOX", mail(f"neighbour{number}"), flags=["\\Seen"])
            other.append("INBOX", mail("doomed"), flags=["\\Deleted"])
            other.append("Sent", mail("sent"), flags=["\\Deleted"])
        hides = SERVERS[kind]
        proxy, onlooker = stack.enter_context(cls._opened(server, user, hides))
        mailbox = await Mirrored.of(db, home, server.ports.plain, user, max_mutation_attempts=100)
        mailbox.at(proxy.port)
        return cls(mailbox, server, user, proxy, hides, onlooker)

    async def target(self) -> tuple[int, str]:
        """The UID and Message-ID of a message that nothing was done to yet."""
        if not self.targets:
            with self.server.client(self.user) as other:
                for _ in range(20):
                    name = f"target{next(self.numbers)}"
                    uid = other.append("INBOX", mail(name), flags=CARRIED)
                    self.targets.append((uid, f"{name}@example.com"))
            await run_once(self.mailbox.db, self.mailbox.home, self.mailbox.account)
        return self.targets.pop(0)

    @property
    def refuses(self) -> frozenset[str]:
        """The changes for which this server has no safe way."""
        if not self.hides >= NO_UIDPLUS:
            return frozenset()
        return frozenset({"delete", "relocate"} if self.hides >= NO_MOVE else {"delete"})

    async def check(self, name: str, change: UUID, target: str, before: View) -> Stage:
        """After one restart: the target is where its row says, once, and everything else is as it was."""
        after = self.onlooker.view()
        row = await self.mailbox.row(change)
        assert others(after, target) == others(before, target)
        here, there = flags_of(after["INBOX"], target), flags_of(after["Sent"], target)
        origin = [frozenset(CARRIED)]
        if row.stage is Stage.PLACEMENT_ISSUED:
            assert row.last_failure_code == 25002
            if name == "relocate" and not row.requires_source_removal:
                assert here + there == origin
            else:
                assert here == origin
                assert there in ([], origin)
            await self._expire(change, after)
        elif name in self.refuses:
            assert (row.stage, row.last_failure_code) == (Stage.ABANDONED, 25001)
            assert (here, there) == (origin, [])
        else:
            assert (row.stage, row.last_failure_code) == (Stage.COMPLETED, None), (name, row.stage, here, there)
            expected = {
                "relocate": ([], origin),
                "copy": (origin, origin),
                "delete": ([], []),
            }.get(name) or ([frozenset(FLAGS_AFTER[name])], [])
            assert (here, there) == expected
        return row.stage

    async def _expire(self, change: UUID, before: View) -> None:
        """An unknown outcome is never sent again, and given up after the grace without a command."""
        sent = len(self.proxy.commands)
        self.mailbox.now = lambda: utc_now() + timedelta(hours=7)
        await self.mailbox.converge()
        self.mailbox.now = utc_now
        row = await self.mailbox.row(change)
        assert (row.stage, row.last_failure_code) == (Stage.ABANDONED, 25002)
        assert len(self.proxy.commands) == sent
        assert self.onlooker.view() == before

    def sweep_up(self) -> None:
        """Take away what earlier targets left at the destination, so that looking stays quick."""
        with self.server.client(self.user) as other:
            if left := [uid for uid, flags in other.flags("Sent").items() if "\\Deleted" not in flags]:
                other.expunge("Sent", ",".join(str(uid) for uid in left))

    async def undisturbed(self, name: str) -> Converged:
        """The change carried out without any interruption, and checked."""
        uid, message_id = await self.target()
        before = self.onlooker.view()
        change = await self.mailbox.asked(uid, CHANGES[name])
        converged = await self.mailbox.converge()
        await self.check(name, change, message_id, before)
        return converged


def others(view: View, target: str) -> dict[str, Any]:
    """All messages but the target."""
    return {folder: {key: count for key, count in found.items() if key[0] != target} for folder, found in view.items()}


def flags_of(found: Counter[tuple[str, frozenset[str]]], target: str) -> list[frozenset[str]]:
    """The flags of each message of that Message-ID."""
    return [flags for (name, flags), count in found.items() if name == target for _ in range(count)]


def sample(points: Sequence[int], at_most: int | None, chance: Any) -> list[int]:
    """Some of the points, in order; all without a limit."""
    return list(points) if at_most is None or at_most >= len(points) else sorted(chance.sample(points, at_most))


def drawn(is_whole: bool) -> list[tuple[str, Terms]]:
    """The changes to interrupt: all of them, or those that place and remove messages and two of the others."""
    idempotent = [name for name in CHANGES if name not in {"relocate", "copy", "delete"}]
    chosen = idempotent if is_whole else random.sample(idempotent, 2)
    return [(name, CHANGES[name]) for name in ("relocate", "copy", "delete", *chosen)]
