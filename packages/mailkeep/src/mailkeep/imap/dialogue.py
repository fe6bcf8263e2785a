"""Commands and their answers over a signed-in stream.

Only the verbs below can be sent. There is no STORE, APPEND, COPY, MOVE, EXPUNGE, SELECT, CREATE or DELETE here, no way
to name one, and a FETCH of a body goes out only as BODY.PEEK (SYNC-29); `writing.py` has the one channel that changes
mailboxes, with a closed list of its own. Why IMAPClient's own command methods are not used after sign-in is recorded in
docs/decisions/0004-reading-imap.md.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mailkeep.errors import CommandRefused, MailServerUnavailable
from mailkeep.imap.advice import Advice, PauseReason, read_advice
from mailkeep.imap.lexer import Unreadable, announced_literal
from mailkeep.imap.responses import response_code
from mailkeep.imap.stream import MAX_LINE_OCTETS, Stream

READING_VERBS = frozenset(
    {
        b"CAPABILITY",
        b"ENABLE",
        b"EXAMINE",
        b"ID",
        b"LIST",
        b"LOGOUT",
        b"NAMESPACE",
        b"NOOP",
        b"STATUS",
        b"UID FETCH",
        b"UID SEARCH",
    }
)
_VERB = re.compile(rb"(UID )?[A-Z]+")
_MARKING_BODY = re.compile(rb"BODY\[|RFC822(?!\.SIZE)", re.IGNORECASE)
_UNTAGGED = re.compile(rb"\* (?:(\d{1,10}) )?([A-Za-z][A-Za-z0-9-]*) ?")
_STATUS_KINDS = frozenset({b"OK", b"NO", b"BAD", b"BYE", b"PREAUTH"})
_LASTING_TROUBLE = re.compile(
    rb"throttl|too many|try again|temporar|overquota|bandwidth|backoff|unavailable|rate limit"
    rb"|number of [a-z ]*connections|connection limit",
    re.IGNORECASE,
)
_TRANSIENT_CODES = frozenset({b"UNAVAILABLE", b"INUSE", b"LIMIT", b"OVERQUOTA", b"SERVERBUG", b"THROTTLED"})

LARGEST_DRAINED_LITERAL = 4 * 1024 * 1024  # beyond this an unwanted literal costs less as a new connection


class LiteralAbandoned(MailServerUnavailable):
    """A literal far above the caller's limit began; the connection is closed rather than the octets read (SYNC-61)."""

    def __init__(self, uid: int | None, size: int) -> None:
        super().__init__("a message much larger than announced was abandoned together with its connection")
        self.uid = uid
        self.size = size


class AskedToComeBack(MailServerUnavailable):
    """The server refused because of load or quota. No message is at fault, and asking again at once would not help.

    `advice` says why, and for how long the account is to be left alone.
    """

    def __init__(self, message: str, advice: Advice = Advice(PauseReason.BUSY, None)) -> None:  # noqa: B008  -- frozen
        super().__init__(message)
        self.advice = advice


@dataclass(slots=True)
class Untagged:
    """One untagged response. `pieces[0][start:]` begins after the response's name."""

    kind: bytes
    number: int | None
    pieces: list[bytes]
    start: int
    discarded: int | None = None

    @property
    def text(self) -> bytes:
        return self.pieces[0][self.start :]


@dataclass(frozen=True, slots=True)
class Completion:
    """How a command ended: OK, NO or BAD, and the text behind it, which may hold anything."""

    status: bytes
    text: bytes

    @property
    def is_ok(self) -> bool:
        return self.status == b"OK"


@dataclass(slots=True)
class Command:
    """A command to send, and who takes its untagged answers. Parts that cannot be quoted are `Literal`."""

    parts: Sequence[bytes]
    receive: Callable[[Untagged], None] = field(default=lambda _: None)
    literal_limit: int | None = None


class Literal(bytes):
    """An argument that goes out as a literal."""

    __slots__ = ()


