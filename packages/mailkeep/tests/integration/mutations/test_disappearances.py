"""Messages that went by our own deletions and moves: each takes the disposition that was recorded with its change."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import folder, mail, rows, run_once, stored
from support.own_changes import ERASE, RETAIN, TOMBSTONE, OwnChanges, deletion, relocation, whereabouts
from support.scripted_imap import ScriptedImap

from mailkeep.config import AccountSettings, AuthoredDeleteDisposition
from mailkeep.db import Database
from mailkeep.mutations import Stage
from mailkeep.sync import AccountOutcome

pytestmark = pytest.mark.anyio

SERVERS = ("dovecot", "dovecot_without_condstore", "plain_dovecot")
INBOX: list[dict[str, Any]] = [{"alias": "INBOX", "remote_path": "INBOX"}]
ENDS = {RETAIN: "kept", TOMBSTONE: "hidden", ERASE: None}
OTHER_SETTING = {RETAIN: "EraseLocalCopy", TOMBSTONE: "EraseLocalCopy", ERASE: "RetainTombstone"}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Dovecot:
    """The same mailbox behind servers that name what vanished, and that do not."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Dovecot)
    return found


class Mailbox:
    """INBOX alone is mirrored; Archive lies beside it."""

    def __init__(self, db: Database, home: Path, server: Dovecot, user: str) -> None:
        self.db, self.home, self.server, self.user = db, home, server, user
        self.ours = OwnChanges(db, server, user)

    def account(self, setting: str = "RetainTombstone", **options: Any) -> AccountSettings:
        return account_at(
            self.server.ports.plain, user_name=self.user, disposition=setting, **{"folders": INBOX, **options}
        )

    async def run(self, setting: str = "RetainTombstone", **options: Any) -> AccountOutcome:
        outcome = await run_once(self.db, self.home, self.account(setting, **options))
        assert not outcome.is_failed
        return outcome

    async def begin(self) -> list[UUID]:
        """Three messages, mirrored; their ids by UID."""
        with self.server.client(self.user) as other:
            other.create("Archive")
            for name in ("one", "two", "three"):
                other.append("INBOX", mail(name))
        await self.run()
        return [row[0] for row in (await stored(self.db)).values()]

    async def fate(self, email_id: UUID) -> str | None:
        found = (await whereabouts(self.db)).get(email_id)
        return None if found is None else found[2]


@pytest.fixture
def mailbox(db: Database, tmp_path: Path, server: Dovecot, user: str) -> Mailbox:
    return Mailbox(db, tmp_path, server, user)


