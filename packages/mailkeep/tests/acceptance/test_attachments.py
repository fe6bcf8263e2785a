"""Attachments from the command line: derived, found, shown, counted; and a service killed in the middle of a file."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support import files
from support.command import Installation
from support.mail import File, message

LEASE = message(
    "Papers",
    body="See attached.\n",
    files=[
        File("lease.pdf", "application/pdf", files.pdf("The deposit is due in September.")),
        File("scan.pdf", "application/pdf", files.pdf("", picture=True)),
        File("photo.jpg", "image/jpeg", b"\xff\xd8"),
    ],
)
SLOW = message(
    "Slow",
    files=[
        File("quick.txt", "text/plain", b"bergamot"),
        File("slow.pdf", "application/pdf", files.pdf_with_content(b"BT /F 9 Tf " + b"(a) Tj " * 300_000 + b"ET")),
    ],
)


def filled(installation: Installation, folder: Path, octets: bytes) -> None:
    """A local account that holds one message; an import works at all stages that are on."""
    (folder / "one.eml").write_bytes(octets)
    installation.run("import", str(folder / "one.eml"), "--account", "papers")


@pytest.mark.spec("FIND-99", "FIND-105")
def test_files_are_derived_found_shown_and_counted(installation: Installation, tmp_path: Path) -> None:
    """What a person sees of it: where the words stand, what can be searched, how many of each."""
    filled(installation, tmp_path, LEASE)
    shown = installation.run("search", "deposit", "september").out
    assert "  in attachment lease.pdf\n" in shown
    assert "**deposit** is due in **September**" in shown
    (match,) = installation.run("search", "deposit", "--json").json["matches"]
    assert [(hit["attachment"], hit["position"]) for hit in match["found_in"]] == [("lease.pdf", 0)]
    lines = installation.run("show", match["id"]).out.splitlines()
    assert [line.rpartition("; ")[2] for line in lines if line.startswith("Attachment: ")] == [
        "searchable)",
        "scanned pages without text, found by name only)",
        "found by name only)",
    ]
    status = installation.run("status", "--json").json
    assert status["attachments"] == {"Extracted": 1, "ScannedPages": 1, "Unsupported": 1}
    assert "attachments read: 1 Extracted, 1 ScannedPages, 1 Unsupported" in installation.run("status").err


@pytest.mark.spec("FIND-105", "FIND-106")
def test_pages_link_to_the_text_of_an_attachment(installation: Installation, tmp_path: Path) -> None:
    """From the result to the text that was searched; a file without text, or of no mail, is no page."""
    filled(installation, tmp_path, LEASE)
    with installation.started("serve", "--port", "0", "--no-sync") as running:
        url = running.await_line(r"Status and search: (http://127\.0\.0\.1:\d+)/")[1]

        def get(path: str) -> tuple[int, str]:
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        status, found = get("/search?q=deposit")
        link = re.search(r'in attachment <a href="(/message/[0-9a-f-]+)(/attachment/0)">lease.pdf</a>', found)
        assert status == 200
        assert link is not None
        assert "The deposit is due in September." in get(link[1] + link[2])[1]
        message_page = get(link[1])[1]
        assert f'href="{link[1]}/attachment/0"' in message_page
        assert f'href="{link[1]}/attachment/1"' not in message_page
        assert "scanned pages without text" in message_page
        assert get(link[1] + "/attachment/7")[0] == 404
        assert get("/message/00000000-0000-7000-8000-000000000000/attachment/0")[0] == 404


@pytest.mark.spec("FIND-97")
def test_switched_off_nothing_is_read(installation: Installation, tmp_path: Path) -> None:
    """The operator decides; mail itself is found all the same."""
    installation.environment["MAILKEEP_ATTACHMENT_TEXT__ENABLED"] = "false"
    filled(installation, tmp_path, LEASE)
    assert installation.run("search", "deposit", "--json").json["matches"] == []
    (match,) = installation.run("search", "papers", "--json").json["matches"]
    assert "not read yet" in installation.run("show", match["id"]).out


@pytest.mark.spec("FIND-100", "FIND-101")
def test_a_service_killed_in_the_middle_of_a_file_leaves_nothing_behind(
    installation: Installation, tmp_path: Path
) -> None:
    """SIGKILL of the service: its worker dies with it, and the next run finds what was left."""
    installation.environment["MAILKEEP_ATTACHMENT_TEXT__ENABLED"] = "false"
    filled(installation, tmp_path, SLOW)
    installation.environment = {"MAILKEEP_ATTACHMENT_TEXT__MAX_CPU_TIME": "2s"}
    with installation.started("derive") as running:
        worker = until(lambda: worker_of(running.process.pid))
        assert worker is not None
        until(lambda: is_reading(worker))
        running.process.kill()
        running.process.wait()
    until(lambda: not Path(f"/proc/{worker}").exists() or None)
    installation.run("derive")
    (match,) = installation.run("search", "bergamot", "--json").json["matches"]
    assert [hit["attachment"] for hit in match["found_in"]] == ["quick.txt"]
    stages = {one["name"]: one for one in installation.run("status", "--json").json["stages"]}
    assert stages["attachments"]["outstanding"] == 0


def worker_of(pid: int) -> int | None:
    """The worker among the children of a process."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_child = int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid
            if is_child and b"mailkeep.extraction.worker" in (folder / "cmdline").read_bytes():
                return int(folder.name)
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
    return None


def is_reading(pid: int) -> bool | None:
    """Whether the worker is ready and busy with a file."""
    limits = Path(f"/proc/{pid}/limits").read_text()
    return True if "Max open files            3 " in limits and "R" in state(pid) else None


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(ask: Callable[[], int | bool | None]) -> int | bool | None:
    """Wait for what another process does in its own time."""
    deadline = time.monotonic() + 30
    while (found := ask()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found
