"""Changes carried out on a real server, as an independent client sees them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from support.converging import DELETE, READ, STAR, UNSTAR, Mirrored, copy_to, keywords, move_to
from support.dovecot import Dovecot
from support.engine import mail, rows, run_once
from support.proxy import Proxy
from support.tap import Tap

from mailkeep.db import Database
from mailkeep.errors import CommandRefused
from mailkeep.imap.dialogue import Command, Completion
from mailkeep.imap.writing import WritingDialogue
from mailkeep.mutations import Mutation, Stage
from mailkeep.mutations.signals import OUTSTANDING, render_metrics
from mailkeep.sync.resources import utc_now

pytestmark = pytest.mark.anyio


@pytest.mark.spec("MUT-13", "MUT-19", "MUT-37")
async def test_a_star_reaches_the_server(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """A recorded star is set by the pass, completed without any stage in between, and nothing else changes."""
    dovecot.fill(user, "INBOX", [mail(1), mail(2)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, STAR)
    converged = await mailbox.converge()
    assert (converged.completed, converged.failed) == (1, 0)
    row = await mailbox.row(change)
    assert (row.stage, row.attempt_count, row.last_failure_code) == (Stage.COMPLETED, 1, None)
    assert row.issued_at is not None
    with dovecot.client(user) as other:
        assert other.flags("INBOX") == {1: frozenset({"\\Flagged"}), 2: frozenset()}
    assert (await mailbox.converge()).completed == 0
    await mailbox.asked(1, UNSTAR)
    await mailbox.converge()
    with dovecot.client(user) as other:
        assert other.flags("INBOX")[1] == frozenset()


@pytest.mark.spec("MUT-37", "MUT-57", "MUT-6")
async def test_flags_of_one_call_go_out_before_its_move(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A move, a star and a mark as read of one call all take effect in the account's run, the move named first."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    await mailbox.asked(1, move_to("Sent"), STAR, READ)
    outcome = await run_once(db, tmp_path, mailbox.account)
    assert not outcome.is_failed
    with dovecot.client(user) as other:
        assert other.uids("INBOX") == []
        assert list(other.flags("Sent").values()) == [frozenset({"\\Flagged", "\\Seen"})]


@pytest.mark.spec("MUT-B8")
async def test_three_hundred_moves_are_four_commands(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """One act on many messages selects, looks, asks for the destination and moves once; each row has its placement."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(300)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    await mailbox.asked_of(range(1, 301), move_to("Sent"))
    async with Tap(dovecot.ports.plain) as tap:
        mailbox.at(tap.port)
        assert (await mailbox.converge()).completed == 300
        verbs = [line.split()[1] for line in tap.lines if line.startswith("K")]
    assert verbs.count("UID") == 2
    assert len(tap.commands("UID MOVE")) == len(tap.commands(" STATUS ")) == len(tap.commands(" SELECT ")) == 1
    placed = await rows(db, "SELECT uid, placement_uid FROM mailbox_mutations WHERE placement_uid_validity > 0")
    assert sorted(placed) == [(uid, uid) for uid in range(1, 301)]


