"""Requests nobody would write: fuzzed cursors, and whatever the OpenAPI document allows or forbids."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import anyio
import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from inbox_support.hosts import client_of, make_host
from inbox_support.mail import ANN, write
from inbox_support.postgres import engine_of
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

CURSORS = int(os.environ.get("MAILKEEP_INBOX_CURSORS", "2000"))
EXAMPLES = int(os.environ.get("MAILKEEP_INBOX_EXAMPLES", "15"))
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
_SEED = 20_261_201


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def fuzzed_cursors(real: str, count: int) -> Iterator[str]:
    """Cursors near to a real one, and far from any."""
    chance = random.Random(_SEED)
    fields = json.loads(base64.urlsafe_b64decode(real + "=" * (-len(real) % 4)))
    values: list[Any] = [
        None, True, 0, -1, 1, 3, 4, 2**31, 2**63, 10**400, 1.5, "", "x", "\x00", "\ud800", "all", "priority", [], {},
        "2026-02-30T00:00:00.000000Z", "0000-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z",
        "0001-01-01T00:00:00.000000Z", "x" * 300, "٢٠٢٦-01-01T00:00:00.000000Z", "urgent,normal,low",
    ]  # fmt: skip
    for _ in range(count):
        kind = chance.randrange(5)
        if kind == 0:
            changed = dict(fields)
            for name in chance.sample(sorted(fields), chance.randint(1, len(fields))):
                if chance.random() < 0.3:
                    del changed[name]
                else:
                    changed[name] = chance.choice(values)
            yield _encoded(changed)
        elif kind == 1:
            place = chance.randrange(len(real))
            yield real[:place] + chance.choice("ABCxyz0189-_+/=%.\x00é") + real[place + chance.randrange(2) :]
        elif kind == 2:
            yield base64.urlsafe_b64encode(chance.randbytes(chance.randrange(200))).decode()
        elif kind == 3:
            yield _encoded(chance.choice(values))
        else:
            yield "".join(chr(chance.randrange(1, 0xD7FF)) for _ in range(chance.randrange(60)))


@pytest.mark.anyio
@pytest.mark.spec("INBOX-65", "INBOX-66", "INBOX-83")
@pytest.mark.parametrize("sort", ["date", "priority"])
@pytest.mark.timeout(3600)
async def test_fuzzed_cursors_give_only_200_and_400(engine: AsyncEngine, sort: str) -> None:
    """Whole with MAILKEEP_INBOX_CURSORS=25000: four lists of 25,000 each."""
    for number in range(3):
        await write(engine, ANN, subject=str(number), priority="normal")
    async with client_of(make_host("starlette", engine)) as client:
        real = (await client.get(f"?sort={sort}&limit=1")).json["nextCursor"]
        seen: dict[int, int] = {}
        odd = ["[" * 4000, _encoded([]) * 3000, _encoded({"a": "x" * 7000})]
        for cursor in [*odd, *fuzzed_cursors(real, CURSORS)]:
            answer = await client.get(f"?sort={sort}&cursor={quote(cursor, safe='')}")
            seen[answer.status] = seen.get(answer.status, 0) + 1
            assert answer.status in (200, 400), cursor
        assert (await client.get(f"?sort={sort}&cursor={real}")).status == 200
    assert seen[400] > CURSORS / 2


@pytest.fixture
def host(inbox_dsn: str) -> Any:
    """A FastAPI host whose connections live no longer than a request, since each request has a loop of its own."""
    engine = engine_of(inbox_dsn)
    anyio.run(_fill, engine)
    return make_host("fastapi", create_async_engine(engine.url, poolclass=NullPool))


async def _fill(engine: AsyncEngine) -> None:
    for number in range(3):
        await write(engine, ANN, subject=str(number))
    await engine.dispose()


@pytest.mark.spec("INBOX-83", "INBOX-84", "INBOX-85", "INBOX-86", "INBOX-87", "INBOX-89")
@pytest.mark.parametrize("who", ["acme/ann", None])
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("default")
def test_documented_requests_get_documented_answers(host: FastAPI, who: str | None, mode: GenerationMode) -> None:
    """Requests made from the host's own document, valid and not: no 5xx, no undocumented status, type or shape."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", host)
    headers = {} if who is None else {"x-who": who}
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/events"):
            continue  # a stream does not end

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
                  phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            case.call_and_validate(headers=headers, checks=CHECKS)

        try:
            check()
        except Unsatisfiable:
            continue  # nothing about this operation can be wrong
        asked += 1
    assert asked >= (18 if mode is GenerationMode.POSITIVE else 14)
