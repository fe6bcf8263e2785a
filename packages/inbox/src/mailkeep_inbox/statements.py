"""The library's SQL by name. `sql/statements.sql` holds every statement that is not composed from parts."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final

from sqlalchemy import TextClause, text

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def statement(name: str) -> TextClause:
    """The statement of that name; its parameters are written `:name`."""
    return _statements()[name]


@cache
def _statements() -> dict[str, TextClause]:
    parts = _NAME.split(resources.files("mailkeep_inbox").joinpath("sql/statements.sql").read_text("utf-8"))
    return {name: text(body.strip().rstrip(";")) for name, body in zip(parts[1::2], parts[2::2], strict=True)}
