"""The audit trail's writing side: an entry after each ending, those that were lost, and what is too old (MUT-62 to 65).

Nothing here ever fails a change or a run: what is lost is warned of, counted, and entered by a later run.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import psycopg

from mailkeep.db import Database, load_queries, uuid7s
from mailkeep.errors import MailkeepError
from mailkeep.mailbox import AccountId
from mailkeep.mutations.model import AuditOutcome, Placement
from mailkeep.mutations.plan import Due
from mailkeep.mutations.signals import LOST_ENTRIES

_SQL: Final = load_queries("mailkeep.mutations")
ROWS_PER_PASS: Final = 5_000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """A change at the moment it ended."""

    row: Due
    placement: Placement | None
    outcome: AuditOutcome
    failure_code: int | None
    at: datetime


async def append_entries(db: Database, ended: Sequence[Ended]) -> None:
    """Enter them. A failure is warned of and counted (MUT-64)."""
    try:
        async with db.connection() as connection:
            await connection.execute(_SQL["append_entries"], _columns(ended))
    except (MailkeepError, psycopg.Error) as error:
        LOST_ENTRIES.inc(len(ended))
        account_id = ended[0].row.record.account_id
        log.warning(
            "audit entries refused",
            extra={"account_id": account_id, "entries": len(ended), "error": type(error).__name__},
        )


async def tidy(
    db: Database, account_id: AccountId, *, now: datetime, retention: timedelta, record_retention: timedelta
) -> None:
    """Once a run: enter what was lost, erase what is too old (MUT-B10, MUT-65, MUT-B11). Failing waits for the next."""
    cutoff = {"account_id": account_id, "cutoff": now - retention, "limit": ROWS_PER_PASS}
    work = (
        ("backfill_entries", cutoff),
        ("erase_expired_entries", cutoff),
        ("prune_completed", {**cutoff, "cutoff": now - record_retention}),
    )
    for name, values in work:
        try:
            async with db.connection() as connection:
                await connection.execute(_SQL[name], values)
        except (MailkeepError, psycopg.Error) as error:
            log.warning(
                "records of changes not tidied",
                extra={"account_id": account_id, "work": name, "error": type(error).__name__},
            )


def _columns(ended: Sequence[Ended]) -> dict[str, list[Any]]:
    records = [one.row.record for one in ended]
    terms = [record.terms for record in records]
    return {
        "ids": list(uuid7s(ended[0].at, len(ended))),
        "record_ids": [record.id for record in records],
        "email_ids": [record.stored_email_id for record in records],
        "account_ids": [record.account_id for record in records],
        "mutations": [one.mutation.value for one in terms],
        "outcomes": [one.outcome.value for one in ended],
        "origins": [record.requester.origin.value for record in records],
        "identities": [record.requester.identity for record in records],
        "paths": [one.row.folder_path for one in ended],
        "delimiters": [one.row.folder_delimiter for one in ended],
        "uid_validities": [record.source.uid_validity for record in records],
        "uids": [record.source.uid for record in records],
        "to_paths": [one.destination_folder_path for one in terms],
        "to_delimiters": [one.destination_hierarchy_delimiter for one in terms],
        "to_uid_validities": [None if one.placement is None else one.placement.uid_validity for one in ended],
        "to_uids": [None if one.placement is None else one.placement.uid for one in ended],
        "seen": [one.desired_seen_state for one in terms],
        "flagged": [one.desired_flagged_state for one in terms],
        "keywords": [None if one.keywords is None else " ".join(one.keywords) for one in terms],
        "codes": [one.failure_code for one in ended],
        "requested_ats": [record.recorded_at for record in records],
        "completed_ats": [one.at for one in ended],
    }
