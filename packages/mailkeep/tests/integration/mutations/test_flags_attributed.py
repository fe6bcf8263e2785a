"""Flags that moved, by whom: what a run reports, what its log line counts, and what the metrics add up."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.accounts import account_at
from support.dovecot import Dovecot
from support.engine import folder, mail, rows, run_once, stored
from support.own_changes import OwnChanges

from mailkeep.db import Database
from mailkeep.mutations import Mutation, Stage, Terms
from mailkeep.mutations.metrics import render_metrics
from mailkeep.sync import FolderOutcome

pytestmark = pytest.mark.anyio

SERVERS = ("dovecot", "dovecot_without_condstore")
SEEN = Terms(Mutation.SET_SEEN, desired_seen_state=True)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Dovecot:
    """The same mailbox behind a server that tells what changed, and one that is asked for all flags every time."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Dovecot)
    return found


class Mailbox:
    """INBOX with two messages, mirrored; and what a store of ours does, by hand."""

    def __init__(self, db: Database, home: Path, server: Dovecot, user: str) -> None:
        self.db, self.home, self.server, self.user = db, home, server, user
        self.ours = OwnChanges(db, server, user)

    async def run(self) -> FolderOutcome:
        outcome = await run_once(self.db, self.home, account_at(self.server.ports.plain, user_name=self.user))
        assert not outcome.is_failed
        return folder(outcome)

    async def begin(self, *flags: str) -> list[UUID]:
        with self.server.client(self.user) as other:
            other.append("INBOX", mail("one"), flags=flags)
            other.append("INBOX", mail("two"))
        await self.run()
        return [row[0] for row in (await stored(self.db)).values()]

    async def stored(self, email: UUID, terms: Terms, sign: str, *flags: str) -> UUID:
        """A store of ours at message 1, from its intent to its end."""
        change = await self.ours.recorded(email, terms)
        await self.ours.issued(change)
        self.ours.stored("INBOX", 1, sign, *flags)
        await self.ours.note(change, Stage.COMPLETED)
        return change


@pytest.fixture
def mailbox(db: Database, tmp_path: Path, server: Dovecot, user: str) -> Mailbox:
    return Mailbox(db, tmp_path, server, user)


def counts(outcome: FolderOutcome) -> tuple[dict[str, int], dict[str, int]]:
    """Values changed by us, and by the owner."""
    return dict(outcome.recognized.own_flags), dict(outcome.recognized.owner_flags)


def metric(what: str, author: str) -> float:
    line = f'mailkeep_mailbox_observations_total{{author="{author}",what="{what}"}} '
    found = [row[len(line) :] for row in render_metrics().decode().splitlines() if row.startswith(line)]
    return float(found[0]) if found else 0.0


