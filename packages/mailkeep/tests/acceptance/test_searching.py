"""Searching as a person at a terminal or in the browser does it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from support.command import Installation
from support.mail import message
from support.postgres import temporary_database
from support.terminal import Terminal

from mailkeep.db.embedded import EmbeddedServer


@pytest.fixture(scope="module")
def filled(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: EmbeddedServer, template_database: str
) -> Iterator[Installation]:
    """An installation with thirty messages about a ferry in a local account."""
    folder = tmp_path_factory.mktemp("searching")
    box = folder / "box"
    box.mkdir()
    for n in range(30):
        sender = "Ann Lee <ann@example.com>" if n % 2 else "Bo <bo@example.org>"
        octets = message(
            f"Ferry {n}", from_=sender, message_id=f"{n}@x", body=f"We are running to the ferry, number {n}."
        )
        (box / f"{n}.eml").write_bytes(octets)
    with contextmanager(temporary_database)(postgres_server.dsn, template=template_database) as dsn:
        installation = Installation(folder / "home", dsn=dsn)
        installation.run("import", str(box), "--account", "home")
        yield installation


@pytest.mark.spec("FIND-35", "FIND-40", "FIND-111")
def test_queries_are_typed_kept_run_and_refused_at_their_place(filled: Installation) -> None:
    """Fields and stems, the mode and freshness, --like, saved searches, and a mark under what cannot be understood."""
    found = filled.run("search", "run", "from:ann", "--limit", "2")
    assert "**running**" in found.out
    assert "2 of 15 matches, by words" in found.err
    refused = filled.run("search", "ferry", "is:purple", code=2)
    line, mark = refused.err.splitlines()[-2:]
    assert mark.index("^") == line.index("purple")
    error = filled.run("search", "ferry is:purple", "--json", code=2).json["error"]
    assert (error["code"], error["position"]) == (51002, 9)
    result = filled.run("search", "ferry", "--json", "--limit", "1", "--facets", "--group", "copies").json
    assert result["mode"] == "lexical"
    assert {"kind": "sender", "value": "bo@example.org", "count": 15} in result["facets"]
    alike = filled.run("search", "--like", result["matches"][0]["id"], "--json").json
    assert result["matches"][0]["id"] not in {match["id"] for match in alike["matches"]}
    assert alike["matches"]
    filled.run("searches", "save", "Anns", "from:ann ferry")
    filled.run("searches", "save", "anns", "from:ann", "run")
    assert [one["query_text"] for one in filled.run("searches", "list", "--json").json["searches"]] == ["from:ann run"]
    assert filled.run("searches", "run", "ANNS", "--json").json["match_count"] == 15
    filled.run("searches", "save", "bad", "is:purple", code=2)
    filled.run("searches", "remove", "anns")
    filled.run("searches", "run", "anns", code=1)
    filled.run("search", code=2)


def test_what_finds_nothing_says_what_to_do(filled: Installation) -> None:
    """A star alone asks for nothing; a list without results is a sentence and no heading."""
    star = filled.run("search", "*")
    assert "Nothing to look for" in star.err
    empty = filled.run("list", "--subject", "absent")
    assert empty.out == ""
    assert "Nothing is stored that fits" in empty.err
    assert "No search is kept yet" in filled.run("searches", "list").err


def test_a_narrow_terminal_breaks_no_date(filled: Installation) -> None:
    """At 60 columns each message of a list is a block of lines with its date and id whole."""
    narrow = replace(filled, environment={**filled.environment, "COLUMNS": "60"})
    with Terminal(narrow, "list", "--limit", "3") as terminal:
        assert terminal.finish() == 0
    lines = [line.strip() for line in terminal.seen.splitlines()]
    assert sum(line.startswith("2024-03-05 ") for line in lines) == 3
    assert sum(len(line) == 36 and line.count("-") == 4 for line in lines) == 3


def test_the_web_page_has_further_pages_and_points_at_mistakes(filled: Installation) -> None:
    """Twenty matches a page, a link to the others, kept searches, mail like one, and a mark under a mistake."""
    filled.run("searches", "save", "Ann & co", "from:ann")
    with filled.started("serve", "--port", "0", "--no-sync") as running:
        url = running.await_line(r"Status and search: (http://127\.0\.0\.1:\d+)/").group(1)

        def get(path: str) -> str:
            with urllib.request.urlopen(f"{url}{path}", timeout=30) as answer:
                text: str = answer.read().decode()
            return text

        assert "<td>languages</td><td class=n>30</td>" in get("/")
        assert '"stage' in get("/api/status")
        first = get("/search?q=ferry")
        assert first.count("class=match") == 20
        assert "1 to 20 of 30 matches, lexical" in first
        assert "after=20" in first
        second = get("/search?q=ferry&after=20")
        assert second.count("class=match") == 10
        assert "Ann &amp; co" in second
        assert get("/search?saved=ann+%26+co").count("class=match") == 15
        email_id = second.split("/message/")[1][:36]
        assert f"/search?like={email_id}" in get(f"/message/{email_id}")
        assert "class=match" in get(f"/search?like={email_id}")
        with pytest.raises(urllib.error.HTTPError) as refused:
            get("/search?q=is%3Apurple")
        assert refused.value.code == 400
        assert "\n   ^" in refused.value.read().decode()
