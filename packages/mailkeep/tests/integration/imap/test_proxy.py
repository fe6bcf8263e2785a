"""The proxy of the tests does what its page says, so that a test behind it means what it says."""

import imaplib
import time

import pytest
from support.dovecot import PASSWORD, Dovecot
from support.proxy import EVERYTHING, FEW_EXTENSIONS, NO_CONDSTORE, Proxy


def signed_in(port: int, user: str) -> imaplib.IMAP4:
    client = imaplib.IMAP4("127.0.0.1", port, timeout=10)
    client.login(user, PASSWORD)
    return client


def test_hidden_capabilities_are_neither_named_nor_understood(dovecot: Dovecot, user: str) -> None:
    """In the greeting, in CAPABILITY and in the answer to signing in; a command that needs one is answered BAD."""
    with Proxy(dovecot.ports.plain, hides=NO_CONDSTORE) as proxy, signed_in(proxy.port, user) as client:
        named = [*client.capability()[1], *client.response("CAPABILITY")[1], client.welcome]
        assert not any(b"CONDSTORE" in part or b"QRESYNC" in part for part in named if part)
        assert b"ESEARCH" in named[0]
        client.send(b"x1 EXAMINE INBOX (CONDSTORE)\r\n")
        assert client.readline().startswith(b"x1 BAD")
        assert client.select("INBOX", readonly=True)[0] == "OK"
        assert client.response("HIGHESTMODSEQ") == ("HIGHESTMODSEQ", [None])
        assert proxy.refused == ["EXAMINE INBOX (CONDSTORE)"]


def test_a_server_of_rfc_3501_takes_no_literal_that_does_not_wait(dovecot: Dovecot, user: str) -> None:
    """`{n+}` is refused, `{n}` is asked for, and the connection stays in step."""
    with Proxy(dovecot.ports.plain, hides=EVERYTHING) as proxy, signed_in(proxy.port, user) as client:
        assert client.capability()[1][0].split() == [b"IMAP4rev1"]
        client.send(b"x1 EXAMINE {5+}\r\nINBOX\r\n")
        assert client.readline().startswith(b"x1 BAD")
        client.send(b"x2 EXAMINE {5}\r\n")
        assert client.readline().startswith(b"+")
        client.send(b"INBOX\r\n")
        while not (line := client.readline()).startswith(b"x2 "):
            assert line.startswith(b"* ")
        assert line.startswith(b"x2 OK")


def test_answers_lose_what_such_a_server_would_not_say(dovecot: Dovecot, user: str) -> None:
    """No APPENDUID without UIDPLUS, no role without SPECIAL-USE; message octets stay untouched."""
    octets = b"Subject: x\r\n\r\n* OK [CAPABILITY IMAP4rev1 CONDSTORE]\r\n[APPENDUID 1 2]\r\n"
    with Proxy(dovecot.ports.plain, hides=FEW_EXTENSIONS) as proxy, signed_in(proxy.port, user) as client:
        _, answer = client.append("INBOX", "", "", octets)
        assert b"APPENDUID" not in answer[-1]
        client.select("INBOX", readonly=True)
        assert client.uid("FETCH", "1", "(BODY.PEEK[])")[1][0][1] == octets


def test_a_round_trip_is_paid_once_for_commands_sent_together(dovecot: Dovecot, user: str) -> None:
    """Ten commands in a row cost ten round trips; ten sent at once cost one."""
    with Proxy(dovecot.ports.plain, round_trip=0.05) as proxy, signed_in(proxy.port, user) as client:
        begun = time.monotonic()
        for _ in range(10):
            client.noop()
        one_by_one = time.monotonic() - begun
        begun = time.monotonic()
        client.send(b"".join(b"p%d NOOP\r\n" % number for number in range(10)))
        for _ in range(10):
            client.readline()
        together = time.monotonic() - begun
    assert one_by_one >= 10 * 0.05
    assert 0.05 <= together < one_by_one / 2


def test_a_connection_breaks_after_the_octet_that_was_named(dovecot: Dovecot, user: str) -> None:
    """So many octets arrive, and then the end; commands are counted before the server has them."""
    numbers: list[tuple[int, str]] = []
    with Proxy(dovecot.ports.plain, before_command=lambda at, text: numbers.append((at, text))) as proxy:
        with signed_in(proxy.port, user):
            pass
        proxy.cut_after = 10
        with pytest.raises(imaplib.IMAP4.abort):
            signed_in(proxy.port, user)
    assert [at for at, _ in numbers] == list(range(1, len(numbers) + 1))
    assert proxy.connections == 2
    assert proxy.count("LOGIN") == 1
