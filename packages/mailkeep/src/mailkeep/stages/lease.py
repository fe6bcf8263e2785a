"""One owner for each stage across all processes of a database."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from mailkeep.db import Database


def stage_lease(db: Database, name: str) -> AbstractAsyncContextManager[bool]:
    """Be the only process that works at this stage until the end of the block; gives False when another one is.

    Entering raises DatabaseUnavailable.
    """
    return db.lease(f"mailkeep stage {name}")
