"""What can be sent, and what cannot."""

import inspect

import pytest

from mailkeep.errors import CommandRefused
from mailkeep.imap import dialogue, discovery, fetching, searching, session
from mailkeep.imap.dialogue import AskedToComeBack, Command, Completion, Dialogue, require_ok
from mailkeep.imap.session import ReadOnlySession
from mailkeep.imap.stream import Stream

WRITING = ("STORE", "APPEND", "COPY", "MOVE", "EXPUNGE", "SELECT", "CREATE", "DELETE", "RENAME", "SUBSCRIBE", "SETACL")


class Outbox(Stream):
    """A stream that only notes what would be sent."""

    def __init__(self) -> None:
        super().__init__(idle=1.0)
        self.sent = b""

    def send(self, octets: bytes) -> None:
        self.sent += octets

    def readline(self) -> bytes:
        return b"K1 OK done\r\n"


@pytest.mark.spec("SYNC-29")
def test_a_session_has_no_method_that_changes_a_mailbox() -> None:
    """Walking the type finds reading methods only, and nothing that reaches IMAPClient's writing ones."""
    names = [name.lower() for name, _ in inspect.getmembers(ReadOnlySession)]
    assert not [name for name in names if any(word.lower() in name for word in WRITING)]
    for room in (session, discovery, searching, fetching):
        assert "imapclient" not in inspect.getsource(room)
    assert "imapclient" not in inspect.getsource(dialogue).split('"""')[2]


@pytest.mark.spec("SYNC-29")
@pytest.mark.parametrize("verb", [*WRITING, "UID STORE", "UID COPY", "UID MOVE", "UID EXPUNGE", "GETQUOTA"])
def test_a_writing_command_cannot_be_sent(verb: str) -> None:
    """The command channel itself refuses every verb that is not for reading."""
    outbox = Outbox()
    with pytest.raises(AssertionError):
        Dialogue(outbox, command_timeout=1).run(Command([verb.encode(), b"1 x"]))
    assert outbox.sent == b""


@pytest.mark.spec("SYNC-29")
@pytest.mark.parametrize("items", [b"(UID BODY[])", b"RFC822", b"(uid body[HEADER])", b"RFC822.TEXT"])
def test_a_fetch_that_would_mark_mail_as_read_cannot_be_sent(items: bytes) -> None:
    """Bodies go out as BODY.PEEK only."""
    outbox = Outbox()
    with pytest.raises(AssertionError):
        Dialogue(outbox, command_timeout=1).run(Command([b"UID FETCH", b"1", items]))
    assert outbox.sent == b""


@pytest.mark.case("40")
def test_every_set_of_fetch_items_is_parenthesised_and_none_asks_for_structure() -> None:
    """Several items without parentheses are not one request; ENVELOPE and BODYSTRUCTURE are never asked for."""
    items = {name: value for name, value in vars(fetching).items() if name.endswith("_ITEMS")}
    names = {"METADATA_ITEMS", "RECONCILIATION_ITEMS", "CONTENT_ITEMS", "HEADER_ITEMS", "IDENTITY_ITEMS"}
    assert set(items) == names
    for value in items.values():
        assert value.startswith(b"(")
        assert value.endswith(b")")
        assert b"ENVELOPE" not in value
        assert b"STRUCTURE" not in value
        outbox = Outbox()
        Dialogue(outbox, command_timeout=1).run(Command([b"UID FETCH", b"1", value]))
        assert outbox.sent == b"K1 UID FETCH 1 " + value + b"\r\n"


@pytest.mark.spec("SYNC-29")
def test_reconciliation_asks_for_flags_and_uid_only() -> None:
    """The item set of reconciliation is one constant."""
    assert fetching.RECONCILIATION_ITEMS == b"(FLAGS UID)"


@pytest.mark.spec("SYNC-36")
@pytest.mark.case("56", "59")
@pytest.mark.parametrize(
    "text",
    [
        b"Request is throttled. Suggested Backoff Time: 299609 milliseconds",
        b"[OVERQUOTA] Account exceeded command or bandwidth limits",
        b"[UNAVAILABLE] x",
        b"[ALERT] Too many simultaneous connections. (Failure)",
    ],
)
def test_a_refusal_about_load_is_passing_trouble(text: bytes) -> None:
    """No message is blamed for a quota."""
    with pytest.raises(AskedToComeBack):
        require_ok(Completion(b"NO", text), "x")


@pytest.mark.spec("SYNC-36")
def test_any_other_refusal_is_final_and_its_text_is_not_repeated() -> None:
    """The server's words may hold an address or a folder's name."""
    with pytest.raises(CommandRefused) as caught:
        require_ok(Completion(b"NO", b"no such mailbox secret@example.com"), "EXAMINE")
    assert "secret" not in str(caught.value)
