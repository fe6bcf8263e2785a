"""The reference pages print what the code says, and the code says it of everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from mailkeep.cli.main import app
from mailkeep.cli.reference import PAGES, main, reference_folder
from mailkeep.config import Settings
from mailkeep.errors import all_error_classes


def commands(command: Any, path: str = "mailkeep") -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    for name, child in getattr(command, "commands", {}).items():
        yield f"{path} {name}", child
        yield from commands(child, f"{path} {name}")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_published_page_is_what_the_code_says(name: str) -> None:
    """A changed command, setting or error code needs `python -m mailkeep.cli.reference`."""
    assert (reference_folder() / name).read_text("utf-8") == PAGES[name]()


def test_every_command_and_option_is_documented() -> None:
    """Each command has a heading and a help text, each option a line with its meaning."""
    page = PAGES["cli.md"]()
    for path, command in commands(typer.main.get_command(app)):
        assert f"\n## {path}\n" in page
        assert command.help, path
        for parameter in command.params:
            assert parameter.help, f"{path} {parameter.name}"
            if parameter.param_type_name == "option":
                assert all(f"`{option}`" in page for option in parameter.opts)


def test_every_setting_is_documented() -> None:
    """Each key of each section, nested ones too, has a line with its meaning."""
    page = PAGES["settings.md"]()

    def check(model: Any, path: str) -> None:
        assert f"\n## `{path}`\n" in page
        section = page.partition(f"\n## `{path}`\n")[2].partition("\n## ")[0]
        for name, field in model.model_fields.items():
            assert field.description, f"{path}.{name}"
            assert f"| `{name}` |" in section, f"{path}.{name}"

    for name, field in Settings.model_fields.items():
        check(field.annotation, name)


def test_every_error_code_is_documented() -> None:
    """Each code has its line, and none is in the page that no class has."""
    page = PAGES["errors.md"]()
    codes = {int(line.split("|")[1]) for line in page.splitlines() if line.startswith("| ") and line[2].isdigit()}
    assert codes == {cls.code for cls in all_error_classes()}


def test_a_stale_page_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` writes nothing and names the page to generate again."""
    assert main(["--check"], tmp_path) == 1
    assert list(tmp_path.iterdir()) == []
    assert "cli.md" in capsys.readouterr().err
    assert main([], tmp_path) == 0
    assert main(["--check"], tmp_path) == 0
    (tmp_path / "cli.md").write_text("old")
    assert main(["--check"], tmp_path) == 1
