"""Exit codes, and the one place where failures become a sentence and a code instead of a traceback."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from enum import IntEnum
from typing import Any, TypeVar

from mailkeep.cli.terminal import say
from mailkeep.display import neutralise
from mailkeep.errors import (
    AccountNotAccessible,
    AuthorizationError,
    ConfigurationError,
    DatabaseUnavailable,
    DestinationRefused,
    MailkeepError,
    MailServerError,
    RoleUnmapped,
)

T = TypeVar("T")

DEBUG_VARIABLE = "MAILKEEP_DEBUG"


class ExitCode(IntEnum):
    """What a script can act on."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """The code's meaning, as the reference prints it."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "the work failed, wholly or for some folder or message; stderr says which",
    ExitCode.USAGE: "the command line, the configuration or a secret reference is not usable",
    ExitCode.UNAVAILABLE: "the mail server or the database is unavailable, or refuses the login or TLS",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; what was finished is kept",
}

# The first class that fits decides, so narrow classes stand before their families.
_CODES: tuple[tuple[type[MailkeepError], ExitCode], ...] = (
    (ConfigurationError, ExitCode.USAGE),
    (AuthorizationError, ExitCode.UNAVAILABLE),
    (MailServerError, ExitCode.UNAVAILABLE),
    (DatabaseUnavailable, ExitCode.UNAVAILABLE),
    (AccountNotAccessible, ExitCode.USAGE),
    (RoleUnmapped, ExitCode.USAGE),
    (DestinationRefused, ExitCode.USAGE),
)
# Requests that cannot be answered as asked: values, counts, ids, cursors.
_USAGE_CATEGORIES = (51, 52)


def exit_code(error: MailkeepError) -> ExitCode:
    """The exit code that belongs to a failure."""
    if error.code // 1000 in _USAGE_CATEGORIES:
        return ExitCode.USAGE
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.FAILED)


def report(error: MailkeepError) -> ExitCode:
    """Say what went wrong on stderr, with its number for the reference, and return the exit code."""
    say(neutralise(f"mailkeep: {error.message} [{error.code}]", lines=True))
    return exit_code(error)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end. Ctrl-C and SIGTERM cancel it, and the cancelled work tidies up.

    Raises KeyboardInterrupt after either; a second Ctrl-C ends the tidying as well.
    """

    async def cancellable() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(cancellable())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def stop_on_signals() -> asyncio.Event:
    """An event that Ctrl-C and SIGTERM set, in the place of cancelling: for work that drains before it ends."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def guarded(command: Callable[[], Any]) -> int:
    """Run the whole command line; every failure leaves as a sentence on stderr and a code, never as a traceback.

    An error that nobody named is reported by its type only, since its text may quote mail; `MAILKEEP_DEBUG=1` shows
    the traceback.
    """
    try:
        result = command()
    except KeyboardInterrupt:
        say("Interrupted.")
        return ExitCode.INTERRUPTED
    except SystemExit as ended:
        # The command line library turns Ctrl-C inside a command into this code and says nothing.
        if ended.code == ExitCode.INTERRUPTED:
            say("Interrupted.")
        raise
    except MailkeepError as error:
        _debug()
        return report(error)
    except BaseExceptionGroup as group:
        _debug()
        named = _first_named(group)
        if named is not None:
            return report(named)
        say(f"mailkeep: an unexpected failure ({type(group.exceptions[0]).__name__}). {_how_to_see_more()}")
        return ExitCode.FAILED
    except BrokenPipeError:
        # The reader of our output has gone (`mailkeep list | head`): nothing is wrong, and nothing more may be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:
        _debug()
        say(f"mailkeep: an unexpected failure ({type(error).__name__}). {_how_to_see_more()}")
        return ExitCode.FAILED
    return result if isinstance(result, int) else ExitCode.OK


def _first_named(group: BaseExceptionGroup[BaseException]) -> MailkeepError | None:
    for error in group.exceptions:
        if isinstance(error, MailkeepError):
            return error
        if isinstance(error, BaseExceptionGroup) and (named := _first_named(error)) is not None:
            return named
    return None


def _debug() -> None:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exc()


def _how_to_see_more() -> str:
    return f"{DEBUG_VARIABLE}=1 shows where it happened; that output may quote mail."
