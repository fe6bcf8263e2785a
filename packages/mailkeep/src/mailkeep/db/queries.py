"""Named SQL: one `queries.sql` per capability, read once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Final

_NAME_LINE: Final = re.compile(r"^-- name: (?P<name>[a-z][a-z0-9_]*)\n(?P<purpose>-- .+)\n", re.MULTILINE)


@cache
def load_queries(package: str) -> Mapping[str, str]:
    """The statements of `queries.sql` in `package`, by name.

    Each begins with the line `-- name: <snake_case>` and a second comment line that says what it is for. Raises
    ValueError for a name used twice and for a file without names.
    """
    text = resources.files(package).joinpath("queries.sql").read_text("utf-8")
    starts = list(_NAME_LINE.finditer(text))
    queries: dict[str, str] = {}
    for index, start in enumerate(starts):
        end = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        if start["name"] in queries:
            raise ValueError(f"{package}: {start['name']} is named twice in queries.sql")
        queries[start["name"]] = text[start.end() : end].strip().rstrip(";")
    if not queries:
        raise ValueError(f"{package}: queries.sql names no statement")
    return MappingProxyType(queries)
