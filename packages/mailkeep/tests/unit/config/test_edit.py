"""Editing the settings for a person."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from mailkeep.config.edit import add_account, remove_account
from mailkeep.config.presets import PRESETS, preset_for_address, preset_named
from mailkeep.errors import ConfigurationRefused

WORK: dict[str, Any] = {
    "account_id": "work",
    "display_name": "Work",
    "host": "imap.example.com",
    "port": 993,
    "user_name": "ann",
    "secrets": {"password": "env:WORK_PASSWORD"},
    "folders": [{"alias": "A", "remote_path": "x"}, {"alias": "B", "special_use": "Sent"}],
}
LOCAL: dict[str, Any] = {"account_id": "old", "display_name": "Old", "kind": "local"}


def test_the_first_account_makes_an_owner_only_file_and_switches_synchronization_on(tmp_path: Path) -> None:
    """A new home is created, the file is 0600, and `serve` will mirror the account."""
    home = tmp_path / "new" / "home"
    settings = add_account(home, WORK)
    assert settings.mail_synchronization.enabled is True
    assert [mapping.alias for mapping in settings.mail_synchronization.accounts[0].folders or ()] == ["A", "B"]
    assert stat.S_IMODE((home / "mailkeep.toml").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_comments_order_and_choices_survive_an_edit(tmp_path: Path) -> None:
    """What a person wrote stays as it was written, and an explicit `enabled = false` stays false."""
    file = tmp_path / "mailkeep.toml"
    file.write_text("# mine\n[http]\nport = 9 # nine\n\n[mail_synchronization]\nenabled = false # not yet\n")
    add_account(tmp_path, WORK)
    settings = add_account(tmp_path, LOCAL)
    text = file.read_text()
    assert text.startswith("# mine\n[http]\nport = 9 # nine\n\n[mail_synchronization]\nenabled = false # not yet\n")
    assert settings.mail_synchronization.enabled is False
    assert [account.account_id for account in settings.mail_synchronization.accounts] == ["work", "old"]


def test_accounts_written_inline_are_extended_in_place(tmp_path: Path) -> None:
    """A file that lists its accounts in one line keeps doing so."""
    (tmp_path / "mailkeep.toml").write_text(
        '[mail_synchronization]\naccounts = [{account_id = "a", display_name = "a", kind = "local"}]\n'
    )
    settings = add_account(tmp_path, WORK)
    assert [account.account_id for account in settings.mail_synchronization.accounts] == ["a", "work"]


def test_removing_the_last_account_leaves_valid_settings(tmp_path: Path) -> None:
    """Synchronization is switched off with the last account, and an unknown id is refused."""
    add_account(tmp_path, WORK)
    add_account(tmp_path, LOCAL)
    assert len(remove_account(tmp_path, "work").mail_synchronization.accounts) == 1
    settings = remove_account(tmp_path, "old")
    assert settings.mail_synchronization.accounts == ()
    assert settings.mail_synchronization.enabled is False
    with pytest.raises(ConfigurationRefused):
        remove_account(tmp_path, "old")


def test_an_edit_that_would_break_the_settings_changes_nothing(tmp_path: Path) -> None:
    """The candidate is validated beside the file; a refused one leaves the file and no litter."""
    add_account(tmp_path, WORK)
    before = (tmp_path / "mailkeep.toml").read_bytes()
    with pytest.raises(ConfigurationRefused):
        add_account(tmp_path, WORK)
    with pytest.raises(ConfigurationRefused):
        add_account(tmp_path, {**LOCAL, "port": 70000})
    assert (tmp_path / "mailkeep.toml").read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".settings.lock", "mailkeep.toml"]


def test_a_broken_file_is_not_edited(tmp_path: Path) -> None:
    """What cannot be parsed is left for the person to mend."""
    (tmp_path / "mailkeep.toml").write_text("[http\n")
    with pytest.raises(ConfigurationRefused):
        add_account(tmp_path, LOCAL)
    assert (tmp_path / "mailkeep.toml").read_text() == "[http\n"


def test_presets_are_found_by_name_and_by_domain() -> None:
    """Names and domains are compared without regard to case, and no domain belongs to two providers."""
    assert preset_named("GMail") is not None
    found = preset_for_address("Ann@ICLOUD.com")
    assert found is not None
    assert (found.host, found.user_name_for("Ann@icloud.com")) == ("imap.mail.me.com", "Ann")
    assert preset_for_address("ann@example.com") is None
    domains = [domain for preset in PRESETS for domain in preset.domains]
    assert len(domains) == len(set(domains))
    proton = preset_named("proton")
    assert proton is not None
    assert (proton.host, proton.port, proton.security.value) == ("127.0.0.1", 1143, "StartTlsRequired")
