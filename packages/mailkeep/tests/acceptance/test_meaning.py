"""Search by meaning as an operator meets it: declared, estimated, agreed to, built, used, cancelled."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest
from support.command import Installation
from support.mail import message

DECLARED = """
[embeddings]
use_built_in_model = false

[[embeddings.endpoints]]
alias = "trial"
kind = "Deterministic"
provider = "deterministic"
model = "{model}"
dimension = 64
"""


@pytest.fixture
def declared(installation: Installation, tmp_path: Path) -> Installation:
    """Three imported messages and a declared model that calls nobody."""
    folder = tmp_path / "mails"
    folder.mkdir()
    for name, body in (("a", "The ferry leaves at eight."), ("b", "The budget is late."), ("c", "Roses want water.")):
        (folder / f"{name}.eml").write_bytes(message(name, body=body))
    installation.environment["MAILKEEP_EMBEDDINGS__USE_BUILT_IN_MODEL"] = "false"
    installation.run("import", str(folder), "--account", "home")
    del installation.environment["MAILKEEP_EMBEDDINGS__USE_BUILT_IN_MODEL"]
    declare(installation, "letters")
    return installation


def declare(installation: Installation, model: str) -> None:
    """Write the declaration behind the other settings, in place of a former one."""
    path = installation.home / "mailkeep.toml"
    path.write_text(path.read_text().partition("\n[embeddings]")[0] + DECLARED.format(model=model))


def ask(address: str, method: str, path: str, **headers: str) -> tuple[int, Any]:
    """One request; the answer's JSON, or its text."""
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = answer.headers["content-type"].startswith("application/json")
        return answer.status, json.loads(text) if is_json else text
    finally:
        connection.close()


@pytest.mark.spec("FIND-67", "FIND-96", "FIND-69")
def test_activation_shows_its_cost_wants_consent_and_is_then_used(declared: Installation) -> None:
    """Without a terminal consent is a flag; afterwards a search goes by words and meaning, and doing it again is free."""
    before = declared.run("embeddings", "status", "--json").json
    assert (before["activation_outstanding"], before["serving"]) == (True, None)
    refused = declared.run("embeddings", "activate", code=None)
    assert refused.code != 0
    assert "--yes" in refused.err
    assert "3 emails of 3 lack vectors" in refused.err
    declared.run("embeddings", "activate", "--yes")
    after = declared.run("embeddings", "status", "--json").json
    assert after["serving"]["model"] == "letters"
    assert after["serving"]["workload"]["embedded_email_count"] == 3
    assert after["spend"]["consumed_input_character_count"] > 0
    found = declared.run("search", "water the late ferry", "--json").json
    assert (found["mode"], found["semantic_search"]) == ("hybrid", "available")
    assert len(found["matches"]) == 3
    assert "3 best, 1 with these words, by words and meaning" in declared.run("search", "water").err
    with declared.started("serve", "--port", "0", "--no-sync") as running:
        address = running.await_line(r"Status and search: http://(127\.0\.0\.1:\d+)/")[1]
        assert "1 to 3 of the best, 1 with these words, hybrid" in ask(address, "GET", "/search?q=water")[1]
    again = declared.run("embeddings", "activate", "--yes", "--json").json
    assert again["outcome"] == "AlreadyServing"


@pytest.mark.spec("FIND-73", "FIND-94", "FIND-96", "FIND-68")
def test_the_administration_over_http_does_the_same(declared: Installation) -> None:
    """Forecast, activation, cancellation, the signals; a foreign page cannot start anything."""
    with declared.started("serve", "--port", "0", "--no-sync") as running:
        address = running.await_line(r"Status and search: http://(127\.0\.0\.1:\d+)/")[1]
        path = "/api/admin/embeddings"
        status, outlook = ask(address, "GET", f"{path}/activation")
        assert (status, outlook["forecast"]) == (200, "WouldStartReindex")
        assert outlook["workload"]["outstanding_email_count"] == 3
        assert ask(address, "POST", f"{path}/activation", Origin="https://example.com")[0] == 403
        assert ask(address, "GET", path)[1]["building"] is None
        assert ask(address, "POST", f"{path}/activation") == (200, {"outcome": "ReindexStarted"})
        assert ask(address, "POST", f"{path}/activation") == (200, {"outcome": "AlreadyBuilding"})
        assert ask(address, "GET", path)[1]["building"]["model"] == "letters"
        assert ask(address, "POST", f"{path}/reindex/cancellation") == (200, {"outcome": "Cancelled"})
        assert ask(address, "POST", f"{path}/reindex/cancellation") == (200, {"outcome": "NothingBuilding"})
        status, signals = ask(address, "GET", "/metrics")
        assert status == 200
        assert "mailkeep_embedding_generation_switches_total" in signals
        assert "mailkeep_embedding_message_duration_seconds" in signals
        assert "ferry" not in signals
    declared.environment["MAILKEEP_EMBEDDINGS__MAX_INPUT_CHARACTERS_PER_PERIOD"] = "5"
    with declared.started("serve", "--port", "0", "--no-sync") as running:
        address = running.await_line(r"Status and search: http://(127\.0\.0\.1:\d+)/")[1]
        status, told = ask(address, "POST", "/api/admin/embeddings/activation")
        assert (status, told["code"]) == (409, 63001)
        assert "ceiling of 5" in told["message"]


@pytest.mark.spec("FIND-74", "FIND-66", "FIND-72")
def test_another_declaration_starts_nothing_until_it_is_activated(declared: Installation) -> None:
    """Search goes by words while another model is declared; activating it replaces the vectors."""
    declared.run("embeddings", "activate", "--yes")
    spent = declared.run("embeddings", "status", "--json").json["spend"]["consumed_input_character_count"]
    declare(declared, "other letters")
    found = declared.run("search", "water", "--json").json
    assert (found["mode"], found["semantic_search"]) == ("lexical", "degraded")
    status = declared.run("embeddings", "status", "--json").json
    assert status["activation_outstanding"]
    assert status["spend"]["consumed_input_character_count"] == spent
    declared.run("embeddings", "activate", "--yes")
    assert declared.run("search", "water", "--json").json["mode"] == "hybrid"
    assert "other letters" in declared.run("embeddings", "status").out
