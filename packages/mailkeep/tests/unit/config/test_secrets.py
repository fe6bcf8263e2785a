"""Secrets by reference."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import keyring
import keyring.backend
import keyring.errors
import pytest
from pydantic import SecretStr

from mailkeep.config import check_references, load_settings, resolve_key, resolve_secret
from mailkeep.config.secrets import MAX_SECRET_BYTES, create_key_file, forget_secret, keep_in_file, keep_in_keyring
from mailkeep.errors import ConfigurationRefused, SecretUnavailable


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring that forgets at the end of the test."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.entries:
            raise keyring.errors.PasswordDeleteError("gone")
        del self.entries[service, username]


@pytest.mark.spec("OPS-31")
@pytest.mark.parametrize(
    ("octets", "secret"),
    [(b"pass", "pass"), (b"pass\n", "pass"), (b"pass\r\n", "pass"), (b"pass\n\n", "pass\n"), (b" p ", " p ")],
)
def test_a_file_is_exact_but_for_one_final_line_end(tmp_path: Path, octets: bytes, secret: str) -> None:
    """Editors add one line end; everything else belongs to the secret."""
    (tmp_path / "s").write_bytes(octets)
    assert resolve_secret("file:s", tmp_path).get_secret_value() == secret
    assert resolve_secret(f"file:{tmp_path}/s", tmp_path / "elsewhere").get_secret_value() == secret


@pytest.mark.spec("OPS-31", "OPS-32")
def test_what_is_no_usable_secret_is_refused_by_its_kind(tmp_path: Path) -> None:
    """Missing, empty, too large, not regular, not text, without or with an unknown scheme."""
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "large").write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    expected = {
        "file:missing": "MaterialNotFound",
        "file:empty": "MaterialEmpty",
        "file:large": "MaterialTooLarge",
        "file:binary": "MaterialNotText",
        "file:pipe": "TargetNotRegularFile",
        "file:/dev/null": "TargetNotRegularFile",
        "file:folder": "TargetNotRegularFile",
        "env:MAILKEEP_TEST_UNSET": "MaterialNotFound",
        "vault:x": "ProviderUnavailable",
        "hunter2": "SchemeMissing",
    }
    for reference, kind in expected.items():
        with pytest.raises(SecretUnavailable, match=kind) as caught:
            resolve_secret(reference, tmp_path)
        assert "hunter2" not in str(caught.value)


@pytest.mark.spec("OPS-35")
def test_a_secret_is_read_again_at_each_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotated password is used by the next connection, from a file and from the environment."""
    (tmp_path / "s").write_text("old")
    assert resolve_secret("file:s", tmp_path).get_secret_value() == "old"
    (tmp_path / "s").write_text("new")
    assert resolve_secret("file:s", tmp_path).get_secret_value() == "new"
    monkeypatch.setenv("MAILKEEP_TEST_SECRET", "from-environment")
    assert resolve_secret("env:MAILKEEP_TEST_SECRET", tmp_path).get_secret_value() == "from-environment"


def test_a_kept_password_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """The file is 0600 in a folder that is 0700, whatever the account is called, and replacing keeps both."""
    home = tmp_path / "home"
    for secret in ("first", "second"):
        reference = keep_in_file("../../we/ird", SecretStr(secret), home)
        target = home / reference.removeprefix("file:")
        assert target.parent == home / "secrets"
        assert stat.S_IMODE(target.stat().st_mode) == 0o600
        assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700
        assert resolve_secret(reference, home).get_secret_value() == secret
    assert [entry.name for entry in (home / "secrets").iterdir()] == [target.name]


def test_only_what_mailkeep_keeps_itself_is_forgotten(tmp_path: Path) -> None:
    """Removing an account deletes its own file and never one that somebody else manages."""
    reference = keep_in_file("work", SecretStr("x"), tmp_path)
    (tmp_path / "mine").write_text("x")
    forget_secret(reference, tmp_path)
    forget_secret("file:mine", tmp_path)
    forget_secret("file:secrets/../mine", tmp_path)
    forget_secret(f"file:{tmp_path}/mine", tmp_path)
    assert not (tmp_path / reference.removeprefix("file:")).exists()
    assert (tmp_path / "mine").exists()


