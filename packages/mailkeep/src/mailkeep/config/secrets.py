"""Secrets by reference (OPS-30 to OPS-35): `file:`, `env:` and `keyring:`, resolved at each use and never cached.

The value is only ever held in a SecretStr, so that no repr, log line or traceback shows it.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from pathlib import Path
from urllib.parse import quote

import keyring
import keyring.errors
from pydantic import SecretStr

from mailkeep.config.home import SECRETS_FOLDER, make_private_folder
from mailkeep.config.model import Settings
from mailkeep.config.oauth import KEY_BYTES
from mailkeep.errors import ConfigurationRefused, SecretUnavailable

MAX_SECRET_BYTES = 1 << 20
KEYRING_SERVICE = "mailkeep"


def resolve_secret(reference: str, home: Path) -> SecretStr:
    """The secret that `reference` names. A relative `file:` target lies below `home`.

    Exactly one trailing newline is dropped. Raises SecretUnavailable, naming the kind of trouble and never the value.
    """
    scheme, separator, target = reference.partition(":")
    if not separator:
        raise SecretUnavailable("a secret reference has no scheme (SchemeMissing)")
    if scheme == "file":
        return SecretStr(_text(_read_regular_file(home / target)))
    if scheme == "env":
        value = os.environ.get(target)
        if value is None:
            raise SecretUnavailable(f"environment variable {target} is not set (MaterialNotFound)")
        return SecretStr(_text(value.encode("utf-8", "surrogateescape")))
    if scheme == "keyring":
        return SecretStr(_from_keyring(target))
    raise SecretUnavailable("a secret reference has an unknown scheme (ProviderUnavailable)")


def resolve_key(reference: str, home: Path) -> bytes:
    """The key that `reference` names: KEY_BYTES octets, kept as base64 (SYNC-48). Raises SecretUnavailable."""
    text = resolve_secret(reference, home).get_secret_value()
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise SecretUnavailable("a key is not base64 (MaterialNotKey)") from None
    if len(key) != KEY_BYTES:
        raise SecretUnavailable(f"a key is not {KEY_BYTES} bytes long (MaterialNotKey)")
    return key


def check_references(settings: Settings, home: Path) -> None:
    """Resolve every reference of the settings once and forget the values (SYNC-3, SYNC-48, OPS-35).

    Raises SecretUnavailable listing all references that cannot be resolved, by the path of their setting.
    """
    references = {"persistence.password": settings.persistence.password}
    for position, account in enumerate(settings.mail_synchronization.accounts):
        path = f"mail_synchronization.accounts[{position}]"
        references[f"{path}.secrets.password"] = account.secrets.password
        if account.oauth is not None:
            references[f"{path}.oauth.client_secret"] = account.oauth.client_secret
            references[f"{path}.oauth.refresh_token"] = account.oauth.refresh_token
    for position, endpoint in enumerate(settings.embeddings.endpoints):
        references[f"embeddings.endpoints[{position}].api_key"] = endpoint.api_key
    defects = []
    for position, key in enumerate(settings.data_encryption.keys):
        try:
            resolve_key(key.material, home)
        except SecretUnavailable as error:
            defects.append(f"data_encryption.keys[{position}].material: {error.message}")
    for path, reference in references.items():
        if reference is None:
            continue
        try:
            resolve_secret(reference, home)
        except SecretUnavailable as error:
            defects.append(f"{path}: {error.message}")
    if defects:
        listed = "\n".join(f"  {defect}" for defect in defects)
        raise SecretUnavailable(f"secrets that cannot be read:\n{listed}", defects=defects)


def keep_in_file(account_id: str, secret: SecretStr, home: Path, *, kind: str = "password") -> str:
    """Write the secret to an owner-only file below `home` and return its reference. An older one is replaced.

    `kind` tells secrets of one name apart: `password`, `client-secret`.
    """
    folder = make_private_folder(make_private_folder(home) / SECRETS_FOLDER)
    folder.chmod(0o700)
    target = folder / f"{_file_name(account_id)}.{kind}"
    temporary = folder / f".{target.name}.{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(secret.get_secret_value().encode("utf-8", "surrogateescape"))
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(target)
    return f"file:{SECRETS_FOLDER}/{target.name}"


def create_key_file(key_id: str, home: Path) -> str:
    """Write a new random key to an owner-only file below `home` and return its reference.

    Only ever called because a person asked for a key. Raises ConfigurationRefused when there is a file of that name:
    a key is never overwritten, since whatever it sealed would be lost (SYNC-48).
    """
    folder = make_private_folder(make_private_folder(home) / SECRETS_FOLDER)
    folder.chmod(0o700)
    target = folder / f"{_file_name(key_id)}.key"
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise ConfigurationRefused("there is a file of that key already; it is never overwritten") from None
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
        stream.flush()
        os.fsync(stream.fileno())
    return f"file:{SECRETS_FOLDER}/{target.name}"


def keep_in_keyring(account_id: str, secret: SecretStr) -> str:
    """Store the secret in the system keyring and return its reference; ConfigurationRefused without a keyring."""
    try:
        keyring.set_password(KEYRING_SERVICE, account_id, secret.get_secret_value())
    except keyring.errors.KeyringError as error:
        raise ConfigurationRefused(
            "this system has no usable keyring; leave --keyring out to keep the password in an owner-only file"
        ) from error
    return f"keyring:{KEYRING_SERVICE}/{account_id}"


def forget_secret(reference: str, home: Path) -> None:
    """Remove a secret that mailkeep itself keeps; references to anything else are left alone."""
    scheme, _, target = reference.partition(":")
    if scheme == "file" and target.startswith(f"{SECRETS_FOLDER}/") and ".." not in Path(target).parts:
        (home / target).unlink(missing_ok=True)
    elif scheme == "keyring" and target.startswith(f"{KEYRING_SERVICE}/"):
        try:
            keyring.delete_password(KEYRING_SERVICE, target.partition("/")[2])
        except keyring.errors.KeyringError:
            return  # gone already, or the keyring is locked: nothing that a removal should fail for


def _file_name(account_id: str) -> str:
    """A name that stays inside the folder whatever the id holds."""
    return quote(account_id, safe="").replace(".", "%2E")[:200]


def _read_regular_file(path: Path) -> bytes:
    try:
        # Non-blocking, so that a pipe put in the file's place cannot hold the process.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise SecretUnavailable("the file of a secret does not exist (MaterialNotFound)") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SecretUnavailable(f"the file of a secret cannot be opened: {reason} (ProviderUnavailable)") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # asked before Python opens it, which takes no folder
        os.close(descriptor)
        raise SecretUnavailable("a secret is not in a regular file (TargetNotRegularFile)")
    with os.fdopen(descriptor, "rb") as stream:
        octets = stream.read(MAX_SECRET_BYTES + 1)
    if len(octets) > MAX_SECRET_BYTES:
        raise SecretUnavailable("the file of a secret is larger than 1 MiB (MaterialTooLarge)")
    return octets


def _text(octets: bytes) -> str:
    if octets.endswith(b"\r\n"):
        octets = octets[:-2]
    elif octets.endswith(b"\n"):
        octets = octets[:-1]
    if not octets:
        raise SecretUnavailable("a secret is empty (MaterialEmpty)")
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretUnavailable("a secret is not UTF-8 text (MaterialNotText)") from None


def _from_keyring(target: str) -> str:
    service, _, name = target.partition("/")
    try:
        value = keyring.get_password(service, name)
    except keyring.errors.KeyringError as error:
        raise SecretUnavailable("the system keyring cannot be used (ProviderUnavailable)") from error
    if not value:
        raise SecretUnavailable("the system keyring holds no such entry (MaterialNotFound)")
    return value