class Dialogue:
    """The command channel of one connection. Not thread-safe: one thread owns it."""

    verbs = READING_VERBS

    def __init__(
        self,
        stream: Stream,
        *,
        command_timeout: float,
        synchronizing_literals: bool = True,
        vanished: Callable[[Untagged], None] = lambda _: None,
    ) -> None:
        """`vanished` takes every VANISHED response, whatever command it came with (RFC 7162 §3.2.10)."""
        self._stream = stream
        self._vanished = vanished
        self._timeout = command_timeout
        self._synchronizing = synchronizing_literals
        self._counter = 0
        self.commands_sent = 0

    def run(self, command: Command) -> Completion:
        """Send one command and read to its end. Raises MailServerUnavailable when the connection is of no more use."""
        return self.run_all([command])[0]

    def run_all(self, commands: Sequence[Command]) -> list[Completion]:
        """Send commands back to back, then read their answers: one round trip for all of them.

        Only for commands whose untagged answers tell by themselves what they answer (STATUS names its folder), and
        whose order does not matter, or of which the others wait for the first, as they do for EXAMINE (RFC 9051 §5.5).
        A server may work on several at once: an untagged answer is given to the first command that has not ended.
        """
        tags: list[bytes] = []
        ended: dict[bytes, Completion] = {}
        self._stream.deadline = time.monotonic() + self._timeout
        for command in commands:
            self._counter += 1
            tags.append(b"K%d" % self._counter)
            self._send(tags[-1], command)
        for tag, command in zip(tags, commands, strict=True):
            while tag not in ended:
                self._read(command, tags, ended)
        return [ended[tag] for tag in tags]

    def _may_send(self, verb: bytes, line: bytes) -> bool:
        """Whether this kind of session has such a command. A body is fetched only as BODY.PEEK, by any of them."""
        return verb in self.verbs and not (verb == b"UID FETCH" and _MARKING_BODY.search(line))

    def _send(self, tag: bytes, command: Command) -> None:
        line = b" ".join(part for part in command.parts if not isinstance(part, Literal))
        verb = _VERB.match(line)
        if verb is None or not self._may_send(verb[0], line):
            raise AssertionError("this session has no such command")
        self.commands_sent += 1
        out = bytearray(tag)
        for part in command.parts:
            if isinstance(part, Literal):
                out += b" {%d%s}\r\n" % (len(part), b"" if self._synchronizing else b"+")
                if self._synchronizing:
                    self._stream.send(bytes(out))
                    out.clear()
                    self._await_continuation()
                out += part
            else:
                out += b" " + part
        self._stream.send(bytes(out) + b"\r\n")

    def _await_continuation(self) -> None:
        if not self._line().startswith(b"+"):
            raise MailServerUnavailable("the mail server did not take a literal")

    def _read(self, command: Command, tags: Sequence[bytes], ended: dict[bytes, Completion]) -> None:
        """Read one response: the end of one of the commands under way, or an answer for `command`."""
        line = self._line()
        tag, _, rest = line.partition(b" ")
        if line[:1] == b"K" and tag in tags and tag not in ended:
            status, _, text = rest.partition(b" ")
            if status.upper() not in {b"OK", b"NO", b"BAD"}:
                raise MailServerUnavailable("the mail server ended a command in a way IMAP does not know")
            ended[tag] = Completion(status.upper(), text)
            return
        response = self._untagged(line, command.literal_limit)
        if response.kind == b"VANISHED":
            self._vanished(response)
        else:
            command.receive(response)

    def _untagged(self, line: bytes, limit: int | None) -> Untagged:
        match = _UNTAGGED.match(line)
        if match is None:
            # Also what a wrong literal length looks like: what follows must never be read as protocol.
            raise MailServerUnavailable("the mail server's answer lost its framing")
        kind = match[2].upper()
        if kind == b"BYE":
            raise MailServerUnavailable("the mail server ended the connection")
        response = Untagged(kind, int(match[1]) if match[1] else None, [line], match.end())
        if kind not in _STATUS_KINDS:
            self._read_literals(response, limit)
        return response

    def _read_literals(self, response: Untagged, limit: int | None) -> None:
        room = MAX_LINE_OCTETS + (limit or 0)  # for one response as a whole, however many literals it has
        while (size := announced_literal(response.pieces[-1])) is not None:
            if limit is not None and size > limit:
                response.discarded = size
                if size - limit > LARGEST_DRAINED_LITERAL:
                    self._stream.close()
                    raise LiteralAbandoned(_uid_before_literal(response.pieces[0]), size)
                self._stream.discard(size)
                response.pieces.append(b"")
            elif size > room:
                self._stream.close()
                raise MailServerUnavailable(f"the mail server sent an answer of more than {MAX_LINE_OCTETS} octets")
            else:
                response.pieces.append(self._stream.read(size))
            response.pieces.append(self._line())
            room -= len(response.pieces[-2]) + len(response.pieces[-1])

    def _line(self) -> bytes:
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise MailServerUnavailable("the mail server closed the connection")
        return line[:-2] if line.endswith(b"\r\n") else line[:-1]


def require_ok(completion: Completion, what: str) -> None:
    """Raise for NO and BAD: AskedToComeBack when the text speaks of a passing trouble, else CommandRefused.

    The server's text is judged, never repeated: it may hold a folder's name or an address.
    """
    if completion.is_ok:
        return
    if speaks_of_passing_trouble(completion):
        raise AskedToComeBack(f"the mail server asks to come back later ({what})", read_advice(completion.text))
    raise CommandRefused(f"the mail server refused: {what}")


def speaks_of_passing_trouble(completion: Completion) -> bool:
    """Whether a refusal is about load or quota, so that waiting helps and no message is at fault."""
    code, _ = response_code(completion.text)
    return code in _TRANSIENT_CODES or bool(_LASTING_TROUBLE.search(completion.text))


def _uid_before_literal(text: bytes) -> int | None:
    match = re.search(rb"\(.*?\bUID (\d{1,10})\b", text, re.IGNORECASE)
    return int(match[1]) if match else None


__all__ = [
    "AskedToComeBack",
    "Command",
    "Completion",
    "Dialogue",
    "Literal",
    "LiteralAbandoned",
    "Unreadable",
    "Untagged",
    "require_ok",
    "speaks_of_passing_trouble",
]