@pytest.mark.spec("MUT-26", "MUT-5")
async def test_keywords_are_replaced_and_nothing_else_is(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """set-keywords leaves the flags that another client set, removes first, and clears all when it names none."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    system = {"\\Seen", "\\Flagged", "\\Answered", "\\Draft"}
    with dovecot.client(user) as other:
        other.flag("INBOX", 1, *system, "old", "Kept")
    await mailbox.asked(1, keywords(Mutation.SET_KEYWORDS, "kept", "new"))
    async with Tap(dovecot.ports.plain) as tap:
        mailbox.at(tap.port)
        await mailbox.converge()
        stores = [line.split(" ", 1)[1] for line in tap.commands("STORE")]
    assert stores == ["UID STORE 1 -FLAGS.SILENT (old)", "UID STORE 1 +FLAGS.SILENT (kept new)"]
    mailbox.at(dovecot.ports.plain)
    with dovecot.client(user) as other:
        assert other.flags("INBOX")[1] == system | {"Kept", "new"}
        await mailbox.asked(1, keywords(Mutation.SET_KEYWORDS))
        await mailbox.converge()
        assert other.flags("INBOX")[1] == system


@pytest.mark.spec("MUT-38", "MUT-37", "MUT-B4", "MUT-43")
async def test_dead_letters_take_no_place_in_a_pass(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """Sixty abandoned changes and ten fresh ones, fifty to a pass: all ten are carried out."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(70)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user, max_mutations_per_convergence_pass=50)
    dead = await mailbox.asked_of(range(1, 61), STAR)
    for change in dead:
        await mailbox.rewrite(change, stage="Abandoned", abandoned_from_stage="Recorded", last_failure_code=25004)
    await mailbox.asked_of(range(61, 71), STAR)
    assert (await mailbox.converge()).completed == 10


@pytest.mark.spec("MUT-37")
async def test_full_passes_follow_each_other(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """Seven changes at three to a pass are all carried out by one run, in as many passes as that takes."""
    dovecot.fill(user, "INBOX", [mail(number) for number in range(7)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user, max_mutations_per_convergence_pass=3)
    await mailbox.asked_of(range(1, 8), STAR)
    assert (await mailbox.converge()).completed == 7


@pytest.mark.spec("MUT-40", "MUT-33")
async def test_a_failed_change_fails_the_run_which_reads_the_folders_all_the_same(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A STORE that the server rejects fails the run; the change behind it and new mail are dealt with in that run."""
    dovecot.fill(user, "INBOX", [mail(1), mail(2)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    failing = await mailbox.asked(1, keywords(Mutation.ADD_KEYWORDS, "xxxx"))
    behind = await mailbox.asked(2, STAR)
    dovecot.fill(user, "INBOX", [mail(3)])
    run = WritingDialogue.run

    def refusing(self: WritingDialogue, command: Command) -> Completion:
        if any(b"xxx" in part for part in command.parts):
            return Completion(b"NO", b"not now")
        return run(self, command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WritingDialogue, "run", refusing)
        outcome = await run_once(db, tmp_path, mailbox.account)
    assert outcome.is_failed
    assert (outcome.failure_code, outcome.arrivals.stored) == (CommandRefused.code, 1)
    row = await mailbox.row(failing)
    assert (row.stage, row.attempt_count, row.last_failure_code) == (Stage.RECORDED, 1, outcome.failure_code)
    assert (await mailbox.row(behind)).stage is Stage.COMPLETED
    assert not (await run_once(db, tmp_path, mailbox.account)).is_failed


@pytest.mark.spec("MUT-40", "MUT-34", "MUT-30")
async def test_a_refusal_that_abandons_fails_no_run(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """A move to a folder that is not there is abandoned with 25005, and the run is a good one."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, move_to("Nowhere"))
    assert not (await run_once(db, tmp_path, mailbox.account)).is_failed
    row = await mailbox.row(change)
    assert (row.stage, row.last_failure_code, row.attempt_count) == (Stage.ABANDONED, 25005, 1)


@pytest.mark.spec("MUT-33")
async def test_attempts_that_fail_end_at_their_bound(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """The last permitted attempt keeps its own code and abandons; no further pass sends anything."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user, max_mutation_attempts=2)
    change = await mailbox.asked(1, STAR)
    with Proxy(dovecot.ports.plain) as proxy:
        mailbox.at(proxy.port)

        def cut(_: int, command: str) -> None:
            if "STORE" in command:
                raise ConnectionResetError

        proxy.before_command = cut
        assert (await mailbox.converge()).failed == 1
        assert (await mailbox.row(change)).stage is Stage.RECORDED
        assert (await mailbox.converge()).failed == 1
        row = await mailbox.row(change)
        assert row.stage is Stage.ABANDONED
        assert row.last_failure_code not in (None, 25003)
        sent = proxy.count()
        await mailbox.converge()
        assert proxy.count() == sent


@pytest.mark.spec("MUT-32", "MUT-8")
async def test_a_server_out_of_reach_costs_no_attempt(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Attempts are counted once there is a connection, so that an outage of any length gives nothing up."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, STAR)
    async with Tap(dovecot.ports.plain) as tap:
        tap.refuses = True
        mailbox.at(tap.port)
        with pytest.raises(Exception, match="mail server"):
            await mailbox.converge()
    assert (await mailbox.row(change)).attempt_count == 0


@pytest.mark.spec("MUT-33")
async def test_a_shutdown_leaves_the_stage(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """Cancelled in the middle of its command, a change keeps its stage and no failure; the attempt stays spent."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, STAR)
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    with Proxy(dovecot.ports.plain, round_trip=0.5) as proxy:
        mailbox.at(proxy.port)
        proxy.before_command = lambda _, text: loop.call_soon_threadsafe(reached.set) if "STORE" in text else None
        running = asyncio.create_task(mailbox.converge())
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    row = await mailbox.row(change)
    assert (row.stage, row.attempt_count, row.last_failure_code) == (Stage.RECORDED, 1, None)
    mailbox.at(dovecot.ports.plain)
    assert (await mailbox.converge()).completed == 1


@pytest.mark.spec("MUT-35", "MUT-47")
async def test_a_move_whose_answer_was_lost_completes_once_its_source_is_seen_gone(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """The run after the cut sees the source gone, and the next one completes the change with no placement known."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, move_to("Junk"))
    await mailbox.rewrite(change, stage="PlacementIssued", attempt_count=1, issued_at=utc_now())
    with dovecot.client(user) as other:
        other.move("INBOX", 1, "Junk")
    for _ in range(2):
        await run_once(db, tmp_path, mailbox.account)
    row = await mailbox.row(change)
    assert (row.stage, row.last_failure_code, row.placement) == (Stage.COMPLETED, None, None)


@pytest.mark.spec("MUT-35", "MUT-36", "MUT-39")
async def test_a_copy_whose_answer_was_lost_is_given_up_after_its_grace(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Within the grace it is left, with 25002; after it, abandoned; no command is ever sent, and it is still counted."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, copy_to("Junk"))
    await mailbox.rewrite(change, stage="PlacementIssued", attempt_count=1)
    mailbox.at(1)  # where nobody answers
    assert (await mailbox.converge()).left == 1
    assert (await mailbox.row(change)).last_failure_code == 25002
    mailbox.now = lambda: utc_now() + timedelta(hours=6, minutes=1)
    assert (await mailbox.converge()).abandoned == 1
    row = await mailbox.row(change)
    assert (row.stage, row.abandoned_from_stage, row.last_failure_code) == (
        Stage.ABANDONED,
        Stage.PLACEMENT_ISSUED,
        25002,
    )
    assert b'outstanding{account="anna",lifecycle="dead-lettered",mutation="copy"} 1.0' in render_metrics()


@pytest.mark.spec("MUT-61")
async def test_a_missing_folder_is_made_where_its_mapping_says_so(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """Ancestors first, subscribed, and the message is in it."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, move_to("Old/2024/May", creates=True))
    async with Tap(dovecot.ports.plain) as tap:
        mailbox.at(tap.port)
        await mailbox.converge()
        made = [line.split(" ", 1)[1] for line in [*tap.commands(" CREATE "), *tap.commands(" SUBSCRIBE ")]]
    assert made == ['CREATE "Old"', 'CREATE "Old/2024"', 'CREATE "Old/2024/May"', 'SUBSCRIBE "Old/2024/May"']
    assert (await mailbox.row(change)).stage is Stage.COMPLETED
    with dovecot.client(user) as other:
        assert len(other.uids("Old/2024/May")) == 1


@pytest.mark.spec("MUT-29", "MUT-B3")
async def test_a_change_of_a_repointed_folder_ends_at_once(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """The alias leads to another folder since the change was recorded: 23001, without any command."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, DELETE)
    async with db.connection() as connection:
        await connection.execute(
            "INSERT INTO mail_folders (mailbox_account_id, alias, resolution_generation, remote_path)"
            " SELECT mailbox_account_id, alias, resolution_generation + 1, 'Else' FROM mail_folders WHERE alias = 'INBOX'"
        )
    mailbox.at(1)  # where nobody answers
    assert (await mailbox.converge()).abandoned == 1
    assert (await mailbox.row(change)).last_failure_code == 23001


@pytest.mark.spec("MUT-10")
async def test_a_row_that_means_nothing_is_never_acted_on(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A deletion without disposition, as no recorder writes it, is given up with 25004 and takes no place any more."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    change = await mailbox.asked(1, DELETE)
    await mailbox.rewrite(change, local_disposition=None)
    assert (await mailbox.converge()).abandoned == 1
    assert await rows(db, "SELECT stage, last_failure_code FROM mailbox_mutations WHERE id = %s", change) == [
        ("Abandoned", 25004)
    ]
    with dovecot.client(user) as other:
        assert other.uids("INBOX") == [1]


@pytest.mark.spec("MUT-41", "MUT-18")
async def test_a_row_that_somebody_else_moved_fails_alone(
    db: Database, tmp_path: Path, dovecot: Dovecot, user: str
) -> None:
    """A row completed by another hand between reading and acting is not written over; its neighbour goes on."""
    dovecot.fill(user, "INBOX", [mail(1), mail(2)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    first, second = await mailbox.asked_of([1, 2], STAR)
    loop = asyncio.get_running_loop()
    with Proxy(dovecot.ports.plain) as proxy:
        mailbox.at(proxy.port)

        def interfere(_: int, text: str) -> None:
            if text.startswith("SELECT"):
                asyncio.run_coroutine_threadsafe(
                    mailbox.rewrite(first, stage="Abandoned", abandoned_from_stage="Recorded"), loop
                ).result()

        proxy.before_command = interfere
        converged = await mailbox.converge()
    assert (converged.completed, converged.failed) == (1, 1)
    assert (await mailbox.row(first)).stage is Stage.ABANDONED
    assert (await mailbox.row(second)).stage is Stage.COMPLETED


@pytest.mark.spec("MUT-42", "MUT-67")
async def test_gauges_follow_and_empty(db: Database, tmp_path: Path, dovecot: Dovecot, user: str) -> None:
    """What waits is in the gauges with its age, what is done is counted and timed, and an emptied group is gone."""
    dovecot.fill(user, "INBOX", [mail(1)])
    mailbox = await Mirrored.of(db, tmp_path, dovecot.ports.plain, user)
    await mailbox.asked(1, STAR)
    mailbox.at(1)
    with pytest.raises(Exception, match="mail server"):
        await mailbox.converge()
    waiting = b'outstanding{account="anna",lifecycle="pending",mutation="set-flagged"} 1.0'
    assert waiting in render_metrics()
    mailbox.at(dovecot.ports.plain)
    done = b'mutations_total{account="anna",folder="INBOX",mutation="set-flagged",outcome="succeeded"} '
    before = render_metrics().partition(done)[2].partition(b"\n")[0]
    await mailbox.converge()
    after = render_metrics()
    assert waiting not in after
    assert float(after.partition(done)[2].partition(b"\n")[0]) == float(before or 0) + 1
    OUTSTANDING.replace("anna", [], now=utc_now())
