"""Opening the database: the embedded server, the gate, sharing."""

from __future__ import annotations

import pytest

from mailkeep.db import Database

pytestmark = pytest.mark.anyio


async def test_connection_speaks_utc(db: Database) -> None:
    """Every instant leaves the database aware and in UTC."""
    async with db.connection() as connection:
        row = await (await connection.execute("SHOW timezone")).fetchone()
    assert row == ("UTC",)
