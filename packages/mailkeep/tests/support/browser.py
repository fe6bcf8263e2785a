"""A running `mailkeep serve` and plain requests to it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from support.command import Installation, Running


class Browser:
    """Plain requests to one server."""

    def __init__(self, url: str) -> None:
        self.address = urlsplit(url).netloc

    def get(self, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers of one answer; `headers` replace the usual ones, with `_` for `-`."""
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.putrequest("GET", path, skip_host=True)
            for name, value in ({"Host": self.address} | {k.replace("_", "-"): v for k, v in headers.items()}).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            connection.close()


@contextmanager
def served(installation: Installation, *extra: str) -> Iterator[tuple[Browser, Running]]:
    """A running server and a browser for it."""
    with installation.started("serve", "--port", "0", *extra) as running:
        match = running.await_line(r"Status and search: (http://127\.0\.0\.1:\d+)/")
        yield Browser(match[1]), running
