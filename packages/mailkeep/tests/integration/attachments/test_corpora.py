"""Every attachment of the corpora once through the worker: each comes to an outcome, none ends the worker or hangs.

The corpora are not part of the repository: MAILKEEP_CORPORA names their folder, `../shared/corpora` beside the repository
is looked at otherwise.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from mailkeep.extraction import Bounds, Outcome, format_of
from mailkeep.extraction.process import ExtractionProcess
from mailkeep_message import attached_files

pytestmark = pytest.mark.anyio
LARGEST_FILE = 30 << 20


def corpora_folder() -> Path | None:
    named = os.environ.get("MAILKEEP_CORPORA")
    folder = Path(named) if named else Path(__file__).resolve().parents[6] / "shared" / "corpora"
    return folder if (folder / "index.tsv").is_file() else None


@pytest.mark.timeout(600)
async def test_attachments_of_real_mail_end_no_worker() -> None:
    """Broken samples of forty projects included; damage is named, and text is found in what has some."""
    folder = corpora_folder()
    if folder is None:
        pytest.skip("the corpora are not here: set MAILKEEP_CORPORA")
    outcomes: Counter[Outcome] = Counter()
    async with ExtractionProcess(Bounds(), max_memory_octets=384 << 20, wall_seconds=60) as worker:
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or path.stat().st_size > LARGEST_FILE:
                continue
            for file in attached_files(path.read_bytes()):
                form = format_of(file.octets[:1024], media_type=file.about.media_type, file_name=file.about.file_name)
                if form is None:
                    outcomes[Outcome.UNSUPPORTED] += 1
                    continue
                extraction = await worker.extract(file.octets, form, charset=file.charset, hint=file.charset_hint)
                outcomes[extraction.outcome] += 1
                where = f"{path.relative_to(folder)} {file.about.position}"
                assert extraction.outcome not in (Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY, Outcome.WORKER_DIED), where
                assert bool(extraction.text) is (extraction.outcome is Outcome.EXTRACTED), where
    assert outcomes[Outcome.EXTRACTED] > outcomes[Outcome.BROKEN]
    assert outcomes[Outcome.EXTRACTED] > 100
