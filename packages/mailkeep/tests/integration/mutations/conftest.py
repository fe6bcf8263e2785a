"""The password of the test servers is in the environment, where `account_at` refers to it."""

import pytest
from support.dovecot import PASSWORD


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILKEEP_TEST_PASSWORD", PASSWORD)
