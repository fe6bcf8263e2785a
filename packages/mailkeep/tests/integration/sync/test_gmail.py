"""What Gmail says beyond IMAP (X-GM-EXT-1): labels found as keywords, ids of message and conversation."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account_at
from support.engine import folder, rows, run_once, settings_with
from support.scripted_imap import ScriptedImap

from mailkeep.db import Database
from mailkeep.mailbox import EmailContent
from mailkeep.search import ReadRequest, SearchRequest, read_emails, search_emails

pytestmark = pytest.mark.anyio

ALL_MAIL = r"""
    >> CAPABILITY
    * CAPABILITY IMAP4rev1 X-GM-EXT-1 CONDSTORE SPECIAL-USE
    OK done
    >> LIST *
    * LIST (\HasNoChildren) "/" "INBOX"
    * LIST (\HasChildren \Noselect) "/" "[Gmail]"
    * LIST (\All \HasNoChildren) "/" "[Gmail]/All Mail"
    * LIST (\HasNoChildren \Junk) "/" "[Gmail]/Spam"
    * LIST (\HasNoChildren \Trash) "/" "[Gmail]/Trash"
    * LIST (\HasNoChildren) "/" "Projects"
    OK done
"""
EMPTY = r"""
    >> STATUS *Spam* *
    * STATUS "[Gmail]/Spam" (MESSAGES 0 UIDNEXT 1 UIDVALIDITY 3 HIGHESTMODSEQ 1)
    OK done
    >> STATUS *Trash* *
    * STATUS "[Gmail]/Trash" (MESSAGES 0 UIDNEXT 1 UIDVALIDITY 4 HIGHESTMODSEQ 1)
    OK done
"""


def all_mail(messages: int, *, modseq: int) -> str:
    return (
        ALL_MAIL
        + EMPTY
        + rf"""
    >> STATUS "[Gmail]/All Mail" *
    * STATUS "[Gmail]/All Mail" (MESSAGES {messages} UIDNEXT {messages + 1} UIDVALIDITY 7 HIGHESTMODSEQ {modseq})
    OK done
    >> EXAMINE "[Gmail]/All Mail"*
    * {messages} EXISTS
    * OK [UIDVALIDITY 7]
    * OK [UIDNEXT {messages + 1}]
    * OK [HIGHESTMODSEQ {modseq}]
    OK done
    >> EXAMINE *
    * 0 EXISTS
    * OK [UIDVALIDITY 3]
    * OK [UIDNEXT 1]
    * OK [HIGHESTMODSEQ 1]
    OK done
    >> UID SEARCH *
    * SEARCH {" ".join(str(uid) for uid in range(1, messages + 1))}
    OK done
"""
    )


FIRST = (
    all_mail(2, modseq=50)
    + r"""
    > UID FETCH 1:2 (UID FLAGS INTERNALDATE RFC822.SIZE X-GM-LABELS X-GM-MSGID X-GM-THRID)
    * 1 FETCH (X-GM-THRID 1278455344230334865 X-GM-MSGID 1278455344230334865 X-GM-LABELS ("\\Inbox" "\\Important" "My Project" foo "Entw&APw-rfe") UID 1 RFC822.SIZE 14 FLAGS (\Seen $Forwarded))
    * 2 FETCH (X-GM-THRID 1278455344230334865 X-GM-MSGID 18446744073709551615 X-GM-LABELS () UID 2 RFC822.SIZE 14 FLAGS ())
    OK done
    > UID FETCH 1:2 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{Subject: one\r\n}})
    * 2 FETCH (UID 2 BODY[] {{Subject: two\r\n}})
    OK done
