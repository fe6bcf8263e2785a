"""Failures leave as a sentence and a code."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from mailkeep.cli.exits import ExitCode, exit_code, guarded, run, stop_on_signals
from mailkeep.errors import (
    AccountHeldElsewhere,
    AccountNotAccessible,
    CertificateRefused,
    ConfigurationRefused,
    CursorForeign,
    DatabaseUnavailable,
    EmailNotAccessible,
    FilterRefused,
    LoginRejected,
    MailkeepError,
    MailServerUnavailable,
    StoredContentUnreadable,
    TransferSourceRefused,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationRefused("x"), 2),
        (FilterRefused("x"), 2),
        (CursorForeign("x"), 2),
        (AccountNotAccessible("x"), 2),
        (LoginRejected("x"), 3),
        (CertificateRefused("x"), 3),
        (MailServerUnavailable("x"), 3),
        (DatabaseUnavailable("x"), 3),
        (EmailNotAccessible("x"), 1),
        (StoredContentUnreadable("x"), 1),
        (AccountHeldElsewhere("x"), 1),
        (TransferSourceRefused("x"), 1),
    ],
)
def test_each_kind_of_failure_has_its_exit_code(error: MailkeepError, code: int) -> None:
    """A script tells mistakes of use from servers that are away and from work that failed."""
    assert exit_code(error) == code


def raising(error: BaseException) -> int:
    """The exit code of a command that raises."""

    def command() -> None:
        raise error

    return guarded(command)


def test_a_named_failure_is_a_sentence_with_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of the sentence are shown, not sent, and the code leads to the reference."""
    assert raising(LoginRejected("rejected \x1b[31m")) == 3
    shown = capsys.readouterr().err
    assert "[21002]" in shown
    assert "\x1b" not in shown


def test_an_unnamed_failure_quotes_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text may be mail, so only its kind is told; the variable for developers shows the rest."""
    monkeypatch.delenv("MAILKEEP_DEBUG", raising=False)
    assert raising(RuntimeError("sentinel")) == 1
    shown = capsys.readouterr().err
    assert "RuntimeError" in shown
    assert "sentinel" not in shown
    monkeypatch.setenv("MAILKEEP_DEBUG", "1")
    raising(RuntimeError("sentinel"))
    assert "sentinel" in capsys.readouterr().err


def test_the_named_failure_inside_a_group_is_the_one_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks that fail together report what was named among them."""
    inner = ExceptionGroup("inner", [ValueError("x"), MailServerUnavailable("away")])
    assert raising(ExceptionGroup("outer", [KeyError("y"), inner])) == 3
    assert "away" in capsys.readouterr().err
    assert raising(ExceptionGroup("outer", [KeyError("y")])) == 1


def test_ctrl_c_has_its_own_code() -> None:
    """An interrupted command is told from a failed one."""
    assert raising(KeyboardInterrupt()) == ExitCode.INTERRUPTED
    assert guarded(lambda: 3) == 3
    assert guarded(lambda: None) == 0


def test_ctrl_c_inside_a_command_is_not_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """The command line library ends the process without a word; people are told, and of nothing else."""
    for code, said in ((ExitCode.INTERRUPTED, "Interrupted.\n"), (2, "")):
        with pytest.raises(SystemExit):
            raising(SystemExit(int(code)))
        assert capsys.readouterr().err == said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_work_which_tidies_up(number: signal.Signals) -> None:
    """Both signals end a command as Ctrl-C does, after its own cleaning up."""
    tidied = []
    # A shell starts its background jobs with SIGINT ignored, and this run may be one.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)

    async def work() -> None:
        os.kill(os.getpid(), number)
        try:
            await asyncio.sleep(60)
        finally:
            tidied.append(number)

    try:
        with pytest.raises(KeyboardInterrupt):
            run(work())
    finally:
        signal.signal(signal.SIGINT, inherited)
    assert tidied == [number]


def test_draining_work_is_told_to_stop_instead(capsys: pytest.CaptureFixture[str]) -> None:
    """A service that drains sees the event and ends by itself."""

    async def work() -> str:
        stop = stop_on_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 10)
        return "drained"

    assert run(work()) == "drained"
