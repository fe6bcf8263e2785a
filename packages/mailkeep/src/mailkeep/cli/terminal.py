"""What reaches a terminal: results on stdout, guidance on stderr, and never a control character out of a mail."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mailkeep.display import neutralise
from mailkeep.errors import ConfigurationRefused

out = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)
err = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)

_ESCAPED_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def say(sentence: str) -> None:
    """Guidance for a person, on stderr."""
    err.print(sentence)


def show(text: str) -> None:
    """A line of results, on stdout."""
    out.print(text)


def consent(yes: bool, question: str) -> None:
    """Explicit consent, on a terminal or by --yes; nowhere else is anything taken for it.

    Raises ConfigurationRefused where nobody can be asked, typer.Abort for a no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationRefused("this needs --yes where nobody can be asked")
    typer.confirm(question, abort=True, err=True)


NARROW = 100
"""A terminal of fewer columns shows mail in short blocks of lines, since a row would break inside dates and ids."""


def is_narrow() -> bool:
    """Whether rows of mail would not fit."""
    return out.is_terminal and out.width < NARROW


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = (), whole: Sequence[int] = ()
) -> None:
    """Results in columns; every cell is neutralised. `right` lists the columns of numbers, `whole` never break."""
    grid = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for position, heading in enumerate(headings):
        justify: Literal["left", "right"] = "right" if position in right else "left"
        grid.add_column(heading, justify=justify, overflow="fold", no_wrap=position in whole)
    for row in rows:
        grid.add_row(*(Text(neutralise(cell)) for cell in row))
    if out.is_terminal:
        out.print(grid)
    else:
        # A pipe has no width to wrap at.
        Console(file=sys.stdout, width=10_000, highlight=False, markup=False, emoji=False).print(grid, soft_wrap=False)


def show_json(value: object) -> None:
    """One JSON document on stdout: readable letters stay, what a terminal could act on is escaped."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=2)
    sys.stdout.write(_ESCAPED_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n")
    sys.stdout.flush()


def plain(value: object) -> Any:
    """Any value as JSON knows it: instants in ISO 8601 with their offset, octets in hex, others as their text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key.value if isinstance(key, Enum) else key): plain(below) for key, below in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(below) for below in value]
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return value if value is None or isinstance(value, (str, int, float)) else str(value)