"""
)


async def found(db: Database, port: int, query: str) -> list[str | None]:
    """The subjects of the mail that a query finds."""
    result = await search_emails(db, settings_with(account_at(port)), SearchRequest(query))
    return sorted(match.summary.subject or "" for match in result.matches)


async def held(db: Database) -> list[tuple[Any, ...]]:
    return await rows(
        db,
        "SELECT uid, remote_keywords, remote_labels, gmail_message_id, gmail_thread_id FROM stored_emails ORDER BY uid",
    )


@pytest.mark.spec("SYNC-146")
@pytest.mark.case("83", "86")
async def test_a_message_is_stored_once_with_all_its_labels(db: Database, tmp_path: Path) -> None:
    """The folders as shipped are All Mail, Spam and Trash; labels are kept whole, upper-cased, names decoded."""
    async with ScriptedImap(FIRST) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
        assert server.unexpected == []
        assert not outcome.is_failed
        assert {one.alias for one in outcome.folders} == {"[GMAIL]/ALL MAIL", "[GMAIL]/SPAM", "[GMAIL]/TRASH"}
        assert await held(db) == [
            (
                1,
                ["$FORWARDED"],
                ["ENTWÜRFE", "FOO", "IMPORTANT", "INBOX", "MY PROJECT"],
                "1278455344230334865",
                "1278455344230334865",
            ),
            (2, [], [], "18446744073709551615", "1278455344230334865"),
        ]
        for label in ("foo", '"my project"', "inbox", "entwürfe", "$forwarded"):
            assert await found(db, server.port, f"keyword:{label}") == ["one"], label
        assert await found(db, server.port, "keyword:project") == []
        assert await found(db, server.port, "-keyword:foo") == ["two"]
        (read,) = await contents(db, server.port)
        assert read.flags is not None
        assert read.flags.keywords == ("$FORWARDED", "ENTWÜRFE", "FOO", "IMPORTANT", "INBOX", "MY PROJECT")
        assert (read.gmail_message_id, read.gmail_thread_id) == ("1278455344230334865",) * 2


async def contents(db: Database, port: int) -> list[EmailContent]:
    """The first message, as a read gives it."""
    ((id_,),) = await rows(db, "SELECT id FROM stored_emails WHERE uid = 1")
    read = await read_emails(
        db, settings_with(account_at(port)), ReadRequest((str(id_),)), now=datetime(2026, 12, 1, tzinfo=UTC)
    )
    return [one for one in read.result.outcomes if isinstance(one, EmailContent)]


@pytest.mark.spec("SYNC-146", "SYNC-72")
async def test_labels_are_followed_like_flags_and_silence_about_them_means_nothing(
    db: Database, tmp_path: Path
) -> None:
    """A label given and taken elsewhere is seen by mod-sequence; a response without labels leaves them as they are."""
    async with ScriptedImap(FIRST) as server:
        await run_once(db, tmp_path, account_at(server.port))
    script = (
        all_mail(2, modseq=60)
        + r"""
    >> UID FETCH 1:2 (FLAGS UID X-GM-LABELS) (CHANGEDSINCE 50)
    * 1 FETCH (UID 1 X-GM-LABELS (foo Bar) FLAGS (\Seen $Forwarded) MODSEQ (60))
    * 2 FETCH (UID 2 FLAGS (\Seen) MODSEQ (55))
    * 2 FETCH (UID 2 X-GM-LABELS ("\\Starred") FLAGS (\Seen) MODSEQ (55))
    * 1 FETCH (UID 1 FLAGS (\Seen) MODSEQ (60))
    OK done
"""
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
        assert server.unexpected == []
        assert folder(outcome, "[GMAIL]/ALL MAIL").flags_changed == 2
        assert [row[2] for row in await held(db)] == [["BAR", "FOO"], ["STARRED"]]
        assert await found(db, server.port, "keyword:bar") == ["one"]
        assert await found(db, server.port, "keyword:inbox") == []


@pytest.mark.spec("SYNC-146", "SYNC-73")
async def test_flags_that_come_without_their_labels_change_nothing(db: Database, tmp_path: Path) -> None:
    """What a server that has labels leaves out is unknown: the folder is asked again, nothing is taken away."""
    async with ScriptedImap(FIRST) as server:
        await run_once(db, tmp_path, account_at(server.port))
    before = await held(db)
    script = (
        all_mail(2, modseq=60)
        + r"""
    >> UID FETCH 1:2 (FLAGS UID X-GM-LABELS) (CHANGEDSINCE 50)
    * 1 FETCH (UID 1 FLAGS () MODSEQ (60))
    OK done
"""
    )
    async with ScriptedImap(script) as server:
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert folder(outcome, "[GMAIL]/ALL MAIL").failure_code is not None
    assert await held(db) == before


@pytest.mark.spec("SYNC-146")
async def test_only_a_server_with_the_extension_is_asked(db: Database, tmp_path: Path) -> None:
    """Elsewhere the question is as it always was."""
    script = r"""
    >> LIST *
    * LIST () "/" INBOX
    OK done
    >> STATUS *
    * STATUS INBOX (MESSAGES 1 UIDNEXT 2 UIDVALIDITY 7)
    OK done
    >> EXAMINE *
    * 1 EXISTS
    * OK [UIDVALIDITY 7]
    * OK [UIDNEXT 2]
    OK done
    >> UID SEARCH *
    * SEARCH 1
    OK done
    >> UID FETCH 1 (UID FLAGS INTERNALDATE RFC822.SIZE)
    * 1 FETCH (UID 1 RFC822.SIZE 14 FLAGS (Work) INTERNALDATE "01-Mar-2026 12:00:00 +0000")
    OK done
    > UID FETCH 1 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{Subject: one\r\n}})
    OK done
"""
    async with ScriptedImap(script) as server:
        await run_once(db, tmp_path, account_at(server.port))
    assert server.unexpected == []
    assert await held(db) == [(1, ["WORK"], [], None, None)]
