"""Read the settings of an installation: `mailkeep.toml`, then the environment over it; refuse every defect at once."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsError

from mailkeep.config.accounts import TRANSPORT_POLICY
from mailkeep.config.home import settings_file
from mailkeep.config.model import ENVIRONMENT_PREFIX, Settings
from mailkeep.errors import ConfigurationError, ConfigurationRefused, EnvironmentOnlySetting, TransportPolicyRefused

# Read by libraries before any file is, so a value in the file would be silently ignored (OPS-6).
_ENVIRONMENT_ONLY = ("OTEL_", "OPENSSL_CONF", "MAILKEEP_HOME")

_SENTENCES = {
    "extra_forbidden": "is not a setting",
    "missing": "is required",
}


def load_settings(home: Path, *, file: Path | None = None) -> Settings:
    """The validated, frozen settings of the installation in `home`; a missing file means the defaults.

    `file` reads another file in its place, for checking a candidate before it is put there.
    Raises ConfigurationRefused (12001), TransportPolicyRefused (11001) when nothing else is wrong, or
    EnvironmentOnlySetting (12002). Messages name paths, never values (OPS-5).
    """
    source = file or settings_file(home)
    table = _read_table(source)
    _refuse_environment_only(table)
    defects = [f"{name}: is not a section (environment variable)" for name in _unknown_variables(os.environ)]
    try:
        settings = _with_source(table)()
    except SettingsError as error:
        raise ConfigurationRefused("an environment variable holds a value that cannot be read") from error
    except ValidationError as error:
        defects.extend(defects_of(error))
        raise _refusal(source, defects) from None
    if defects:
        raise _refusal(source, defects)
    return settings


def posture_warnings(settings: Settings) -> list[str]:
    """What works as configured but an operator should know about (OPS-28); sentences without values."""
    warnings = []
    if settings.persistence.dsn_holds_password:
        warnings.append("persistence.dsn holds a password; move it to a file and name that in persistence.password")
    for position, account in enumerate(settings.mail_synchronization.accounts):
        if account.transport_security.allow_insecure_connection:
            warnings.append(f"mail_synchronization.accounts[{position}]: the connection may be unprotected")
    warnings += [
        f"embeddings endpoint {endpoint.alias}: the text of mail crosses the network readable"
        for endpoint in settings.embeddings.endpoints
        if endpoint.address is not None and endpoint.address.lower().startswith("http:")
    ]
    return warnings


def _with_source(table: dict[str, Any]) -> type[Settings]:
    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            del init_settings, dotenv_settings, file_secret_settings  # the file and the environment are all there is
            return env_settings, InitSettingsSource(settings_cls, init_kwargs=table)

    return Loaded


def _read_table(source: Path) -> dict[str, Any]:
    try:
        octets = source.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationRefused(f"{source} cannot be read: {error.strerror or type(error).__name__}") from error
    try:
        return tomllib.loads(octets.decode("utf-8"))
    except UnicodeDecodeError:
        raise ConfigurationRefused(f"{source} is not UTF-8 text") from None
    except RecursionError:
        raise ConfigurationRefused(f"{source} is not valid TOML (nested too deeply)") from None
    except tomllib.TOMLDecodeError as error:
        # The parser's sentence names keys and a position; keep the position only, since a key may be a stray secret.
        at = str(error).rpartition("(")[2].rstrip(")")
        raise ConfigurationRefused(f"{source} is not valid TOML ({at})") from None


def _refuse_environment_only(table: Mapping[str, Any]) -> None:
    found = sorted(path for path in _key_paths(table) if path.rpartition(".")[2].upper().startswith(_ENVIRONMENT_ONLY))
    if found:
        names = ", ".join(found)
        raise EnvironmentOnlySetting(f"only the environment may set: {names}", defects=found)


def _key_paths(value: object, path: str = "") -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            below_path = f"{path}.{key}" if path else str(key)
            yield below_path
            yield from _key_paths(below, below_path)
    elif isinstance(value, list):
        for position, below in enumerate(value):
            yield from _key_paths(below, f"{path}[{position}]")


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Environment variables that look like ours but name no section; settings sources would pass over them silently."""
    unknown = []
    for name in environ:
        if name.upper().startswith(ENVIRONMENT_PREFIX) and "__" in name:
            section = name[len(ENVIRONMENT_PREFIX) :].partition("__")[0].lower()
            if section not in Settings.model_fields:
                unknown.append(name)
    return sorted(unknown)


def defects_of(error: ValidationError) -> list[str]:
    """Every defect as "path: what is wrong", never with a value."""
    found: list[str] = []
    for item in error.errors(include_url=False, include_input=False):
        path = _dotted(item["loc"])
        nested = item.get("ctx", {}).get("defects")
        if nested is not None:
            found.extend(f"{'.'.join(filter(None, (path, below)))}: {text}" for below, text in nested)
        else:
            found.append(f"{path}: {_SENTENCES.get(item['type'], item['msg'])}")
    return found


def _dotted(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def _refusal(source: Path, defects: list[str]) -> ConfigurationError:
    ordered = sorted(defects)
    listed = "\n".join(f"  {defect}" for defect in ordered)
    noun = "defect" if len(ordered) == 1 else "defects"
    message = f"{len(ordered)} {noun} in the settings ({source} and the environment):\n{listed}"
    if all(f": {TRANSPORT_POLICY} " in defect for defect in ordered):
        return TransportPolicyRefused(message, defects=ordered)
    return ConfigurationRefused(message, defects=ordered)
