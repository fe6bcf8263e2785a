"""Removals that the server names by itself (QRESYNC), believed only as far as it proves them."""

from pathlib import Path

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import checkpoint, folder, mail, run_once, stored, tombstones
from support.scripted_imap import ScriptedImap
from support.tap import Tap

from mailkeep.db import Database
from mailkeep.imap import icloud

pytestmark = pytest.mark.anyio


def server_with(
    *, second_state: str, answers: str, enabled: str = "* ENABLED QRESYNC", messages: int = 4, modseq: int = 20
) -> str:
    """INBOX with messages 1 to 4 for a first run, then `second_state`; `answers` are the rules of the second run."""
    first = "".join(f"* {uid} FETCH (UID {uid} FLAGS () RFC822.SIZE 4)\n" for uid in range(1, 5))
    bodies = "".join(f"* {uid} FETCH (UID {uid} BODY[] {{{{a: {uid}}}}})\n" for uid in range(1, 5))
    return rf"""
    > LIST *
    * LIST () "/" INBOX
    * STATUS INBOX (MESSAGES 4 UIDNEXT 5 UIDVALIDITY 7 HIGHESTMODSEQ 10)
    OK done
    > EXAMINE *
    * 4 EXISTS
    * OK [UIDVALIDITY 7]
    * OK [UIDNEXT 5]
    * OK [HIGHESTMODSEQ 10]
    OK done
    > UID SEARCH RETURN (ALL) UID 1:4
    * ESEARCH UID ALL 1:4
    OK done
    > UID FETCH 1:4 (UID FLAGS INTERNALDATE RFC822.SIZE)
    {first}OK done
    > UID FETCH 1:4 (UID BODY.PEEK[])
    {bodies}OK done
    >> LIST *
    * LIST () "/" INBOX
    * STATUS INBOX ({second_state})
    OK done
    >> ENABLE QRESYNC
    {enabled}
    OK done
    >> EXAMINE *
    * {messages} EXISTS
    * OK [UIDVALIDITY 7]
    * OK [UIDNEXT {second_state.split("UIDNEXT ")[1].split()[0]}]
    * OK [HIGHESTMODSEQ {modseq}]
    OK done
    {answers}
    """


CAPABILITIES = "IMAP4rev1 ENABLE CONDSTORE QRESYNC ESEARCH LIST-EXTENDED LIST-STATUS"
THREE_LEFT = "MESSAGES 3 UIDNEXT 5 UIDVALIDITY 7 HIGHESTMODSEQ 20"
CHANGES = "UID FETCH 1:4 (FLAGS UID) (CHANGEDSINCE 10 VANISHED)"


async def two_runs(db: Database, home: Path, script: str) -> list[str]:
    """The commands of the second run. Whatever the script does not answer fails the test."""
    async with ScriptedImap(script, capabilities=CAPABILITIES) as server:
        await run_once(db, home, account_at(server.port))
        assert sorted(await stored(db)) == [1, 2, 3, 4]
        before = len(server.commands)
        outcome = await run_once(db, home, account_at(server.port))
        assert server.unexpected == []
        assert not outcome.is_failed
        return server.commands[before:]


