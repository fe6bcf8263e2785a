"""`make bench`: measure against real tools in the same run; one JSON object a line. NAME picks one group of figures.

Groups, the quick ones first: see GROUPS. Ratios are what we quote; machines are noisy.
"""

import argparse
import sys
from collections.abc import Callable, Iterator

from . import (
    attachment_text,
    changes,
    first_sync,
    inbox_pages,
    inbox_streams,
    jobs,
    lexical_search,
    many_folders,
    reader,
    relevance,
    rivals,
    semantic,
    timeline,
)
from .corpus import CorpusUnavailableError
from .figure import Figure
from .process import CommandFailedError

GROUPS: dict[str, Callable[[], Iterator[Figure]]] = {
    "reader": reader.measure,
    "first_sync": first_sync.measure,
    "many_folders": many_folders.measure,
    "changes": changes.measure,
    "jobs": jobs.measure,
    "timeline": timeline.measure,
    "inbox_pages": inbox_pages.measure,
    "inbox_streams": inbox_streams.measure,
    "lexical_search": lexical_search.measure,
    "semantic": semantic.measure,
    "attachment_text": attachment_text.measure,
    "relevance": relevance.measure,
}


def main() -> int:
    """Measure what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[*GROUPS], help="one group of figures; all when left out")
    chosen = parser.parse_args().name
    try:
        rivals.require_rivals()
        for name in [chosen] if chosen else GROUPS:
            for figure in GROUPS[name]():
                print(figure.line(), flush=True)
    except (
        rivals.RivalMissingError,
        rivals.RivalFailedError,
        CorpusUnavailableError,
        CommandFailedError,
        first_sync.BenchmarkInvalidError,
    ) as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
