"""An authorization server for every test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.authorization import AuthorizationServer

SEED = "seed token"


@pytest.fixture
def authorization(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthorizationServer]:
    """A server with one refresh token, which the environment names as the seed of accounts."""
    monkeypatch.setenv("MAILKEEP_TEST_REFRESH_TOKEN", SEED)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with AuthorizationServer.start(tmp_path / "authorization") as server:
        yield server
