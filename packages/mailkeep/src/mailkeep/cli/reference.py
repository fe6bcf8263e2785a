"""Generate docs/reference/{cli,settings,errors}.md from the code: `python -m mailkeep.cli.reference [--check]`.

The help texts, the settings' descriptions and the error classes' docstrings are the reference; the files only print
them. `--check` changes nothing and ends with 1 when a file is not what the code says.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from mailkeep.cli.exits import ExitCode, exit_code
from mailkeep.cli.main import app
from mailkeep.config import Settings
from mailkeep.config.model import ENVIRONMENT_PREFIX
from mailkeep.config.values import format_duration
from mailkeep.errors import all_error_classes

NOTICE = "<!-- Generated from the code by `python -m mailkeep.cli.reference`; edits here are lost. -->"


def cli_page() -> str:
    """Every command with its arguments and options."""
    root = typer.main.get_command(app)
    lines = ["# Command line", "", NOTICE, "", _paragraphs(root.help), ""]
    lines += ["Results go to standard output, guidance to standard error. `--json` prints one JSON document.", ""]
    lines += ["## Exit codes", "", "| Code | Meaning |", "|---|---|"]
    lines += [f"| {code.value} | {code.meaning} |" for code in ExitCode]
    lines += ["", "## Options of every command", "", *_parameters(root)]
    for path, command in _commands(root, "mailkeep"):
        usage = " ".join(piece for piece in (path, *_usage(command)) if piece)
        lines += ["", f"## {path}", "", f"    {usage}", "", _paragraphs(command.help), "", *_parameters(command)]
    return "\n".join(lines).rstrip() + "\n"


def settings_page() -> str:
    """Every setting with its type, default, bounds and description."""
    lines = ["# Settings", "", NOTICE, ""]
    lines += [
        "Settings are read from `mailkeep.toml` in `$MAILKEEP_HOME` (or `~/.mailkeep`), then from the environment,",
        f"which wins: `{ENVIRONMENT_PREFIX}<SECTION>__<KEY>`, for example `{ENVIRONMENT_PREFIX}HTTP__PORT=8100`.",
        "An unknown key or section is refused, and all defects are reported together.",
        "",
        "Durations carry their unit: `90s`, `5m`, `1h`, `2d` or `[d.]hh:mm:ss`. Secrets are references: `file:…`",
        "(relative to the home folder), `env:…` or `keyring:service/name`. `mailkeep account add` and `remove` edit",
        "the file for you and keep its comments.",
    ]
    for name, field in Settings.model_fields.items():
        lines += _section(name, field.description or "", field.annotation)
    return "\n".join(lines).rstrip() + "\n"


def errors_page() -> str:
    """Every error code with its meaning, whether retrying helps, and the command line's exit code."""
    lines = ["# Error codes", "", NOTICE, ""]
    lines += [
        "A code belongs to one failure and is never reused. Only codes of category 5 are told to tool callers.",
        "",
    ]
    lines += ["| Code | Name | Meaning | Retry helps | Exit code |", "|---|---|---|---|---|"]
    for cls in all_error_classes():
        meaning = " ".join((cls.__doc__ or "").split())
        code = exit_code(cls.__new__(cls))
        lines.append(f"| {cls.code} | {cls.__name__} | {meaning} | {'yes' if cls.retryable else 'no'} | {code.value} |")
    return "\n".join(lines) + "\n"


PAGES = {"cli.md": cli_page, "settings.md": settings_page, "errors.md": errors_page}


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, child in getattr(command, "commands", {}).items():
        below = f"{path} {name}"
        yield below, child
        yield from _commands(child, below)


def _usage(command: Any) -> list[str]:
    if getattr(command, "commands", None):
        return ["COMMAND"]
    arguments = [_argument_name(p) for p in command.params if p.param_type_name == "argument"]
    return ["[OPTIONS]", *arguments]


def _argument_name(parameter: Any) -> str:
    name = parameter.metavar or parameter.name.upper()
    return f"{name}..." if parameter.nargs == -1 else str(name)


def _parameters(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = f"`{_argument_name(parameter)}`"
        else:
            name = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
        default = parameter.default
        shown = "" if default in (None, False, ()) or parameter.required else f" Default: `{_plain(default)}`."
        rows.append(f"| {name} | {_cell(parameter.help or '')}{shown} |")
    if not rows:
        return []
    return ["| Option | Meaning |", "|---|---|", *rows]


def _section(path: str, description: str, annotation: Any) -> list[str]:
    model = _model(annotation)
    if model is None:
        raise TypeError(f"{path} is not a section")
    lines = [
        "",
        f"## `{path}`",
        "",
        description,
        "",
        "| Key | Type | Default | Bounds | Meaning |",
        "|---|---|---|---|---|",
    ]
    below: list[str] = []
    for name, field in model.model_fields.items():
        nested = _model(field.annotation)
        many = get_origin(_without_none(field.annotation)) is tuple
        bounds = _bounds(field)
        kind = "list of tables" if nested and many else "table" if nested else _type_name(field.annotation)
        default = "" if nested else _default(field)
        lines.append(f"| `{name}` | {kind} | {default} | {bounds} | {_cell(field.description or '')} |")
        if nested is not None:
            below += _section(f"{path}.{name}{'[]' if many else ''}", field.description or "", field.annotation)
    return lines + below


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [argument for argument in get_args(annotation) if argument is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _model(annotation: Any) -> type[BaseModel] | None:
    inner = _without_none(annotation)
    if get_origin(inner) is tuple:
        inner = get_args(inner)[0]
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def _type_name(annotation: Any) -> str:
    inner = _without_none(annotation)
    if get_origin(inner) is tuple:
        return f"list of {_type_name(get_args(inner)[0])}"
    if hasattr(inner, "__metadata__"):
        return _type_name(get_args(inner)[0])
    if isinstance(inner, type) and issubclass(inner, Enum):
        return "one of " + ", ".join(f"`{member.value}`" for member in inner)
    if get_origin(inner) is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in get_args(inner))
    names = {timedelta: "duration", bool: "boolean", int: "integer", str: "text", Path: "path"}
    return names.get(inner, getattr(inner, "__name__", str(inner)))


def _bounds(field: FieldInfo) -> str:
    low, high = None, None
    for constraint in field.metadata:
        low = getattr(constraint, "ge", getattr(constraint, "min_length", None)) if low is None else low
        high = getattr(constraint, "le", getattr(constraint, "max_length", None)) if high is None else high
    if low is None and high is None:
        return ""
    return f"{'' if low is None else _plain(low)}–{'' if high is None else _plain(high)}"


def _default(field: FieldInfo) -> str:
    if field.is_required() or field.default is PydanticUndefined:
        return "required"
    if field.default is None:
        return "none"
    return f"`{_plain(field.default)}`"


def _plain(value: object) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(_plain(item) for item in value) or "empty"
    return str(value)


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str], folder: Path) -> int:
    """Write the pages, or with `--check` compare them; the exit code."""
    stale = []
    for name, page in PAGES.items():
        file = folder / name
        text = page()
        if "--check" in arguments:
            if not file.exists() or file.read_text("utf-8") != text:
                stale.append(name)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
    for name in stale:
        sys.stderr.write(f"docs/reference/{name} is not what the code says; run python -m mailkeep.cli.reference\n")
    return 1 if stale else 0


def reference_folder() -> Path:
    """`docs/reference` of the checkout this module is in."""
    return Path(__file__).resolve().parents[5] / "docs" / "reference"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], reference_folder()))
