"""What a session that changes mailboxes can be made to say, and where it says that messages went."""

import pytest

from mailkeep.imap import ReadOnlySession, WatchingSession
from mailkeep.imap.dialogue import READING_VERBS, Command, Dialogue
from mailkeep.imap.placing import Placements, merged, parse_copyuid
from mailkeep.imap.stream import Stream
from mailkeep.imap.watching import WATCHING_VERBS
from mailkeep.imap.writing import WRITING_VERBS, Opened, WritingDialogue, WritingSession


class Deaf(Stream):
    """Takes what is sent and answers nothing."""

    def __init__(self) -> None:
        super().__init__(idle=0.01)
        self.sent = b""

    def send(self, octets: bytes) -> None:
        self.sent += octets

    def readline(self) -> bytes:
        return b"K1 OK done\r\n"


def says(kind: type[Dialogue], *parts: bytes) -> bool:
    """Whether a channel of this kind sends the command."""
    stream = Deaf()
    try:
        kind(stream, command_timeout=1).run(Command(parts))
    except AssertionError:
        assert stream.sent == b""
        return False
    return True


@pytest.mark.spec("MUT-2", "MUT-4", "MUT-5")
@pytest.mark.parametrize(
    "command",
    [
        b"EXPUNGE",
        b"CLOSE",
        b"UNSELECT",
        b'APPEND "INBOX" (\\Seen) {3}',
        b'RENAME "a" "b"',
        b'DELETE "a"',
        b'UNSUBSCRIBE "a"',
        b'COPY 1 "a"',
        b'MOVE 1 "a"',
        b"STORE 1 +FLAGS.SILENT (\\Seen)",
        b"UID EXPUNGE",
        b"UID EXPUNGE 1:*",
        b"UID STORE 1 FLAGS (\\Seen)",
        b"UID STORE 1 FLAGS.SILENT (\\Seen)",
        b"UID STORE 1 +FLAGS (\\Seen)",
        b"UID STORE 1:* +FLAGS.SILENT (\\Seen)",
        b"UID STORE 1 +FLAGS.SILENT (\\Answered)",
        b"UID STORE 1 +FLAGS.SILENT (\\Draft)",
        b"UID STORE 1 +FLAGS.SILENT (\\Seen \\Answered)",
        b"UID STORE 1 -FLAGS.SILENT (\\Deleted)",
        b"UID STORE 1 +FLAGS.SILENT (\\Deleted \\Seen)",
        b"UID STORE 1 +FLAGS.SILENT (todo \\Deleted)",
        b"UID STORE 1 +FLAGS.SILENT (\\Seen) (UNCHANGEDSINCE 5)",
        b"UID STORE 1 +X-GM-LABELS (x)",
        b"UID FETCH 1 (BODY[])",
        b"UID FETCH 1 (RFC822)",
    ],
)
def test_a_writing_session_cannot_say_what_would_touch_other_mail(command: bytes) -> None:
    """No bare EXPUNGE, no replacing STORE, no flag of the server's but the permitted, nothing outside of the page."""
    assert not says(WritingDialogue, command)


@pytest.mark.spec("MUT-2", "MUT-4", "MUT-5")
@pytest.mark.parametrize(
    "command",
    [
        b"UID STORE 1,4:9 +FLAGS.SILENT (\\Seen)",
        b"UID STORE 1 -FLAGS.SILENT (\\Flagged)",
        b"UID STORE 1 +FLAGS.SILENT (todo $Forwarded)",
        b"UID STORE 1 +FLAGS.SILENT (\\Deleted)",
        b"UID EXPUNGE 1,3",
        b'UID MOVE 1 "a"',
        b'UID COPY 1 "a"',
        b"UID FETCH 1 (BODY.PEEK[])",
    ],
)
def test_it_says_what_changes_are_made_of(command: bytes) -> None:
    """The forms that name their messages go out."""
    assert says(WritingDialogue, command)


@pytest.mark.spec("MUT-3")
def test_reading_and_writing_are_different_types_with_lists_that_share_no_change() -> None:
    """No reading type is a writing one, and none of a writing session's changes is in a reader's or watcher's list."""
    assert not issubclass(ReadOnlySession, WritingSession)
    assert not issubclass(WritingSession, ReadOnlySession | WatchingSession)
    changing = {verb for verb in WRITING_VERBS if verb not in READING_VERBS}
    assert changing == {
        b"SELECT", b"CREATE", b"SUBSCRIBE", b"UID COPY", b"UID EXPUNGE", b"UID MOVE", b"UID STORE",
    }  # fmt: skip
    assert not changing & WATCHING_VERBS
    for verb in changing:
        assert not says(Dialogue, verb + b" 1")


@pytest.mark.spec("MUT-31")
@pytest.mark.parametrize(
    ("text", "placements"),
    [
        (b"[COPYUID 9 1 50] done", Placements(9, {1: 50})),
        (b"[copyuid 9 1,3:4 50:52]", Placements(9, {1: 50, 3: 51, 4: 52})),
        (b"[COPYUID 9 4,1 50,60] in the order written", Placements(9, {4: 50, 1: 60})),
        (b"[COPYUID 9 1:3 50:51] lengths differ", None),
        (b"[COPYUID 9 1,1 50:51] a message twice", None),
        (b"[COPYUID 9 1:4000000000 1:4000000000] a bomb", None),
        (b"[COPYUID 0 1 50] no UIDVALIDITY", None),
        (b"[COPYUID 9 1 *] no UID", None),
        (b"[COPYUID 9 1] a part is missing", None),
        (b"[APPENDUID 9 50] another code", None),
        (b"done", None),
    ],
)
def test_copyuid_is_read_or_is_none(text: bytes, placements: Placements | None) -> None:
    """Both sets in the order written; what contradicts itself says nothing."""
    assert parse_copyuid(text, at_most=10) == placements


@pytest.mark.spec("MUT-31")
@pytest.mark.case("68")
def test_answers_of_two_folders_mean_neither() -> None:
    """Several COPYUIDs of one command add up, unless they speak of different UIDVALIDITYs."""
    assert merged(Placements(9, {1: 50}), Placements(9, {2: 51})) == Placements(9, {1: 50, 2: 51})
    assert merged(Placements(9, {1: 50}), Placements(8, {2: 51})) == Placements()


@pytest.mark.spec("MUT-27")
def test_what_a_folder_keeps() -> None:
    r"""A keyword is kept where it is named, in any case, or where `\*` is; silence keeps all, `\*` no system flag."""
    named = Opened("INBOX", 7, False, frozenset({"\\Seen", "Todo"}))
    assert named.keeps(["todo", "\\seen"])
    assert not named.keeps(["other"])
    free = Opened("INBOX", 7, False, frozenset({"\\Seen", "\\*"}))
    assert free.keeps(["other"])
    assert not free.keeps(["\\Flagged"])
    assert Opened("INBOX", 7, False, None).keeps(["anything", "\\Flagged"])
