"""The process that prepares: `python -I -m mailkeep.preparation.worker <parent's process id>`.

Reads batches from its standard input and writes what became of them to its standard output, one at a time, until the
input ends. Both are pickles behind eight octets of length (big-endian): the parent trusts this process as it trusts its
own threads, since it runs the same code as the same user.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import BinaryIO

from mailkeep.extraction.confinement import die_with_parent
from mailkeep.preparation.encoding import prepare
from mailkeep.preparation.wire import LENGTH, READY, bare


def main() -> None:
    """Serve until the parent closes the pipe."""
    die_with_parent(int(sys.argv[1]))
    os.environ.clear()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    _answer(answers, READY)
    while len(header := requests.read(LENGTH.size)) == LENGTH.size:
        arrivals, limits = pickle.loads(requests.read(*LENGTH.unpack(header)))  # noqa: S301 -- the parent's own
        prepared = prepare(arrivals, limits=limits)
        del arrivals
        _answer(answers, pickle.dumps([bare(message) for message in prepared.messages], pickle.HIGHEST_PROTOCOL))
        del prepared


def _answer(stream: BinaryIO, answer: bytes) -> None:
    stream.write(LENGTH.pack(len(answer)))
    stream.write(answer)
    stream.flush()


if __name__ == "__main__":
    main()
