"""Edit `mailkeep.toml` for a person: comments and order survive, a candidate is validated before it replaces the file.

Used by `mailkeep account add` and `remove` and by `mailkeep keys create` only; the running service never writes its
settings (OPS-1).
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tomlkit
import tomlkit.exceptions
from tomlkit.items import AoT, Table

from mailkeep.config.home import make_private_folder, settings_file
from mailkeep.config.load import load_settings
from mailkeep.config.model import Settings
from mailkeep.errors import ConfigurationRefused

_HEADER = "Settings of mailkeep. Every key is described in docs/reference/settings.md.\n"
SECTION = "mail_synchronization"
KEY_SECTION = "data_encryption"


def add_account(home: Path, account: Mapping[str, Any]) -> Settings:
    """Append an account (plain tables, strings, numbers, lists) and return the new settings.

    The first account with a server switches synchronization on, unless the file says something about it already.

    Raises ConfigurationRefused when the settings with the account in them are not valid; the file is then unchanged.
    """
    with _edited(home) as document:
        section = document.setdefault(SECTION, tomlkit.table())
        if account.get("kind") != "local" and "enabled" not in section:
            section["enabled"] = True
        accounts = section.get("accounts")
        if accounts is None:
            accounts = section["accounts"] = tomlkit.aot()
        accounts.append(_table(account) if isinstance(accounts, AoT) else _inline(account))
    return load_settings(home)


def remove_account(home: Path, account_id: str) -> Settings:
    """Drop the account with exactly that id; the last one switches synchronization off. Returns the new settings."""
    with _edited(home) as document:
        section = document.get(SECTION, {})
        accounts = section.get("accounts", [])
        positions = [
            at for at, account in enumerate(accounts) if str(account.get("account_id", "")).strip() == account_id
        ]
        if not positions:
            raise ConfigurationRefused(f"the account is not in {settings_file(home)}; it may come from the environment")
        del accounts[positions[0]]
        if not accounts:
            del section["accounts"]
            if section.get("enabled"):
                del section["enabled"]
    return load_settings(home)


def add_key(home: Path, key_id: str, material: str) -> Settings:
    """Append a key to the ring and make it the active one; older keys stay. Returns the new settings.

    Raises ConfigurationRefused when the ring with the key in it is not valid; the file is then unchanged.
    """
    with _edited(home) as document:
        section = document.setdefault(KEY_SECTION, tomlkit.table())
        section["active_key_id"] = key_id
        key = {"key_id": key_id, "material": material}
        keys = section.get("keys")
        if keys is None:
            keys = section["keys"] = tomlkit.aot()
        keys.append(_table(key) if isinstance(keys, AoT) else _inline(key))
    return load_settings(home)


@contextmanager
def _edited(home: Path) -> Iterator[tomlkit.TOMLDocument]:
    """The settings as an editable document; written back when the block ends well, by one process at a time."""
    make_private_folder(home)
    target = settings_file(home)
    with _exclusive(home):
        document = _parse(target)
        yield document
        _replace(home, target, tomlkit.dumps(document))


@contextmanager
def _exclusive(home: Path) -> Iterator[None]:
    descriptor = os.open(home / ".settings.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _parse(target: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(target.read_text("utf-8"))
    except FileNotFoundError:
        document = tomlkit.document()
        document.add(tomlkit.comment(_HEADER.strip()))
        document.add(tomlkit.nl())
        return document
    except (OSError, UnicodeDecodeError, tomlkit.exceptions.TOMLKitError) as error:
        raise ConfigurationRefused(f"{target} cannot be edited: it is not readable as TOML") from error


def _replace(home: Path, target: Path, text: str) -> None:
    """Validate the candidate where it is written, then put it in place in one step, keeping the file's permissions."""
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    descriptor, name = tempfile.mkstemp(prefix=".mailkeep-", suffix=".toml", dir=home)
    candidate = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        load_settings(home, file=candidate)
        candidate.chmod(mode)
        candidate.replace(target.resolve())
    finally:
        candidate.unlink(missing_ok=True)


def _table(values: Mapping[str, Any]) -> Table:
    table = tomlkit.table()
    for key, value in values.items():
        if isinstance(value, Mapping):
            table.add(key, _inline(value))
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            nested = tomlkit.aot()
            for item in value:
                nested.append(_table(item))
            table.add(key, nested)
        else:
            table.add(key, value)
    return table


def _inline(values: Mapping[str, Any]) -> Any:
    table = tomlkit.inline_table()
    for key, value in values.items():
        table.add(key, _inline(value) if isinstance(value, Mapping) else value)
    return table
