"""The example host as its README runs it: two replicas, an agent, a browser's requests."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

HOST = Path(__file__).parents[4] / "examples" / "host-fastapi"


@pytest.fixture(scope="module")
def replicas() -> Iterator[tuple[str, str]]:
    """The addresses of both replicas; both must end well."""
    command = [sys.executable, str(HOST / "run.py"), "--ports", "0", "0", "--interval", "0.5"]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            found = [
                re.match(r"(http://127\.0\.0\.1:\d+)/sign-in/ann-session", process.stdout.readline()) for _ in "ab"
            ]
            assert found[0] is not None
            assert found[1] is not None
            yield found[0][1], found[1][1]
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            assert process.stdout is not None
            process.stdout.close()
            errors.seek(0)
            said = errors.read().decode()
        assert code == 0, said
        assert "Traceback" not in said, said


@contextmanager
def signed_in(address: str, person: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=address, timeout=20) as client:
        assert client.get(f"/sign-in/{person}-session").status_code == 303
        yield client


def events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@pytest.mark.spec("INBOX-1", "INBOX-2", "INBOX-36", "INBOX-111")
def test_mail_of_the_agent_arrives_live_and_a_change_here_shows_there(replicas: tuple[str, str]) -> None:
    """The agent, a third process, is heard on a stream; a change at one replica is heard at the other."""
    with signed_in(replicas[0], "ann") as here, signed_in(replicas[1], "ann") as there:
        assert "Inbox" in here.get("/").text
        with there.stream("GET", "/api/me/inbox/events") as stream:
            heard = events(stream.iter_lines())
            created = next(event for event in heard if event["op"] == "create")
            listed = {each["id"]: each for each in here.get("/api/me/inbox").json()["messages"]}
            assert listed[created["id"]]["subject"].startswith("Shipment")
            assert here.post(f"/api/me/inbox/{created['id']}/archive").json() == {"id": created["id"], "ok": True}
            assert next(event for event in heard if event["op"] == "archive")["id"] == created["id"]


@pytest.mark.spec("INBOX-82", "INBOX-77")
def test_people_see_their_own_mail_alone(replicas: tuple[str, str]) -> None:
    """Somebody of another tenant can neither see nor change it; nobody has an empty inbox."""
    with signed_in(replicas[0], "ann") as ann, signed_in(replicas[0], "gus") as gus:
        deadline = time.monotonic() + 20
        while not (mine := ann.get("/api/me/inbox").json()["messages"]):
            assert time.monotonic() < deadline
        theirs = gus.get("/api/me/inbox?limit=200").json()["messages"]
        assert not {each["id"] for each in theirs} & {each["id"] for each in mine}
        assert gus.post(f"/api/me/inbox/{mine[0]['id']}/trash").status_code == 404
    assert httpx2.get(replicas[0] + "/api/me/inbox").json() == {"messages": []}
    assert httpx2.get(replicas[0] + "/api/me/inbox/events").status_code == 403


@pytest.mark.spec("INBOX-89")
def test_routes_join_the_document_of_the_host(replicas: tuple[str, str]) -> None:
    """The host's own OpenAPI document shows them with its words."""
    document = httpx2.get(replicas[0] + "/openapi.json").json()
    parameters = {each["name"]: each for each in document["paths"]["/api/me/inbox"]["get"]["parameters"]}
    assert parameters["priority"]["schema"]["enum"] == ["urgent", "normal", "low"]
