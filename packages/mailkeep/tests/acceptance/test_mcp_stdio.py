"""`mailkeep mcp` as the client that starts it meets it."""

from __future__ import annotations

import json
import signal
import subprocess
from functools import partial

import pytest
from support.command import TIMEOUT_SECONDS, Installation, command

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_while_its_input_stays_open(installation: Installation, number: int) -> None:
    """A client that answers nothing more and only sends a signal leaves no process behind."""
    with subprocess.Popen(
        command(["mcp"]),
        env=installation.variables(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # a job in the background ignores it
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "mailkeep"
            process.send_signal(number)
            process.wait(TIMEOUT_SECONDS)
        finally:
            process.kill()


def test_half_a_surrogate_pair_is_answered(installation: Installation) -> None:
    """A client whose text was cut inside an emoji gets its answer instead of waiting for ever."""
    call = {"name": "search_emails", "arguments": {"query_text": "cut \ud83d"}}
    with subprocess.Popen(
        command(["mcp"]),
        env=installation.variables(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for request in (INITIALIZE, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline())
            assert answer["id"] == 2
            assert answer["result"]["structuredContent"]["matches"] == []
        finally:
            process.kill()


def test_the_end_of_input_ends_the_server(installation: Installation) -> None:
    """A client that closes the pipe ends the session with exit code 0, a last line without its end included."""
    finished = installation.run("mcp", stdin=json.dumps(INITIALIZE))
    assert json.loads(finished.out)["result"]["serverInfo"]["name"] == "mailkeep"
