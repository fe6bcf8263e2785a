"""The reader against public mail corpora; skipped where they are absent."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mailkeep_message import DEFECTS, attachment_payload
from mailkeep_message.reader import read_strictly

ROOT = Path(__file__).resolve().parents[4]
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| (standard|rule|miss) \| ([^|]|\\\|)+ \|$", re.MULTILINE)
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def load_report() -> ModuleType:
    spec = importlib.util.spec_from_file_location("corpora_report", ROOT / "packages/message/tests/corpora_report.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["corpora_report"] = module
    spec.loader.exec_module(module)
    return module


report = load_report()
CORPORA = report.corpora_folder()
pytestmark = pytest.mark.skipif(CORPORA is None, reason="mail corpora not found: set MAILKEEP_CORPORA")


def explained() -> dict[tuple[str, str, str], str]:
    rows = ROW.findall((ROOT / "docs/corpora-deviations.md").read_text())
    return {(source, file, aspect): kind for source, file, aspect, kind, _ in rows}


@pytest.fixture(scope="module")
def findings() -> list[object]:
    return list(report.compare_all(CORPORA))


def test_each_deviation_from_an_expected_result_is_explained(findings: list[object]) -> None:
    """The table of deviations is complete and holds none that is gone."""
    deviations = {(f.source, f.file.partition("#")[0], f.aspect) for f in findings if not f.agrees}
    assert deviations == set(explained())


def test_nineteen_of_twenty_files_agree_where_the_expected_result_can_be_followed(findings: list[object]) -> None:
    """Files whose only deviations are faults of the expected result or rules of ours count as agreeing."""
    kinds = explained()
    files: dict[tuple[str, str], bool] = {}
    for finding in findings:
        file = finding.file.partition("#")[0]
        good = finding.agrees or kinds.get((finding.source, file, finding.aspect)) in ("standard", "rule")
        files[finding.source, file] = files.get((finding.source, file), True) and good
    assert len(files) > 400
    assert sum(files.values()) >= report.TARGET * len(files)


def test_messages_of_the_rfcs_and_of_mime_tools_agree_in_full(findings: list[object]) -> None:
    """Well-formed mail and the classic torture set leave no room for taste."""
    strict = [f for f in findings if f.source == "mime-tools-testmsgs" or f.file.startswith("rfc/")]
    assert len(strict) > 90
    assert [(f.file, f.aspect, f.note) for f in strict if not f.agrees] == []


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from strings(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from strings(getattr(value, field.name))


@pytest.mark.spec("SYNC-91", "SYNC-107")
def test_no_file_of_any_corpus_raises_or_leaks_a_forbidden_character() -> None:
    """All files, whatever their kind: messages, mailboxes, transcripts, JSON and licences."""
    count = 0
    for path in sorted(CORPORA.glob("**/*")):
        if path.is_file():
            octets = path.read_bytes()
            message = read_strictly(octets)
            assert message.defects <= DEFECTS, path
            assert not any(FORBIDDEN.search(text) for text in strings(message)), path
            for attachment in (*message.attachments, *message.inline_resources):
                assert len(attachment_payload(octets, attachment.position)) == attachment.size_octets, path
            count += 1
    assert count > 2000
