"""The process that prepares, as its parent sees it: asked one batch at a time by one thread, killed when it must be."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from mailkeep.preparation.model import Arrival, PreparedMessage
from mailkeep.preparation.wire import LENGTH, READY, whole
from mailkeep_message import Limits

START_SECONDS: Final = 60.0
"""Longest time until a new process is ready; a busy machine imports slowly."""
BATCH_SECONDS: Final = 300.0
"""Longest time that one batch may take; ordinary mail takes a third of a millisecond a message."""


ANSWER_OCTETS: Final = 8 * 1024 * 1024
"""More than the row and the document of one message can have; a longer answer is no answer."""


class ProcessLost(Exception):  # noqa: N818 -- it ended; whose error that is, is not known
    """The process ended, or was ended for its silence, before it answered. It may have been a message's fault."""


class PreparingProcess:
    """Blocking; for one thread, except `close`, which any may call."""

    def __init__(
        self, *, batch_seconds: float = BATCH_SECONDS, program: Sequence[str] = ("-m", "mailkeep.preparation.worker")
    ) -> None:
        """`program` is what the interpreter is told to run; see worker.py for what it has to answer."""
        self._batch_seconds = batch_seconds
        self._program = tuple(program)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The process id; None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start it unless it runs. Raises OSError when it cannot or does not get ready, which is no message's fault."""
        if self._process is not None and self._process.poll() is None:
            return
        self.kill()
        # Its own session keeps a terminal's Ctrl-C from it: the parent ends it. No variable of ours reaches it.
        self._process = process = subprocess.Popen(  # noqa: S603
            (sys.executable, "-I", *self._program, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env={"LC_ALL": "C.UTF-8"},
        )
        try:
            with _killed_after(process, START_SECONDS):
                is_ready = _answer(process, at_most=len(READY)) == READY
        except ProcessLost:
            is_ready = False
        if not is_ready or self._is_closed:
            self.kill()
            raise OSError("the process that reads mail does not start")

    def prepare(self, arrivals: Sequence[Arrival], *, limits: Limits) -> tuple[PreparedMessage, ...]:
        """What `prepare` gives. Raises ProcessLost; OSError as `start` does."""
        self.start()
        process = self._process
        if process is None:
            raise ProcessLost  # killed meanwhile
        request = pickle.dumps((list(arrivals), limits), pickle.HIGHEST_PROTOCOL)
        try:
            with _killed_after(process, self._batch_seconds):
                _send(process, request)
                del request
                answer = _answer(process, at_most=ANSWER_OCTETS * len(arrivals))
        except ProcessLost:
            self.kill()
            raise
        rows = pickle.loads(answer)  # noqa: S301 -- see worker.py
        return tuple(whole(arrival, fields) for arrival, fields in zip(arrivals, rows, strict=True))

    def close(self) -> None:
        """End it for good: whoever waits for its answer is told that it is lost, and none is started any more."""
        self._is_closed = True
        self.kill()

    def kill(self) -> None:
        """End it, if it runs, and wait until it is gone; the next batch starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError), process:  # closes the pipes, one may hold unsent octets, and waits
                pass


@contextlib.contextmanager
def _killed_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """A pipe has no timeout, but whoever reads it is woken when the other side is killed."""
    timer = threading.Timer(seconds, process.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _send(process: subprocess.Popen[bytes], request: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(LENGTH.pack(len(request)))
        process.stdin.write(request)
        process.stdin.flush()
    except (OSError, ValueError) as error:  # ValueError: closed by `kill`
        raise ProcessLost from error


def _answer(process: subprocess.Popen[bytes], *, at_most: int) -> bytes:
    assert process.stdout is not None
    try:
        header = process.stdout.read(LENGTH.size)
        if len(header) == LENGTH.size:
            (length,) = LENGTH.unpack(header)
            answer = process.stdout.read(min(length, at_most))
            if len(answer) == length:
                return answer
    except (OSError, ValueError) as error:
        raise ProcessLost from error
    raise ProcessLost
