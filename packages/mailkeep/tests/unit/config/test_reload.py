"""Which changes a running process takes up."""

from pathlib import Path

import pytest

from mailkeep.config import Settings, load_candidate, take_up
from mailkeep.errors import ConfigurationRefused, SecretUnavailable

ACCOUNT = """
[[mail_synchronization.accounts]]
account_id = "work"
display_name = "Work"
host = "imap.example.com"
user_name = "ann"
secrets.password = "file:password"
"""


def given(**sections: dict[str, object]) -> Settings:
    return Settings.model_validate(sections)


@pytest.mark.spec("SYNC-2")
def test_what_runs_and_requests_go_by_is_taken_up_and_the_rest_is_named() -> None:
    """Bounds of a run and of reading follow at once; the listener and what all runs share wait for a restart."""
    snapshot, waiting = take_up(
        given(),
        given(
            mail_synchronization={"interval": "1m", "max_raw_mime_bytes": 4096, "max_concurrent_accounts": 9},
            email_content={"max_body_characters": 2000},
            http={"port": 9999},
        ),
    )
    assert waiting == ("http", "mail_synchronization.max_concurrent_accounts")
    section = snapshot.mail_synchronization
    assert (section.interval.total_seconds(), section.max_raw_mime_bytes, section.max_concurrent_accounts) == (
        60,
        4096,
        4,
    )
    assert snapshot.email_content.max_body_characters == 2000
    assert snapshot.http.port == 8025


@pytest.mark.spec("SYNC-2")
def test_the_same_settings_are_nothing_to_wait_for() -> None:
    """Nothing differs, nothing is named."""
    assert take_up(given(), given()) == (given(), ())


@pytest.mark.spec("SYNC-2")
def test_values_that_only_go_together_with_values_of_the_start_are_refused() -> None:
    """A larger message than the memory bound in force would stop a folder in front of it."""
    before = given(mail_synchronization={"max_raw_mime_bytes": 2048, "max_in_flight_raw_mime_bytes": 4096})
    after = given(mail_synchronization={"max_raw_mime_bytes": 8192, "max_in_flight_raw_mime_bytes": 8192})
    with pytest.raises(ConfigurationRefused, match="max_in_flight_raw_mime_bytes"):
        take_up(before, after)


@pytest.mark.spec("SYNC-2")
def test_a_candidate_has_every_secret_and_every_trust_anchor_in_reach(tmp_path: Path) -> None:
    """A missing password and an authority that holds no certificate each refuse it, by path."""
    file = tmp_path / "mailkeep.toml"
    file.write_text(ACCOUNT)
    with pytest.raises(SecretUnavailable) as secret:
        load_candidate(tmp_path)
    assert secret.value.defects[0].startswith("mail_synchronization.accounts[0].secrets.password")
    (tmp_path / "password").write_text("x")
    assert load_candidate(tmp_path).account("work") is not None
    (tmp_path / "authority.pem").write_text("no certificate")
    file.write_text(ACCOUNT + f'transport_security.trusted_certificate_authority = "{tmp_path}/authority.pem"\n')
    with pytest.raises(ConfigurationRefused) as authority:
        load_candidate(tmp_path)
    (defect,) = authority.value.defects
    assert defect.startswith("mail_synchronization.accounts[0].transport_security.trusted_certificate_authority")
