"""What `sync` says of a run."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from mailkeep.app import RunResult
from mailkeep.cli.sync import _as_json, _told
from mailkeep.sync import AccountOutcome

AT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.spec("SYNC-17")
@pytest.mark.case("79")
def test_folders_that_were_left_out_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder whose name cannot be read or kept is passed over, but not in silence."""
    result = RunResult("work", AccountOutcome("work", (), AT, AT, 1, 1, unreadable_folder_lines=3))
    assert _told(result) == 0
    assert "3 folders left out" in capsys.readouterr().err
    assert json.loads(json.dumps(_as_json(result)))["folders_left_out"] == 3