@pytest.fixture
def on_dovecot(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> Mailbox:
    return Mailbox(db, tmp_path, dovecot, user)


@pytest.mark.spec("MUT-47", "MUT-53", "MUT-55", "MUT-11", "SYNC-80")
@pytest.mark.parametrize("disposition", [RETAIN, TOMBSTONE, ERASE])
@pytest.mark.parametrize("leaving", ["deleted", "moved out"])
async def test_the_recorded_disposition_outranks_the_account_s(
    mailbox: Mailbox, disposition: AuthoredDeleteDisposition, leaving: str
) -> None:
    """Both settings are changed between asking and observing: the owner's own deletion beside it follows the new one."""
    one, two, three = await mailbox.begin()
    if leaving == "deleted":
        await mailbox.ours.deleted(two, "INBOX", 2, disposition)
    else:
        await mailbox.ours.relocated(two, "INBOX", 2, "Archive", disposition=disposition)
    mailbox.ours.expunged("INBOX", 1)
    setting = OTHER_SETTING[disposition]
    outcome = await mailbox.run(setting)
    assert await mailbox.fate(two) == ENDS[disposition]
    assert await mailbox.fate(one) == (None if setting == "EraseLocalCopy" else "hidden")
    assert await mailbox.fate(three) == "present"
    assert (folder(outcome).gone, folder(outcome).recognized.own_removals) == (2, 1)


@pytest.mark.spec("MUT-54")
async def test_a_disposition_is_applied_once(on_dovecot: Mailbox) -> None:
    """Later runs, later deletions beside it and the opposite setting leave what was decided."""
    _, two, three = await on_dovecot.begin()
    change = await on_dovecot.ours.deleted(two, "INBOX", 2, RETAIN)
    await on_dovecot.run()
    (before,) = await rows(on_dovecot.db, "SELECT source_removal_observed_at FROM mailbox_mutations")
    (mark,) = await rows(on_dovecot.db, "SELECT remote_expunge_observed_at FROM stored_emails WHERE id = %s", two)
    on_dovecot.ours.expunged("INBOX", 3)
    await on_dovecot.run("EraseLocalCopy")
    assert await on_dovecot.fate(three) is None
    assert await on_dovecot.fate(two) == "kept"
    assert await rows(on_dovecot.db, "SELECT source_removal_observed_at FROM mailbox_mutations") == [before]
    assert await rows(on_dovecot.db, "SELECT remote_expunge_observed_at FROM stored_emails WHERE id = %s", two) == [
        mark
    ]
    assert await on_dovecot.ours.observed(change) == (False, True)


@pytest.mark.spec("MUT-54")
@pytest.mark.parametrize(
    ("stage", "abandoned_from"),
    [
        (Stage.RECORDED, None),
        (Stage.ABANDONED, Stage.RECORDED),
        (Stage.ABANDONED, Stage.SOURCE_FLAGGED_DELETED),
    ],
)
async def test_a_deletion_that_did_not_happen_decides_nothing(
    on_dovecot: Mailbox, stage: Stage, abandoned_from: Stage | None
) -> None:
    """Unfinished or given up, the message stays; when its owner deletes it, that is the owner's deletion."""
    _, two, _ = await on_dovecot.begin()
    change = await on_dovecot.ours.recorded(two, deletion(RETAIN))
    await on_dovecot.ours.note(change, stage, abandoned_from=abandoned_from)
    async with on_dovecot.ours.held_back():
        await on_dovecot.run()
        assert await on_dovecot.fate(two) == "present"
        on_dovecot.ours.expunged("INBOX", 2)
        await on_dovecot.run()
    assert await on_dovecot.fate(two) == "hidden"


@pytest.mark.spec("MUT-47", "MUT-35")
@pytest.mark.parametrize("stage", [Stage.SOURCE_FLAGGED_DELETED, Stage.COMPLETED])
async def test_a_deletion_is_recognized_before_its_end_is_known(on_dovecot: Mailbox, stage: Stage) -> None:
    """The expunge went out and its answer was not written down: the disappearance is ours."""
    _, two, _ = await on_dovecot.begin()
    change = await on_dovecot.ours.recorded(two, deletion(RETAIN))
    await on_dovecot.ours.note(change, stage)
    on_dovecot.ours.expunged("INBOX", 2)
    async with on_dovecot.ours.held_back():
        await on_dovecot.run()
    assert await on_dovecot.fate(two) == "kept"
    assert await on_dovecot.ours.observed(change) == (False, True)


@pytest.mark.spec("MUT-47", "MUT-54")
@pytest.mark.parametrize(("from_copy", "fate"), [(False, "kept"), (True, "hidden")])
async def test_an_unanswered_move_out_of_the_mirror_is_ours_and_an_unanswered_copy_is_not(
    on_dovecot: Mailbox, from_copy: bool, fate: str
) -> None:
    """MOVE removes the source itself; a copy whose source is gone lost it to somebody else."""
    _, two, _ = await on_dovecot.begin()
    change = await on_dovecot.ours.recorded(two, relocation("Archive", RETAIN))
    await on_dovecot.ours.note(change, Stage.PLACEMENT_ISSUED, from_copy=from_copy)
    on_dovecot.ours.moved("INBOX", 2, "Archive")
    async with on_dovecot.ours.held_back():
        await on_dovecot.run()
    assert await on_dovecot.fate(two) == fate
    assert await on_dovecot.ours.observed(change) == (False, True)


@pytest.mark.spec("MUT-47", "SYNC-71")
@pytest.mark.parametrize("disposition", [RETAIN, TOMBSTONE, ERASE])
async def test_what_a_recreated_folder_has_no_more_is_attributed_too(
    on_dovecot: Mailbox, disposition: AuthoredDeleteDisposition
) -> None:
    """The UIDs were given anew before the deletion was seen: retired rows take their own disposition as well."""
    one, two, _ = await on_dovecot.begin()
    await on_dovecot.ours.deleted(two, "INBOX", 2, disposition)
    on_dovecot.ours.expunged("INBOX", 1)
    on_dovecot.server.set_uid_validity(on_dovecot.user, "INBOX", 4_242)
    setting = OTHER_SETTING[disposition]
    outcome = await on_dovecot.run(setting)
    assert await on_dovecot.fate(two) == ENDS[disposition]
    assert await on_dovecot.fate(one) == (None if setting == "EraseLocalCopy" else "hidden")
    assert folder(outcome).recognized.own_removals == 1


@pytest.mark.spec("MUT-54", "SYNC-71")
@pytest.mark.parametrize("disposition", [RETAIN, TOMBSTONE])
async def test_a_new_uid_validity_leaves_what_was_decided_before(
    on_dovecot: Mailbox, disposition: AuthoredDeleteDisposition
) -> None:
    """Rows kept or hidden under the old UIDs are not disposed of again when the folder's UIDs change."""
    _, two, _ = await on_dovecot.begin()
    await on_dovecot.ours.deleted(two, "INBOX", 2, disposition)
    await on_dovecot.run()
    on_dovecot.server.set_uid_validity(on_dovecot.user, "INBOX", 4_343)
    await on_dovecot.run("EraseLocalCopy")
    assert await on_dovecot.fate(two) == ENDS[disposition]
    assert len(await stored(on_dovecot.db)) == 2


@pytest.mark.spec("MUT-47")
@pytest.mark.case("16")
async def test_a_vanished_line_amid_another_command_is_attributed(db: Database, tmp_path: Path) -> None:
    """The server mentions the removal in passing, while a message's octets are fetched."""
    script = r"""
    >> LIST *
    * LIST () "/" INBOX
    OK done
    > STATUS *
    * STATUS INBOX (MESSAGES 2 UIDNEXT 3 UIDVALIDITY 7 HIGHESTMODSEQ 10)
    OK done
    >> STATUS *
    * STATUS INBOX (MESSAGES 2 UIDNEXT 4 UIDVALIDITY 7 HIGHESTMODSEQ 20)
    OK done
    >> ENABLE QRESYNC
    * ENABLED QRESYNC
    OK done
    > EXAMINE *
    * 2 EXISTS
    * OK [UIDVALIDITY 7]
    * OK [UIDNEXT 3]
    * OK [HIGHESTMODSEQ 10]
    OK done
    > UID SEARCH *
    * SEARCH 1 2
    OK done
    > UID FETCH 1:2 (UID FLAGS INTERNALDATE RFC822.SIZE)
    * 1 FETCH (UID 1 FLAGS () RFC822.SIZE 4)
    * 2 FETCH (UID 2 FLAGS () RFC822.SIZE 4)
    OK done
    > UID FETCH 1:2 (UID BODY.PEEK[])
    * 1 FETCH (UID 1 BODY[] {{a: 1}})
    * 2 FETCH (UID 2 BODY[] {{a: 2}})
    OK done
    > EXAMINE *
    * 3 EXISTS
    * OK [UIDVALIDITY 7]
    * OK [UIDNEXT 4]
    * OK [HIGHESTMODSEQ 20]
    OK done
    > UID SEARCH *
    * SEARCH 3
    OK done
    > UID FETCH 3 (UID FLAGS *
    * 3 FETCH (UID 3 FLAGS () RFC822.SIZE 4)
    OK done
    > UID FETCH 3 (UID BODY*
    * VANISHED 2
    * 2 FETCH (UID 3 BODY[] {{a: 3}})
    OK done
    > UID FETCH 1:2 (FLAGS UID) (CHANGEDSINCE 10 VANISHED)
    OK done
    > UID SEARCH UID 2
    * SEARCH
    OK done
    >> UID SEARCH UID 1:2
    * SEARCH 1
    OK done
    >> UID SEARCH *
    * SEARCH
    OK done
    """
    async with ScriptedImap(script, capabilities="IMAP4rev1 ENABLE CONDSTORE QRESYNC") as server:
        await run_once(db, tmp_path, account_at(server.port))
        two = (await stored(db))[2][0]
        ours = OwnChanges(db, None, "anna")  # type: ignore[arg-type]  -- the script is the server
        change = await ours.recorded(two, deletion(RETAIN))
        await ours.note(change, Stage.COMPLETED)
        outcome = await run_once(db, tmp_path, account_at(server.port))
    assert (await whereabouts(db))[two] == ("INBOX", 2, "kept")
    assert (folder(outcome).gone, folder(outcome).recognized.own_removals) == (1, 1)


@pytest.mark.spec("MUT-53", "DATA-18")
async def test_erasing_takes_the_message_and_its_changes(on_dovecot: Mailbox) -> None:
    """Row, octets, document and the records of what was asked are gone; another message's stay."""
    _, two, three = await on_dovecot.begin()
    await on_dovecot.ours.recorded(three, relocation("Archive", RETAIN))
    await on_dovecot.ours.deleted(two, "INBOX", 2, ERASE)
    async with on_dovecot.ours.held_back():
        await on_dovecot.run()
    for table in ("email_message_contents", "email_search_documents", "mailbox_mutations"):
        assert await rows(on_dovecot.db, f"SELECT count(*) FROM {table} WHERE stored_email_id = %s", two) == [(0,)]
        assert await rows(on_dovecot.db, f"SELECT count(*) FROM {table} WHERE stored_email_id = %s", three) == [(1,)]
