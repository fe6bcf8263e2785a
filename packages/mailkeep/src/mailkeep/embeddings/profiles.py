"""Registered profiles and the transitions of their lifecycle, each one transaction (FIND-63, FIND-69 to FIND-73)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import psycopg

from mailkeep.config import DistanceMetric
from mailkeep.db import Connection, Database, load_queries
from mailkeep.db.ids import uuid7
from mailkeep.embeddings.identity import ProfileIdentity
from mailkeep.mailbox import FolderId

_SQL: Final = load_queries("mailkeep.embeddings")
_ONE_OF_EACH: Final = "ix_embedding_profiles_lifecycle_state"
REMOVAL_BATCH: Final = 10_000


class Lifecycle(StrEnum):
    """What a profile is for: being filled, being read, or neither."""

    BUILDING = "Building"
    ACTIVE = "Active"
    SUPERSEDED = "Superseded"


@dataclass(frozen=True, slots=True)
class Profile:
    """A registered profile; the profile is the generation."""

    id: UUID
    identity: ProfileIdentity
    fingerprint: str
    state: Lifecycle
    registered_at: datetime
    activated_at: datetime | None
    superseded_at: datetime | None


class Registration(StrEnum):
    """What asking for a profile came to."""

    STARTED = "ReindexStarted"
    ALREADY_BUILDING = "AlreadyBuilding"
    ALREADY_SERVING = "AlreadyServing"
    OTHER_BUILDING = "DifferentReindexRunning"


async def living_profiles(connection: Connection) -> tuple[Profile | None, Profile | None]:
    """The active and the building profile."""
    cursor = await connection.execute(_SQL["living"])
    found = {profile.state: profile for profile in map(_profile, await cursor.fetchall())}
    return found.get(Lifecycle.ACTIVE), found.get(Lifecycle.BUILDING)


async def begin_building(db: Database, identity: ProfileIdentity, *, now: datetime) -> tuple[Registration, Profile]:
    """Let the profile of an identity be built, unless it is or another one is. Of two at once one begins (FIND-69)."""
    try:
        return await db.redo(lambda connection: _begin(connection, identity, now))
    except psycopg.errors.UniqueViolation as error:
        if error.diag.constraint_name != _ONE_OF_EACH:
            raise
    # Somebody else was first. What they began is there to be read now, or was cancelled again already.
    return await db.redo(lambda connection: _begin(connection, identity, now))


async def _begin(connection: Connection, identity: ProfileIdentity, now: datetime) -> tuple[Registration, Profile]:
    active, building = await living_profiles(connection)
    if active is not None and active.fingerprint == identity.fingerprint:
        return Registration.ALREADY_SERVING, active
    if building is not None:
        same = building.fingerprint == identity.fingerprint
        return (Registration.ALREADY_BUILDING if same else Registration.OTHER_BUILDING), building
    values = {
        "id": uuid7(now),
        "provider": identity.provider,
        "model_identifier": identity.model_identifier,
        "model_version": identity.model_version,
        "dimension": identity.dimension,
        "distance_metric": identity.distance_metric.value,
        "input_character_limit": identity.input_character_limit,
        "passage_instruction": identity.passage_instruction,
        "normalizes_vector": identity.normalizes_vector,
        "fingerprint": identity.fingerprint,
        "now": now,
    }
    row = await (await connection.execute(_SQL["begin_building"], values)).fetchone()
    if row is None:  # the same identity, begun since it was looked for
        active, building = await living_profiles(connection)
        begun = building or active
        assert begun is not None
        return (Registration.ALREADY_BUILDING if begun is building else Registration.ALREADY_SERVING), begun
    await connection.execute(_SQL["forget_position"])
    return Registration.STARTED, _profile(row)


async def switch(connection: Connection, building: Profile, *, folder_ids: Sequence[FolderId], now: datetime) -> bool:
    """Let the building profile be read if nothing lacks a vector of it; whether it is read now (FIND-71).

    The former one is superseded first, which the index over both states requires. A profile cancelled meanwhile stays.
    """
    cursor = await connection.execute(_SQL["lock_building"], {"id": building.id})
    if await cursor.fetchone() is None:
        return False
    values = {"id": building.id, "folder_ids": list(folder_ids), "now": now}
    outstanding = await (await connection.execute(_SQL["outstanding_emails"], values)).fetchone()
    if outstanding is None or outstanding[0]:
        return False
    await connection.execute(_SQL["supersede_active"], values)
    await connection.execute(_SQL["promote"], values)
    await connection.execute(_SQL["forget_position"])
    return True


async def cancel_building(connection: Connection, *, now: datetime) -> Profile | None:
    """Supersede the profile that is being built; None when there is none, also because it just switched."""
    row = await (await connection.execute(_SQL["cancel"], {"now": now})).fetchone()
    await connection.execute(_SQL["forget_position"])
    return None if row is None else _profile(row)


async def superseded_with_vectors(connection: Connection) -> list[Profile]:
    """Profiles whose vectors are to be removed."""
    cursor = await connection.execute(_SQL["superseded_with_vectors"])
    return [_profile(row) for row in await cursor.fetchall()]


async def remove_vectors(connection: Connection, profile: Profile) -> int:
    """Remove up to REMOVAL_BATCH vectors of a profile that is superseded still; how many those were (FIND-72)."""
    cursor = await connection.execute(_SQL["remove_vectors"], {"id": profile.id, "limit": REMOVAL_BATCH})
    return cursor.rowcount


def _profile(row: Sequence[Any]) -> Profile:
    return Profile(
        id=row[0],
        identity=ProfileIdentity(
            provider=row[1],
            model_identifier=row[2],
            model_version=row[3],
            dimension=row[4],
            distance_metric=DistanceMetric(row[5]),
            input_character_limit=row[6],
            passage_instruction=row[7],
            normalizes_vector=row[8],
        ),
        fingerprint=row[9],
        state=Lifecycle(row[10]),
        registered_at=row[11],
        activated_at=row[12],
        superseded_at=row[13],
    )
