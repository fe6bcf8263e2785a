"""Large batches are read by a process of its own; what becomes of a message that it does not survive."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import mailkeep.sync.preparer as module
from mailkeep.preparation import DEFAULT_LIMITS, Arrival, Flags, Form, PreparingProcess, Uid, prepare
from mailkeep.sync.preparer import Preparer

pytestmark = pytest.mark.anyio

SOMETIME = datetime(2026, 3, 1, 12, tzinfo=UTC)

# The true worker, except that some words in a message end it, or keep it for ever.
TRAP = """
import os, signal, mailkeep.preparation.worker as worker
read = worker.prepare
def prepare(arrivals, *, limits):
    if any(b"POISON" in arrival.octets for arrival in arrivals):
        os._exit(11)
    if any(b"ENDLESS" in arrival.octets for arrival in arrivals):
        signal.pause()
    return read(arrivals, limits=limits)
worker.prepare = prepare
worker.main()
"""


def arrivals(count: int, **bodies: bytes) -> list[Arrival]:
    """`count` messages; `u7=b"..."` is the body of UID 7."""
    made = []
    for uid in range(1, count + 1):
        octets = b"From: Ann Lee <ann@example.com>\r\nSubject: No. %d\r\n\r\n" % uid + bodies.get(f"u{uid}", b"Hello")
        flags = Flags(seen=uid % 2 == 0, keywords=("$WORK",))
        made.append(Arrival(Uid(uid), len(octets), SOMETIME, flags, octets))
    return made


def forms(messages: Sequence[module.PreparedMessage]) -> dict[int, Form]:
    return {message.arrival.uid: message.form for message in messages}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_large_batch_is_read_elsewhere_and_comes_back_the_same() -> None:
    """Rows, documents, digests, identifiers and arrivals are those that reading it here gives."""
    process = PreparingProcess()
    batch = arrivals(module.MESSAGES_FOR_PROCESS, u3=b"\xff\xfe\x00 \xe9")
    async with Preparer(process) as preparer:
        prepared = await preparer.prepare(batch, limits=DEFAULT_LIMITS)
        pid = process.pid
        assert pid is not None
        assert prepared == prepare(batch, limits=DEFAULT_LIMITS)
        assert await preparer.prepare(batch, limits=DEFAULT_LIMITS) == prepared
        assert process.pid == pid
    assert not is_alive(pid)


async def test_a_small_batch_starts_no_process() -> None:
    """A few new messages are read at once; one of many octets is worth a process."""
    process = PreparingProcess()
    async with Preparer(process) as preparer:
        assert len((await preparer.prepare(arrivals(20), limits=DEFAULT_LIMITS)).messages) == 20
        assert process.pid is None
        await preparer.prepare(arrivals(1, u1=b"x" * module.OCTETS_FOR_PROCESS), limits=DEFAULT_LIMITS)
        assert process.pid is not None


@pytest.mark.spec("SYNC-145")
async def test_a_message_that_ends_the_process_costs_itself_alone() -> None:
    """It is kept with its octets and size; all others of its batch, and the next batch, are read whole."""
    process = PreparingProcess(program=("-c", TRAP))
    batch = arrivals(120, u41=b"POISON")
    async with Preparer(process) as preparer:
        prepared = await preparer.prepare(batch, limits=DEFAULT_LIMITS)
        assert forms(prepared.messages) == {uid: Form.BARE if uid == 41 else Form.WHOLE for uid in range(1, 121)}
        assert [message.arrival for message in prepared.messages] == batch
        assert prepared.messages[40].sha256 is not None
        assert not prepared.messages[40].is_structurally_read
        again = await preparer.prepare(arrivals(120), limits=DEFAULT_LIMITS)
        assert set(forms(again.messages).values()) == {Form.WHOLE}


@pytest.mark.spec("SYNC-145")
async def test_a_message_that_is_read_for_ever_costs_itself_alone() -> None:
    """The process is ended after its time; nobody waits longer."""
    process = PreparingProcess(batch_seconds=0.2, program=("-c", TRAP))
    async with Preparer(process) as preparer, asyncio.timeout(60):
        prepared = await preparer.prepare(arrivals(100, u100=b"ENDLESS"), limits=DEFAULT_LIMITS)
    assert forms(prepared.messages) == {uid: Form.BARE if uid == 100 else Form.WHOLE for uid in range(1, 101)}


@pytest.mark.spec("SYNC-145")
async def test_a_process_that_somebody_ends_blames_no_message() -> None:
    """Its batch is read by the next one."""
    process = PreparingProcess()
    async with Preparer(process) as preparer:
        await preparer.prepare(arrivals(100), limits=DEFAULT_LIMITS)
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        prepared = await preparer.prepare(arrivals(100), limits=DEFAULT_LIMITS)
    assert set(forms(prepared.messages).values()) == {Form.WHOLE}


@pytest.mark.spec("SYNC-145")
@pytest.mark.parametrize("program", [("-c", "raise SystemExit(1)"), ("-c", "print('another language' * 9)")])
async def test_where_no_process_starts_mail_is_read_here(program: tuple[str, str]) -> None:
    """No message is blamed for it."""
    async with Preparer(PreparingProcess(program=program)) as preparer:
        prepared = await preparer.prepare(arrivals(100), limits=DEFAULT_LIMITS)
    assert prepared == prepare(arrivals(100), limits=DEFAULT_LIMITS)


async def test_an_idle_process_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is given back; the next large batch starts another."""
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Watched(PreparingProcess):
        def kill(self) -> None:
            was_running = self.pid is not None
            super().kill()
            if was_running:
                loop.call_soon_threadsafe(ended.set)

    process = Watched()
    async with Preparer(process) as preparer, asyncio.timeout(60):
        await preparer.prepare(arrivals(100), limits=DEFAULT_LIMITS)
        await ended.wait()
        assert process.pid is None
        assert len((await preparer.prepare(arrivals(100), limits=DEFAULT_LIMITS)).messages) == 100


async def test_it_is_started_while_many_messages_are_being_fetched() -> None:
    """The first batch need not wait for it; a few messages start none; nothing is left when the block ends at once."""
    process = PreparingProcess()
    async with Preparer(process) as preparer:
        preparer.expect(module.MESSAGES_FOR_PROCESS - 1)
        await preparer.prepare(arrivals(1), limits=DEFAULT_LIMITS)
        assert process.pid is None
        preparer.expect(module.MESSAGES_FOR_PROCESS)
        await preparer.prepare(arrivals(1), limits=DEFAULT_LIMITS)  # waits for the thread that starts it
        pid = process.pid
        assert pid is not None
        assert is_alive(pid)
    assert not is_alive(pid)
    with pytest.raises(OSError, match="does not start"):
        process.start()
    assert process.pid is None


def test_it_ends_with_its_parent() -> None:
    """Also when the parent is killed, and so ends nothing itself."""
    parent = """
import os, signal
from mailkeep.preparation import PreparingProcess
process = PreparingProcess()
process.start()
os.write(1, b"%d" % process.pid)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, timeout=60, check=False)
    watched = int(done.stdout)
    for _ in range(1000):  # the kernel has sent the signal; dying takes it a moment
        if not is_alive(watched):
            return
        os.sched_yield()
    assert not is_alive(watched)