@pytest.mark.spec("MUT-50", "MUT-52", "SYNC-84", "MUT-6")
async def test_our_own_store_is_withheld_and_the_owner_s_is_counted(
    mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    """In the run's outcome, in its log line by value, in the metrics; each change by itself at debug."""
    caplog.set_level(logging.DEBUG)
    one, two = await mailbox.begin()
    before = metric("seen", "own"), metric("flagged", "owner"), metric("keywords", "owner")
    await mailbox.stored(one, SEEN, "+", "\\Seen")
    assert (await stored(mailbox.db))[1][2] is False  # until it is read back
    mailbox.ours.stored("INBOX", 1, "+", "\\Flagged")
    mailbox.ours.stored("INBOX", 2, "+", "Todo")
    outcome = await mailbox.run()
    assert counts(outcome) == ({"seen": 1}, {"flagged": 1, "keywords": 1})
    after = metric("seen", "own"), metric("flagged", "owner"), metric("keywords", "owner")
    assert [late - early for early, late in zip(before, after, strict=True)] == [1, 1, 1]
    lines: list[Any] = [line for line in caplog.records if line.message == "folder run" and line.flags_changed]  # type: ignore[attr-defined]
    assert [(line.own_flags, line.owner_flags) for line in lines] == [({"seen": 1}, {"flagged": 1, "keywords": 1})]
    single: list[Any] = [line for line in caplog.records if line.message == "flags changed"]
    assert sorted((line.stored_email_id, line.value, line.author) for line in single) == sorted(
        [(str(one), "seen", "own"), (str(one), "flagged", "owner"), (str(two), "keywords", "owner")]
    )
    assert counts(await mailbox.run()) == ({}, {})


@pytest.mark.spec("MUT-50")
async def test_an_owner_s_revert_before_the_next_reading_is_the_owner_s(mailbox: Mailbox) -> None:
    """We marked it read while it was unread; found unread, nothing moved; and what the owner does next is theirs.

    The reading that showed no change has spent the store: when the owner marks the message read, it explains nothing.
    """
    one, _ = await mailbox.begin()
    await mailbox.stored(one, SEEN, "+", "\\Seen")
    mailbox.ours.stored("INBOX", 1, "-", "\\Seen")
    assert counts(await mailbox.run()) == ({}, {})
    mailbox.ours.stored("INBOX", 1, "+", "\\Seen")
    assert counts(await mailbox.run()) == ({}, {"seen": 1})


@pytest.mark.spec("MUT-50")
async def test_an_owner_s_revert_of_what_was_read_back_is_the_owner_s(mailbox: Mailbox) -> None:
    """Star, unstar by the owner, star by the owner: one change of ours and two of theirs."""
    one, _ = await mailbox.begin()
    await mailbox.stored(one, Terms(Mutation.SET_FLAGGED, desired_flagged_state=True), "+", "\\Flagged")
    found = [counts(await mailbox.run())]
    for sign in "-+":
        mailbox.ours.stored("INBOX", 1, sign, "\\Flagged")
        found.append(counts(await mailbox.run()))
    assert found == [({"flagged": 1}, {}), ({}, {"flagged": 1}), ({}, {"flagged": 1})]


@pytest.mark.spec("MUT-B5")
async def test_a_reading_between_the_store_and_its_end_is_ours(mailbox: Mailbox) -> None:
    """The STORE has gone out and its answer is not written down yet; the end that follows explains nothing more."""
    one, _ = await mailbox.begin()
    async with mailbox.ours.held_back():
        change = await mailbox.ours.recorded(one, SEEN)
        await mailbox.ours.issued(change)
        mailbox.ours.stored("INBOX", 1, "+", "\\Seen")
        assert counts(await mailbox.run()) == ({"seen": 1}, {})
        await mailbox.ours.note(change, Stage.COMPLETED)
    mailbox.ours.stored("INBOX", 1, "-", "\\Seen")
    assert counts(await mailbox.run()) == ({}, {"seen": 1})


@pytest.mark.spec("MUT-50")
async def test_what_was_only_recorded_explains_nothing(mailbox: Mailbox) -> None:
    """The owner did it first; our change is still to be carried out."""
    one, _ = await mailbox.begin()
    async with mailbox.ours.held_back():
        await mailbox.ours.recorded(one, SEEN)
        mailbox.ours.stored("INBOX", 1, "+", "\\Seen")
        assert counts(await mailbox.run()) == ({}, {"seen": 1})


@pytest.mark.spec("MUT-50")
@pytest.mark.parametrize(
    ("mutation", "keywords", "sign", "flags"),
    [
        (Mutation.ADD_KEYWORDS, ("Todo",), "+", ("todo",)),
        (Mutation.REMOVE_KEYWORDS, ("KEEP",), "-", ("Keep",)),
        (Mutation.SET_KEYWORDS, (), "-", ("Keep",)),
    ],
)
async def test_keywords_are_compared_without_regard_to_case(
    mailbox: Mailbox, mutation: Mutation, keywords: tuple[str, ...], sign: str, flags: tuple[str, ...]
) -> None:
    """As the server spells them and as they were asked for; another keyword beside them makes the change the owner's."""
    one, _ = await mailbox.begin("Keep")
    await mailbox.stored(one, Terms(mutation, keywords=keywords), sign, *flags)
    assert counts(await mailbox.run()) == ({"keywords": 1}, {})
    await mailbox.stored(one, Terms(Mutation.ADD_KEYWORDS, keywords=("Another",)), "+", "Another")
    mailbox.ours.stored("INBOX", 1, "+", "Beside")
    assert counts(await mailbox.run()) == ({}, {"keywords": 1})


@pytest.mark.spec("MUT-51")
async def test_the_newest_stores_count_and_a_longer_history_is_logged(
    mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Six unread stores of one kind: the oldest is left out, and one line says so."""
    caplog.set_level(logging.INFO)
    one, _ = await mailbox.begin()
    for number in range(6):
        term = Terms(Mutation.ADD_KEYWORDS, keywords=(f"K{number}",))
        change = await mailbox.ours.recorded(one, term)
        await mailbox.ours.issued(change)
        await mailbox.ours.note(change, Stage.COMPLETED)
    mailbox.ours.stored("INBOX", 1, "+", *(f"K{number}" for number in range(6)))
    assert counts(await mailbox.run()) == ({}, {"keywords": 1})
    lines: list[Any] = [line for line in caplog.records if line.message == "more stores than are considered"]
    assert [(line.uid, line.mutation) for line in lines] == [(1, "add-keywords")]


@pytest.mark.spec("MUT-50", "SYNC-84")
async def test_a_store_at_another_occurrence_explains_nothing(mailbox: Mailbox) -> None:
    """The same UID of an earlier UIDVALIDITY was another message."""
    one, _ = await mailbox.begin()
    await mailbox.stored(one, SEEN, "+", "\\Seen")
    await rows(mailbox.db, "UPDATE mailbox_mutations SET uid_validity = uid_validity + 1 RETURNING id")
    assert counts(await mailbox.run()) == ({}, {"seen": 1})


@pytest.mark.spec("MUT-6")
async def test_a_record_alone_changes_no_flag_column(mailbox: Mailbox) -> None:
    """Whatever stage it is written to reach: a reader sees the old value until the server was read."""
    one, _ = await mailbox.begin()
    before = await rows(mailbox.db, "SELECT id, xmin FROM stored_emails ORDER BY id")
    change = await mailbox.ours.recorded(one, SEEN)
    await mailbox.ours.issued(change)
    await mailbox.ours.note(change, Stage.COMPLETED)
    assert await rows(mailbox.db, "SELECT id, xmin FROM stored_emails ORDER BY id") == before
