"""The worker process: confined, killable, never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import files

from mailkeep.extraction import Bounds, Format, Outcome
from mailkeep.extraction.process import ExtractionProcess

pytestmark = pytest.mark.anyio

ENDLESS = files.pdf_with_content(b"BT /F 9 Tf " + b"(word) Tj " * 400_000 + b"ET")
"""A page whose text takes longer than any test waits for."""
MEMORY = 256 << 20


def worker(bounds: Bounds = Bounds(), *, wall_seconds: float = 60.0, memory: int = MEMORY) -> ExtractionProcess:  # noqa: B008
    return ExtractionProcess(bounds, max_memory_octets=memory, wall_seconds=wall_seconds)


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that the system does in its own time."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 -- another process gives no event
            await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_one_worker_reads_many_files_and_is_gone_afterwards() -> None:
    """It is started once, and leaving the block ends it."""
    async with worker() as process:
        first = await process.extract(files.docx("one"), Format.ZIP)
        pid = process.pid
        second = await process.extract("Größe".encode("cp1252"), Format.TEXT, charset="windows-1252")
        assert (first.text, second.text, process.pid) == ("one", "Größe", pid)
        assert pid is not None
        assert is_alive(pid)
    await until(lambda: not is_alive(pid))


@pytest.mark.spec("FIND-100")
async def test_worker_holds_three_descriptors_and_may_open_no_other() -> None:
    """Nothing of ours is inherited, and the limits are as hard as they come."""
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    try:
        async with worker() as process:
            await process.extract(b"words", Format.TEXT)
            folder = Path(f"/proc/{process.pid}")
            assert sorted(os.listdir(folder / "fd")) == ["0", "1", "2"]
            limits = {line[:26].strip(): line[26:].split()[:2] for line in (folder / "limits").read_text().splitlines()}
            assert limits["Max open files"] == ["3", "3"]
            assert limits["Max file size"] == ["0", "0"]
            assert limits["Max core file size"] == ["0", "0"]
            assert limits["Max processes"] == ["0", "0"]
            assert int(limits["Max address space"][1]) < MEMORY + (512 << 20)
            assert (folder / "environ").read_bytes().replace(b"LC_ALL=C.UTF-8\0", b"").strip(b"\0") == b""
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.spec("FIND-100")
def test_confined_code_reaches_neither_files_nor_network_nor_processes(tmp_path: Path) -> None:
    """Whatever a reader might be talked into, the kernel refuses."""
    attempts = """
import os, socket, sys
from mailkeep.extraction.confinement import confine
from mailkeep.extraction.worker import import_everything
import_everything()
confine(64 << 20)
refused = []
for name, attempt in {
    "read": lambda: open("/etc/passwd"),
    "write": lambda: os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY),
    "connect": lambda: socket.socket(),
    "pipe": lambda: os.pipe(),
    "memory": lambda: bytearray(512 << 20),
}.items():
    try:
        attempt()
    except (OSError, MemoryError):
        refused.append(name)
