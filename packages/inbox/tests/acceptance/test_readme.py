"""What the README of the package tells a newcomer to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from inbox_support.servers import open_stream, served

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.anyio
@pytest.mark.spec("INBOX-1", "INBOX-2", "INBOX-17", "INBOX-36")
async def test_host_of_the_readme_migrates_delivers_and_streams(
    inbox_server: str, empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables, its host.py and its three requests, against an empty database; a second delivery changes nothing."""
    text = README.read_text("utf-8")
    (sql,) = re.findall(r'psql host -c "(.*?)"', text, re.DOTALL)
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    with psycopg.connect(empty_dsn, autocommit=True) as connection:
        connection.execute(sql)
    parts = psycopg.conninfo.conninfo_to_dict(empty_dsn)
    address = f"postgresql://{parts['user']}@/{parts['dbname']}?host={parts['host']}"
    names: dict[str, Any] = {"__name__": "host"}
    exec(compile(code.replace("postgresql:///host", address), "host.py", "exec"), names)
    app = names["app"]
    async with app.router.lifespan_context(app), served(app) as running:
        base = f"http://127.0.0.1:{running.port}"
        stream = await open_stream(running.port, user="ann")
        async with httpx2.AsyncClient(base_url=base, headers={"x-user": "ann"}) as client:
            for _ in range(2):
                assert (await client.post("/demo")).status_code == 200
            assert (await stream.frame()).startswith(b"event: mailbox\n")
            (message,) = (await client.get("/api/me/inbox")).json()["messages"]
            assert message["subject"] == "Hello"
        stream.reset()
