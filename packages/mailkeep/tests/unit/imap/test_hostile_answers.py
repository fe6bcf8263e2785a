"""Answers that are made to hurt: endless literals and numbers of thousands of digits."""

import pytest

from mailkeep.errors import MailServerUnavailable
from mailkeep.imap.dialogue import Command, Dialogue
from mailkeep.imap.responses import code_number, parse_search
from mailkeep.imap.stream import Stream


class Told(Stream):
    """A stream that says what it was told to say, and counts the octets of literals asked of it."""

    def __init__(self, *lines: bytes) -> None:
        super().__init__(idle=1.0)
        self.lines = list(lines)
        self.literals = 0

    def send(self, octets: bytes) -> None:
        pass

    def readline(self) -> bytes:
        return self.lines.pop(0) if self.lines else b""

    def read(self, size: int) -> bytes:
        self.literals += size
        return b"x" * min(size, 16)


@pytest.mark.spec("SYNC-36")
@pytest.mark.case("79")
@pytest.mark.parametrize("size", [4 * 1024**3, 10**18])
def test_a_giant_literal_where_none_belongs_is_not_read(size: int) -> None:
    """A LIST answer that announces gigabytes ends the connection before memory is taken for it."""
    told = Told(b'* LIST () "/" {%d}\r\n' % size)
    with pytest.raises(MailServerUnavailable):
        Dialogue(told, command_timeout=1).run(Command([b"LIST", b'""', b"*"]))
    assert told.literals == 0


def test_the_literals_of_one_answer_are_bounded_together() -> None:
    """Many literals in one response, each within bounds, end the connection as one giant would."""
    part = 16 * 1024 * 1024
    told = Told(b"* 1 FETCH (UID 1 X {%d}\r\n" % part, *[b" X {%d}\r\n" % part] * 100, b")\r\n", b"K1 OK\r\n")
    told.read = lambda size: b"x" * size  # type: ignore[method-assign]
    with pytest.raises(MailServerUnavailable):
        Dialogue(told, command_timeout=1).run(Command([b"UID FETCH", b"1", b"(UID FLAGS)"]))
    assert len(told.lines) > 90


@pytest.mark.spec("SYNC-36")
def test_a_number_of_thousands_of_digits_is_a_broken_answer_and_not_a_defect_of_ours() -> None:
    """As the number of a response it loses the framing; in a search or a code it is no number at all."""
    digits = b"9" * 5000
    with pytest.raises(MailServerUnavailable):
        Dialogue(Told(b"* " + digits + b" EXISTS\r\n"), command_timeout=1).run(Command([b"EXAMINE", b"x"]))
    assert parse_search(b"1 " + digits + b" 2") == [1, 2]
    assert code_number(digits, 2**32 - 1) is None
