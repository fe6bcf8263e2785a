"""Following the settings file."""

import logging
import os
from pathlib import Path

import pytest

from mailkeep import following
from mailkeep.config import Settings, load_candidate, load_settings
from mailkeep.following import SettingsFollower, SettingsNotice

pytestmark = pytest.mark.anyio


class Watcher:
    """A follower and what it said."""

    def __init__(self, home: Path) -> None:
        self.file = home / "mailkeep.toml"
        self.published: list[Settings] = []
        self.told: list[SettingsNotice] = []
        self.follower = SettingsFollower(
            home, load_settings(home), publish=self.published.append, tell=self.told.append
        )

    async def sees(self, text: str) -> None:
        """The file changes, by replacement as editors do, and is looked at."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.file)
        await self.follower.look()


@pytest.mark.spec("SYNC-2")
async def test_a_change_is_published_once_and_a_file_that_did_not_change_never(tmp_path: Path) -> None:
    """Looking again, and writing what was there, bring nothing."""
    watcher = Watcher(tmp_path)
    await watcher.follower.look()
    assert watcher.published == []
    await watcher.sees('[mail_synchronization]\ninterval = "1m"\n[http]\nport = 9\n')
    await watcher.follower.look()
    (snapshot,) = watcher.published
    assert snapshot.mail_synchronization.interval.total_seconds() == 60
    assert watcher.told == [SettingsNotice(needs_restart=("http",))]


@pytest.mark.spec("SYNC-2")
async def test_a_broken_file_keeps_what_was_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its path and the failure's code are logged, its defects told, no value of it anywhere; a mended one is taken up."""
    caplog.set_level(logging.INFO)
    watcher = Watcher(tmp_path)
    await watcher.sees('[mail_synchronization]\nintervall = "hush"\n')
    await watcher.follower.look()
    assert watcher.published == []
    (notice,) = watcher.told
    assert notice.trouble is not None
    assert "mail_synchronization.intervall: is not a setting" in notice.trouble
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert (line.path, line.failure_code) == (str(watcher.file), 12001)  # type: ignore[attr-defined]
    assert "hush" not in caplog.text + notice.trouble
    await watcher.sees("[mail_synchronization]\nmax_metadata_batch_size = 7\n")
    assert [one.mail_synchronization.max_metadata_batch_size for one in watcher.published] == [7]
    assert watcher.told[-1] == SettingsNotice()


@pytest.mark.spec("SYNC-2")
async def test_only_the_newest_candidate_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes while it is being read is not published as it was; the next look reads it again."""
    watcher = Watcher(tmp_path)

    def overtaken(home: Path) -> Settings:
        found = load_candidate(home)
        monkeypatch.setattr(following, "load_candidate", load_candidate)
        watcher.file.write_text("[mail_synchronization]\nmax_metadata_batch_size = 20\n")
        os.utime(watcher.file, ns=(1, 1))
        return found

    monkeypatch.setattr(following, "load_candidate", overtaken)
    await watcher.sees("[mail_synchronization]\nmax_metadata_batch_size = 10\n")
    assert watcher.published == []
    await watcher.follower.look()
    assert [one.mail_synchronization.max_metadata_batch_size for one in watcher.published] == [20]
