"""What every session type is made of: one signed-in connection, one worker thread, and an async surface over both.

A connection that failed or was cancelled in the middle of a command is closed without LOGOUT and is of no more use
(SYNC-31); whoever needs it opens a new one. What may be said on it is the dialogue's closed list of verbs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from mailkeep.config import AccountSettings
from mailkeep.errors import CommandRefused, IncompleteAnswer
from mailkeep.imap.dialogue import Command, Dialogue, Literal, Untagged
from mailkeep.imap.model import Timeouts
from mailkeep.imap.names import octets_of_key, quote
from mailkeep.imap.signin import sign_in
from mailkeep.imap.stream import Stream

if TYPE_CHECKING:
    from pydantic import SecretStr

T = TypeVar("T")


class Connection:
    """Use one method at a time; `connect` opens, `close` says LOGOUT. Session types add their commands."""

    thread_name = "mailkeep-imap"

    def __init__(self, executor: ThreadPoolExecutor, stream: Stream, timeouts: Timeouts) -> None:
        self._executor = executor
        self._stream = stream
        self._timeouts = timeouts
        self.dialogue = self._new_dialogue(synchronizing_literals=True)
        self.capabilities: frozenset[str] = frozenset()
        self.withdrawn: frozenset[str] = frozenset()
        self.is_usable = True

    @classmethod
    async def connect(
        cls,
        account: AccountSettings,
        secret: SecretStr | None,
        *,
        token: SecretStr | None = None,
        timeouts: Timeouts | None = None,
    ) -> Self:
        """Connect, protect, sign in and read the capabilities. Raises what `signin.sign_in` raises."""
        timeouts = timeouts or Timeouts()
        session = cls(ThreadPoolExecutor(1, thread_name_prefix=cls.thread_name), Stream(idle=timeouts.idle), timeouts)
        try:
            await session._run(partial(session._establish, account, secret, token))
        except BaseException:
            session.abandon()
            raise
        return session

    @property
    def commands_sent(self) -> int:
        """Commands sent since signing in."""
        return self.dialogue.commands_sent

    @property
    def octets_received(self) -> int:
        return self._stream.octets_received

    def offers(self, capability: str) -> bool:
        """Whether the server named this capability after signing in, in whatever case."""
        return capability.upper() in self.capabilities

    def withdraw(self, *capabilities: str) -> None:
        """Do without extensions that the server names and then does not understand, or lies about."""
        self.capabilities -= set(capabilities)
        self.withdrawn |= set(capabilities)

    async def close(self) -> None:
        """Say LOGOUT when that is still possible, for at most the farewell time, and close."""
        if self.is_usable:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(self._timeouts.farewell):
                    await self._run(partial(self.dialogue.run, Command([b"LOGOUT"])))
        self.abandon()

    def abandon(self) -> None:
        """Close at once without LOGOUT: a dead server would hold the farewell (SYNC-31). Safe from any state."""
        self.is_usable = False
        self._stream.close()
        self._executor.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        """Run one piece of blocking work in the connection's own thread; cancelling it cuts the connection."""
        future = asyncio.get_running_loop().run_in_executor(self._executor, work)
        try:
            return await asyncio.shield(future)
        except (CommandRefused, IncompleteAnswer):
            raise  # the dialogue is in step: only this command failed
        except BaseException:
            self.is_usable = False
            self._stream.cut()
            with contextlib.suppress(BaseException):
                await asyncio.wait([future], timeout=self._timeouts.farewell)
            if future.done() and not future.cancelled():
                future.exception()  # taken note of, so that nobody reports it as lost
            self._stream.close()
            raise

    # What follows runs in the worker thread.

    def break_off(self) -> None:
        """Close in the middle of an answer that is not to be read to its end."""
        self._stream.close()

    def _new_dialogue(self, *, synchronizing_literals: bool) -> Dialogue:
        """The channel of this session type, with its closed list of verbs."""
        raise NotImplementedError

    def _establish(self, account: AccountSettings, secret: SecretStr | None, token: SecretStr | None) -> None:
        self.capabilities = sign_in(account, secret, self._stream, connect_timeout=self._timeouts.connect, token=token)
        if not self.capabilities:
            self.dialogue.run(Command([b"CAPABILITY"], self._note_capabilities))
        self.dialogue = self._new_dialogue(synchronizing_literals=not self.capabilities & {"LITERAL+", "LITERAL-"})
        if self.offers("ID"):
            # `ID NIL`, since some servers answer BAD to an empty list. Its outcome does not matter.
            self.dialogue.run(Command([b"ID", b"NIL"]))

    def _note_capabilities(self, response: Untagged) -> None:
        if response.kind == b"CAPABILITY":
            self.capabilities = frozenset(response.text.decode("latin-1").upper().split())


def mailbox_argument(path: str) -> bytes:
    """A folder's path as an argument of a command: quoted, or a literal where it cannot be."""
    octets = octets_of_key(path)
    return quote(octets) or Literal(octets)
