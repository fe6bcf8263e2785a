"""The worker as its parent sees it: started when it is needed, asked one file at a time, killed when it must be."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict
from types import TracebackType
from typing import Any, Final, Self

from mailkeep.extraction.formats import Format
from mailkeep.extraction.model import Bounds, Extraction, Outcome

START_SECONDS: Final = 60.0
"""Longest time until a fresh worker is ready; a busy machine imports slowly."""
FILES_PER_WORKER: Final = 500
"""A worker is replaced after so many files: what libraries leave behind stays bounded."""
_OCTETS_PER_CHARACTER: Final = 6
"""Of JSON in UTF-8: four octets for a character, two or six for one that is escaped."""
_ANSWER_OCTETS: Final = 4096


class ExtractionProcess:
    """`async with ExtractionProcess(...) as worker: await worker.extract(...)`; nothing is left running afterwards.

    `max_memory_octets` is what a worker may use beyond its start, `wall_seconds` what one file may take.
    """

    def __init__(self, bounds: Bounds, *, max_memory_octets: int, wall_seconds: float) -> None:
        self._bounds = bounds
        self._max_memory_octets = max_memory_octets
        self._wall_seconds = wall_seconds
        self._process: asyncio.subprocess.Process | None = None
        self._files = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()

    @property
    def pid(self) -> int | None:
        """The process id of the running worker; None while there is none."""
        return None if self._process is None else self._process.pid

    async def extract(
        self, octets: bytes, form: Format, *, charset: str | None = None, hint: str | None = None
    ) -> Extraction:
        """The text of one file, or what became of it. A worker that misbehaves is killed and costs nobody else.

        Raises RuntimeError as `start` does.
        """
        process = await self.start()
        self._files += 1
        request = {
            "format": form.value,
            "charset": charset,
            "hint": hint,
            "size": len(octets),
            "bounds": asdict(self._bounds),
        }
        extraction: Extraction | None = None
        try:
            async with asyncio.timeout(self._wall_seconds):
                extraction = _extraction(await self._ask(process, request, octets))
        except TimeoutError:
            return Extraction(Outcome.TIMED_OUT)
        except (OSError, asyncio.IncompleteReadError, ValueError, KeyError, TypeError):
            return Extraction(await self._cause_of_death())
        finally:
            if extraction is None or extraction.outcome is Outcome.OUT_OF_MEMORY:
                await self.kill()
        return extraction

    async def start(self) -> asyncio.subprocess.Process:
        """The running worker, or a fresh one. Raises RuntimeError when it does not start: that blames no file."""
        if self._process is not None and (self._process.returncode is not None or self._files >= FILES_PER_WORKER):
            await self.kill()
        return self._process or await self._start()

    async def kill(self) -> None:
        """End the worker, if there is one, and wait until it is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(OSError):
            await process.stdin.wait_closed()
        await asyncio.shield(process.wait())

    async def _start(self) -> asyncio.subprocess.Process:
        # Its own session keeps a terminal's Ctrl-C from it: the parent ends it. No variable of ours reaches it.
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-m",
            "mailkeep.extraction.worker",
            str(os.getpid()),
            str(self._max_memory_octets),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            close_fds=True,
            start_new_session=True,
            cwd="/",
            env={"LC_ALL": "C.UTF-8"},
        )
        self._files = 0
        try:
            async with asyncio.timeout(START_SECONDS):
                is_ready = json.loads(await self._answer(process)).get("ready") is True
        except (TimeoutError, OSError, asyncio.IncompleteReadError, ValueError):
            is_ready = False
        except BaseException:
            await self.kill()
            raise
        if not is_ready:
            await self.kill()
            raise RuntimeError("the worker that reads attachments does not start")
        return process

    async def _ask(self, process: asyncio.subprocess.Process, request: dict[str, Any], octets: bytes) -> bytes:
        assert process.stdin is not None
        header = json.dumps(request).encode("ascii")
        process.stdin.write(len(header).to_bytes(4, "big") + header)
        process.stdin.write(octets)
        await process.stdin.drain()
        return await self._answer(process)

    async def _answer(self, process: asyncio.subprocess.Process) -> bytes:
        """One answer. Raises ValueError for one longer than any true answer."""
        assert process.stdout is not None
        length = int.from_bytes(await process.stdout.readexactly(4), "big")
        if length > self._bounds.max_characters * _OCTETS_PER_CHARACTER + _ANSWER_OCTETS:
            raise ValueError("the answer is too long")
        return await process.stdout.readexactly(length)

    async def _cause_of_death(self) -> Outcome:
        """Why no answer came: the kernel says so when the processor's time was used up."""
        process = self._process
        if process is None:
            return Outcome.WORKER_DIED
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                code = await process.wait()
                return Outcome.TIMED_OUT if code == -signal.SIGXCPU else Outcome.WORKER_DIED
        return Outcome.WORKER_DIED


def _extraction(answer: bytes) -> Extraction:
    """Raises ValueError, KeyError or TypeError for what is no answer."""
    found = json.loads(answer)
    return Extraction(Outcome(found["outcome"]), str(found["text"]), bool(found["is_partial"]))
