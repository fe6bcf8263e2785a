r"""An IMAP server that says exactly what a test tells it to say, octet for octet.

    SCRIPT = r'''
    >> EXAMINE "INBOX"*
    * 2 EXISTS
    * OK [UIDVALIDITY 7]
    OK done
    > UID FETCH 1:2 *
    * 1 FETCH (UID 1 BODY[] {{Subject: one\r\n\r\n}})
    * 2 FETCH (UID 2 BODY[] {{99|too short}})
    !cut
    '''
    async with ScriptedImap(SCRIPT) as server:
        ...                                     # point a session at server.host, server.port
    assert server.unexpected == []

One rule per command, to add a case write ten lines:

    > PATTERN     answered once; the first unused rule that matches wins
    >> PATTERN    answered whenever no `>` rule matches
    other lines   the answer, sent with CRLF; a line that starts with OK, NO or BAD is sent behind the command's tag

`PATTERN` is matched against the command without its tag, without regard to case, with `*` for anything. In answers
`\r`, `\n` and `\xNN` are that octet, `{{text}}` is a literal with its right length, `{{99|text}}` one that lies.
`!cut` closes the connection at that point, `!wait SECONDS` delays, `!hang` says nothing more until the client leaves,
`!bare` sends the next line without CRLF, `!continue [TEXT]` sends `+ TEXT` and records the line that comes back in
`answers`. Signing in, ID, NAMESPACE, NOOP and LOGOUT are answered without being told;
a rule of the script goes first. `commands` records what clients sent, tags removed, literals in place.
Accepts synchronizing `{n}` and immediate `{n+}` literals.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Self

from support.connections import end_connections

USER = "anna"
PASSWORD = "open sesame"
_ESCAPE = re.compile(rb"\\(?:r|n|\\|x[0-9A-Fa-f]{2})")
_LITERAL = re.compile(rb"\{\{(?:(\d+)\|)?(.*?)\}\}", re.DOTALL)
_CLIENT_LITERAL = re.compile(rb"\{(\d+)(\+?)\}\r\n$")


@dataclass(slots=True)
class Rule:
    """One command pattern and its answer."""

    pattern: re.Pattern[str]
    once: bool
    answer: list[str] = field(default_factory=list)
    used: int = 0


class ScriptedImap:
    """The server; an async context manager that listens on a free loopback port."""

    host = "127.0.0.1"

    def __init__(self, script: str = "", *, capabilities: str = "IMAP4rev1", greeting: str = "* OK ready") -> None:
        self._rules = parse(script) + parse(_STANDING.replace("CAPABILITIES", capabilities))
        self._greeting = greeting
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._news = asyncio.Condition()
        self.commands: list[str] = []
        self.unexpected: list[str] = []
        self.answers: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self.host, 0, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await end_connections(self._writers)

    def sent(self, word: str) -> list[str]:
        """The commands received so far that hold `word`."""
        return [command for command in self.commands if word in command]

    async def received(self, word: str) -> None:
        """Wait until a command that holds `word` has arrived."""
        async with self._news:
            await self._news.wait_for(lambda: bool(self.sent(word)))

    def unused(self) -> list[str]:
        """Patterns of `>` rules that no command has met."""
        return [rule.pattern.pattern for rule in self._rules if rule.once and not rule.used]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            writer.write(octets_of(self._greeting) + b"\r\n")
            while line := await self._command(reader, writer):
                tag, _, command = line.partition(" ")
                async with self._news:
                    self.commands.append(command)
                    self._news.notify_all()
                await self._answer(tag, command, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, _Cut):
            pass
        finally:
            writer.close()

    async def _command(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        line = b""
        while True:
            part = await reader.readline()
            if not part:
                return ""
            line += part
            match = _CLIENT_LITERAL.search(part)
            if match is None:
                return line.removesuffix(b"\r\n").decode("latin-1")
            if not match[2]:
                writer.write(b"+ go on\r\n")
            line = line[: -len(match[0])] + await reader.readexactly(int(match[1]))

    async def _answer(self, tag: str, command: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rule = self._rule_for(command)
        if rule is None:
            self.unexpected.append(command)
            writer.write(f"{tag} BAD no rule of the script answers this\r\n".encode())
            return
        end = b"\r\n"
        for line in rule.answer:
            if line == "!cut":
                await writer.drain()
                raise _Cut
            if line == "!hang":
                await reader.read()
                raise _Cut
            if line == "!bare":
                end = b""
                continue
            if line.startswith("!wait "):
                await writer.drain()
                await asyncio.sleep(float(line[6:]))
                continue
            if line.startswith("!continue"):
                writer.write(b"+ " + line.removeprefix("!continue").strip().encode() + b"\r\n")
                self.answers.append((await reader.readline()).removesuffix(b"\r\n"))
                continue
            is_tagged = line.split(" ", 1)[0] in {"OK", "NO", "BAD"}
            writer.write((tag.encode() + b" " if is_tagged else b"") + octets_of(line) + end)
            end = b"\r\n"
        await writer.drain()

    def _rule_for(self, command: str) -> Rule | None:
        matching = [rule for rule in self._rules if rule.pattern.fullmatch(command)]
        chosen = next((rule for rule in matching if rule.once and not rule.used), None)
        chosen = chosen or next((rule for rule in matching if not rule.once), None)
        if chosen is not None:
            chosen.used += 1
        return chosen


class _Cut(Exception):  # noqa: N818  -- not a failure: the script says so
    """The script closes the connection here."""


def parse(script: str) -> list[Rule]:
    """The rules of a script, in order. Blank lines and indentation do not count."""
    rules: list[Rule] = []
    for raw in script.splitlines():
        line = raw.strip()
        if not line:
            continue
        if line.startswith(">"):
            once = not line.startswith(">>")
            text = line.lstrip(">").strip()
            pattern = re.compile(".*".join(re.escape(part) for part in text.split("*")), re.IGNORECASE | re.DOTALL)
            rules.append(Rule(pattern, once))
        else:
            rules[-1].answer.append(line)
    return rules


def octets_of(line: str) -> bytes:
    """A line of an answer as octets: escapes resolved, literals measured."""

    def escape(match: re.Match[bytes]) -> bytes:
        name = match[0][1:]
        fixed = {b"r": b"\r", b"n": b"\n", b"\\": b"\\"}.get(name)
        return fixed if fixed is not None else bytes([int(name[1:], 16)])

    def literal(match: re.Match[bytes]) -> bytes:
        content = _ESCAPE.sub(escape, match[2])
        return b"{%d}\r\n%s" % (int(match[1]) if match[1] else len(content), content)

    pieces = []
    end = 0
    octets = line.encode()
    for match in _LITERAL.finditer(octets):
        pieces += [_ESCAPE.sub(escape, octets[end : match.start()]), literal(match)]
        end = match.end()
    return b"".join([*pieces, _ESCAPE.sub(escape, octets[end:])])


_STANDING = r"""
>> CAPABILITY
* CAPABILITY CAPABILITIES
OK done
>> LOGIN *
OK signed in
>> AUTHENTICATE PLAIN
!continue
OK signed in
>> ID *
* ID NIL
OK done
>> NAMESPACE
* NAMESPACE (("" "/")) NIL NIL
OK done
>> NOOP
OK done
>> LOGOUT
* BYE
OK done
"""