def test_the_keyring_keeps_gives_and_forgets(tmp_path: Path) -> None:
    """A keyring reference resolves, and an entry that is gone is reported as such."""
    before = keyring.get_keyring()
    keyring.set_keyring(MemoryKeyring())
    try:
        reference = keep_in_keyring("work", SecretStr("from-keyring"))
        assert reference == "keyring:mailkeep/work"
        assert resolve_secret(reference, tmp_path).get_secret_value() == "from-keyring"
        forget_secret(reference, tmp_path)
        forget_secret(reference, tmp_path)
        with pytest.raises(SecretUnavailable, match="MaterialNotFound"):
            resolve_secret(reference, tmp_path)
    finally:
        keyring.set_keyring(before)


def test_a_system_without_a_keyring_is_told_what_to_do(tmp_path: Path) -> None:
    """The refusal names the other way of keeping the password."""
    before = keyring.get_keyring()
    from keyring.backends.fail import Keyring

    keyring.set_keyring(Keyring())
    try:
        with pytest.raises(ConfigurationRefused, match="owner-only file"):
            keep_in_keyring("work", SecretStr("x"))
        with pytest.raises(SecretUnavailable, match="ProviderUnavailable"):
            resolve_secret("keyring:mailkeep/work", tmp_path)
    finally:
        keyring.set_keyring(before)


@pytest.mark.spec("OPS-33")
def test_a_secret_written_in_the_place_of_its_reference_is_refused(tmp_path: Path) -> None:
    """The refusal names the setting and does not repeat what was written there."""
    (tmp_path / "mailkeep.toml").write_text(
        '[[mail_synchronization.accounts]]\naccount_id = "a"\ndisplay_name = "a"\nhost = "h"\nuser_name = "u"\n'
        'secrets.password = "hunter2"\n'
    )
    with pytest.raises(ConfigurationRefused) as caught:
        load_settings(tmp_path)
    assert caught.value.defects[0].startswith("mail_synchronization.accounts[0].secrets.password: ")
    assert "hunter2" not in str(caught.value)


@pytest.mark.spec("SYNC-3", "OPS-35")
def test_all_references_are_checked_before_anything_starts(tmp_path: Path) -> None:
    """Every reference that leads nowhere is named, also while synchronization is off."""
    account = (
        '[[mail_synchronization.accounts]]\naccount_id = "{0}"\ndisplay_name = "{0}"\nhost = "h"\nuser_name = "u"\n'
        'secrets.password = "{1}"\n'
    )
    (tmp_path / "there").write_text("x")
    (tmp_path / "mailkeep.toml").write_text(
        account.format("a", "file:gone") + account.format("b", "file:there") + account.format("c", "env:MAILKEEP_NONE")
    )
    with pytest.raises(SecretUnavailable) as caught:
        check_references(load_settings(tmp_path), tmp_path)
    assert [defect.partition(":")[0] for defect in caught.value.defects] == [
        "mail_synchronization.accounts[0].secrets.password",
        "mail_synchronization.accounts[2].secrets.password",
    ]


@pytest.mark.spec("SYNC-48", "OPS-84")
def test_a_key_is_made_once_and_never_over_another(tmp_path: Path) -> None:
    """32 random bytes in an owner-only file; the same id again is refused and the file stays as it was."""
    reference = create_key_file("k1", tmp_path)
    file = tmp_path / reference.removeprefix("file:")
    before = file.read_bytes()
    assert len(resolve_key(reference, tmp_path)) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(ConfigurationRefused):
        create_key_file("k1", tmp_path)
    assert file.read_bytes() == before
    assert resolve_key(create_key_file("k2", tmp_path), tmp_path) != resolve_key(reference, tmp_path)