os.write(1, " ".join(refused).encode())
"""
    target = tmp_path / "written"
    done = subprocess.run([sys.executable, "-c", attempts, str(target)], capture_output=True, timeout=60, check=False)
    assert done.stdout.decode() == "read write connect pipe memory", done.stderr
    assert not target.exists()


@pytest.mark.spec("FIND-100")
async def test_processor_time_ends_a_file_and_the_next_one_is_read() -> None:
    """The kernel ends the worker; a fresh one takes over."""
    async with worker(Bounds(cpu_seconds=1)) as process:
        assert (await process.extract(ENDLESS, Format.PDF)).outcome is Outcome.TIMED_OUT
        assert process.pid is None
        assert (await process.extract(b"words", Format.TEXT)).text == "words"


@pytest.mark.spec("FIND-100")
async def test_wall_time_ends_a_file_and_the_next_one_is_read() -> None:
    """Also where no processor time is spent."""
    async with worker(wall_seconds=0.5) as process:
        await process.start()
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        assert (await process.extract(b"words", Format.TEXT)).outcome is Outcome.TIMED_OUT
        assert not is_alive(pid)
        assert (await process.extract(b"words", Format.TEXT)).text == "words"


@pytest.mark.spec("FIND-100")
async def test_memory_is_bounded_and_the_next_file_is_read() -> None:
    """A content stream that unpacks to more than the worker may hold costs the worker, not the machine."""
    import zlib

    stream = zlib.compress(b"(" + b" " * (70 << 20) + b") Tj", 9)
    bomb = files.pdf_with_content(stream, b"/Filter /FlateDecode")
    async with worker(memory=64 << 20) as process:
        found = await process.extract(bomb, Format.PDF)
        assert found.outcome in (Outcome.OUT_OF_MEMORY, Outcome.WORKER_DIED, Outcome.BROKEN)
        assert found.text == ""
        assert (await process.extract(b"words", Format.TEXT)).text == "words"


@pytest.mark.spec("FIND-100")
async def test_a_killed_worker_is_told_and_replaced() -> None:
    """Somebody, or the kernel short of memory, kills it in the middle of a file."""
    async with worker() as process:
        await process.start()
        pid = process.pid
        assert pid is not None
        before = _processor_time(pid)
        reading = asyncio.ensure_future(process.extract(ENDLESS, Format.PDF))
        await until(lambda: _processor_time(pid) > before)
        os.kill(pid, signal.SIGKILL)
        assert (await reading).outcome is Outcome.WORKER_DIED
        assert (await process.extract(b"words", Format.TEXT)).text == "words"


def _processor_time(pid: int) -> float:
    return float(int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]))


@pytest.mark.spec("FIND-99")
async def test_output_is_bounded_whatever_a_file_holds() -> None:
    """A hundred megabytes of text come back as the bound allows."""
    bounds = Bounds(max_characters=10_000)
    async with worker(bounds, memory=512 << 20) as process:
        found = await process.extract(b"word " * (20 << 20), Format.TEXT)
        assert (found.outcome, found.is_partial) == (Outcome.EXTRACTED, True)
        assert len(found.text) <= 10_000


@pytest.mark.spec("FIND-100")
async def test_an_answer_longer_than_any_true_one_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker that was taken over cannot fill the parent's memory."""
    liar = tmp_path / "liar"
    ready = json.dumps({"ready": True}).encode()
    liar.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"sys.stdout.buffer.write({len(ready).to_bytes(4, 'big')!r} + {ready!r} + b'\\x7f\\xff\\xff\\xff' + b'x' * 100)\n"
        "sys.stdout.buffer.flush()\nsys.stdin.buffer.read()\n"
    )
    liar.chmod(0o700)
    monkeypatch.setattr("mailkeep.extraction.process.sys.executable", str(liar))
    async with worker() as process:
        assert (await process.extract(b"words", Format.TEXT)).outcome is Outcome.WORKER_DIED


@pytest.mark.spec("FIND-101")
async def test_a_worker_that_does_not_start_blames_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is told, and nothing is recorded of the file."""
    monkeypatch.setattr("mailkeep.extraction.process.sys.executable", "/bin/false")
    async with worker() as process:
        with pytest.raises(RuntimeError):
            await process.extract(b"words", Format.TEXT)


async def test_cancelling_leaves_no_worker_behind() -> None:
    """A service that stops in the middle of a file."""
    process = worker()
    await process.start()
    pid = process.pid
    assert pid is not None

    async def read() -> None:
        async with process:
            await process.extract(ENDLESS, Format.PDF)

    before = _processor_time(pid)
    reading = asyncio.ensure_future(read())
    await until(lambda: _processor_time(pid) > before)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert not is_alive(pid)


@pytest.mark.spec("FIND-100")
async def test_worker_dies_with_a_killed_parent() -> None:
    """SIGKILL gives the parent no chance to clean up, in the middle of a file or between two."""
    parent_code = """
import asyncio, sys
from mailkeep.extraction import Bounds, Format
from mailkeep.extraction.process import ExtractionProcess
async def main():
    process = ExtractionProcess(Bounds(), max_memory_octets=256 << 20, wall_seconds=600)
    await process.start()
    print(process.pid, flush=True)
    await process.extract(sys.stdin.buffer.read(), Format.PDF)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", parent_code, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    async with asyncio.timeout(60):
        pid = int(await parent.stdout.readline())
        parent.stdin.write(ENDLESS)
        parent.stdin.close()
        before = _processor_time(pid)
        await until(lambda: _processor_time(pid) > before)
        parent.kill()
        await parent.wait()
    await until(lambda: not is_alive(pid))
