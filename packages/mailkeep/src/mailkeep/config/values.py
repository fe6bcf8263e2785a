"""Value types that several sections share: durations with a unit, secret references, defect reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

_UNITS = {"ms": 0.001, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}
_WITH_UNIT = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(ms|s|min|m|h|d)")
_CLOCK = re.compile(r"(?:(\d{1,5})\.)?(\d{1,2}):([0-5]\d):([0-5]\d)")

SECRET_SCHEMES = ("file", "env", "keyring")


class Section(BaseModel):
    """A section of the settings: frozen, and every key it does not know is refused with its path (SYNC-1, OPS-4)."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=False)


def parse_duration(text: object) -> timedelta:
    """Read "90s", "5 min", "1h", "2d", "500ms" or "[d.]hh:mm:ss"; a bare number has no unit and is refused."""
    if isinstance(text, timedelta):
        return text
    if isinstance(text, str):
        cleaned = text.strip()
        if match := _WITH_UNIT.fullmatch(cleaned):
            return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
        if match := _CLOCK.fullmatch(cleaned):
            days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
            return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    raise PydanticCustomError("duration", 'should be a duration with its unit, such as "90s", "5m", "1h" or "00:05:00"')


def format_duration(value: timedelta) -> str:
    """The shortest spelling that `parse_duration` reads back: `5m`, `30s`, `1d`."""
    seconds = value.total_seconds()
    for unit in ("d", "h", "m", "s"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{int(seconds // _UNITS[unit])}{unit}"
    return "0s" if not seconds else f"{seconds * 1000:g}ms"


def _secret_reference(text: str) -> str:
    scheme, separator, target = text.partition(":")
    if not separator or scheme not in SECRET_SCHEMES or not target.strip():
        raise PydanticCustomError(
            "secret_reference",
            'should name where the secret is kept, "file:<path>", "env:<variable>" or "keyring:<service>/<name>"; '
            "the secret itself is never written here",
        )
    return text


Duration = Annotated[timedelta, BeforeValidator(parse_duration)]
SecretReference = Annotated[str, AfterValidator(_secret_reference)]


def refuse(defects: Sequence[tuple[str, str]]) -> None:
    """Raise the contradictions found between a section's own values, all at once; nothing when there are none.

    Each defect is (path below the section, what is wrong). Called from model validators only.
    """
    if defects:
        raise PydanticCustomError("contradiction", "contradicts itself", {"defects": [list(item) for item in defects]})


def printable(text: str) -> bool:
    """Whether a name can be shown on one line: not blank, no control, format or separator characters."""
    return bool(text.strip()) and text.isprintable()