@pytest.mark.spec("SYNC-30", "SYNC-72")
async def test_one_removal_and_one_flag_cost_the_change_and_not_the_folder(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """One question brings both; the only SEARCH names the one message that is said to be gone."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(1, 41)])
    await run_once(db, tmp_path, account_at(dovecot.ports.plain, user_name=user))
    with dovecot.client(user) as other:
        other.flag("INBOX", 7, "\\Seen")
        other.expunge("INBOX", "12,31")
    async with Tap(dovecot.ports.plain) as tap:
        outcome = await run_once(db, tmp_path, account_at(tap.port, user_name=user))
    assert (folder(outcome).flags_changed, folder(outcome).gone) == (1, 2)
    assert await tombstones(db) == [12, 31]
    assert len(tap.commands("VANISHED")) == 1
    assert [line.split(" ", 1)[1] for line in tap.commands("SEARCH")] == ["UID SEARCH RETURN (ALL) UID 12,31"]
    session = [line.split()[1] for line in tap.lines if line.startswith("K")]
    assert session.index("ENABLE") < session.index("EXAMINE")
    assert outcome.commands_sent <= 7
    again = await run_once(db, tmp_path, account_at(dovecot.ports.plain, user_name=user))
    assert folder(again).was_proven_unchanged


@pytest.mark.case("16")
@pytest.mark.spec("SYNC-72")
async def test_vanished_lines_of_every_command_count_before_the_sequence_moves(db: Database, tmp_path: Path) -> None:
    """Several lines in one answer, and one amid the fetch of another message's octets: all are applied."""
    answers = rf"""
    > UID SEARCH RETURN (ALL) UID 5:5
    * ESEARCH UID ALL 5
    OK done
    > UID FETCH 5 (UID FLAGS INTERNALDATE RFC822.SIZE)
    * 4 FETCH (UID 5 FLAGS () RFC822.SIZE 4)
    OK done
    > UID FETCH 5 (UID BODY.PEEK[])
    * VANISHED 4
    * 4 FETCH (UID 5 BODY[] {{{{a: 5}}}})
    OK done
    > {CHANGES}
    * VANISHED (EARLIER) 1
    * VANISHED (EARLIER) 3,700:900
    OK done
    > UID SEARCH RETURN (ALL) UID 1,3:4
    * ESEARCH UID
    OK done
    """
    script = server_with(
        second_state="MESSAGES 3 UIDNEXT 6 UIDVALIDITY 7 HIGHESTMODSEQ 20", messages=3, answers=answers
    )
    await two_runs(db, tmp_path, script)
    assert sorted(await stored(db)) == [2, 5]
    assert await tombstones(db) == [1, 3, 4]
    assert (await checkpoint(db))[2] == 20


@pytest.mark.case("17")
async def test_a_malformed_vanished_line_ends_belief_in_all_of_them(db: Database, tmp_path: Path) -> None:
    """Nothing that was named is recorded on its word: the sets of UIDs are compared instead."""
    answers = rf"""
    > {CHANGES}
    * VANISHED (EARLIER) 1:*
    * VANISHED (EARLIER) 2
    * 3 FETCH (UID 3 FLAGS (\Seen))
    OK done
    > UID SEARCH RETURN (ALL) UID 1:4
    * ESEARCH UID ALL 1:3
    OK done
    > UID SEARCH RETURN (ALL) UID 4
    * ESEARCH UID
    OK done
    """
    await two_runs(db, tmp_path, server_with(second_state=THREE_LEFT, messages=3, answers=answers))
    assert sorted(await stored(db)) == [1, 2, 3]
    assert (await stored(db))[3][2] is True


@pytest.mark.case("17")
async def test_without_enabled_removals_are_not_asked_for(db: Database, tmp_path: Path) -> None:
    """The capability is named, ENABLE is answered OK, but ENABLED is missing: flags by CONDSTORE, removals by sets."""
    answers = r"""
    > UID FETCH 1:4 (FLAGS UID) (CHANGEDSINCE 10)
    OK done
    > UID SEARCH RETURN (ALL) UID 1:4
    * ESEARCH UID ALL 1:3
    OK done
    > UID SEARCH RETURN (ALL) UID 4
    * ESEARCH UID
    OK done
    """
    script = server_with(second_state=THREE_LEFT, messages=3, answers=answers, enabled="* OK as you like")
    await two_runs(db, tmp_path, script)
    assert await tombstones(db) == [4]


@pytest.mark.case("17", "16")
@pytest.mark.spec("SYNC-73")
async def test_a_message_said_to_have_vanished_is_kept_while_the_server_holds_it(db: Database, tmp_path: Path) -> None:
    """VANISHED names message 2, a search by name finds it: the word is not believed, and what is gone is still found."""
    answers = rf"""
    > {CHANGES}
    * VANISHED (EARLIER) 2
    OK done
    > UID SEARCH RETURN (ALL) UID 2
    * ESEARCH UID ALL 2
    OK done
    > UID SEARCH RETURN (ALL) UID 1:4
    * ESEARCH UID ALL 1:3
    OK done
    > UID SEARCH RETURN (ALL) UID 4
    * ESEARCH UID
    OK done
    """
    await two_runs(db, tmp_path, server_with(second_state=THREE_LEFT, messages=3, answers=answers))
    assert await tombstones(db) == [4]
    assert (await checkpoint(db))[2] == 20


@pytest.mark.case("17")
async def test_a_removal_the_server_forgot_to_name_is_found_by_its_count(db: Database, tmp_path: Path) -> None:
    """The folder shrank and nothing vanished: the counts do not add up, so the sets of UIDs are compared."""
    answers = rf"""
    > {CHANGES}
    OK done
    > UID SEARCH RETURN (ALL) UID 1:4
    * ESEARCH UID ALL 1,3:4
    OK done
    > UID SEARCH RETURN (ALL) UID 2
    * ESEARCH UID
    OK done
    """
    await two_runs(db, tmp_path, server_with(second_state=THREE_LEFT, messages=3, answers=answers))
    assert await tombstones(db) == [2]


@pytest.mark.case("17")
async def test_a_refused_question_is_asked_again_without_the_extension(db: Database, tmp_path: Path) -> None:
    """BAD to VANISHED costs that question, not the run."""
    answers = rf"""
    > {CHANGES}
    BAD what is that
    > UID FETCH 1:4 (FLAGS UID) (CHANGEDSINCE 10)
    * 3 FETCH (UID 3 FLAGS (\Flagged))
    OK done
    """
    same = "MESSAGES 4 UIDNEXT 5 UIDVALIDITY 7 HIGHESTMODSEQ 20"
    await two_runs(db, tmp_path, server_with(second_state=same, answers=answers))
    assert (await stored(db))[3][3] is True
    assert await tombstones(db) == []


@pytest.mark.case("17")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("imap.mail.me.com", True),
        ("P42-IMAP.Mail.Me.com.", True),
        ("imap.example.com", False),
        ("notmail.me.com", False),
    ],
)
def test_icloud_is_known_by_its_hosts(host: str, expected: bool) -> None:
    """The one server whose QRESYNC is left alone from the start."""
    assert icloud.serves(host) is expected
