"""All messages that a query means, for acting on them."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
from support.changes import execute, fill, imap, rows, settings_of
from support.mail import message
from support.stored import NOW, folder, store

from mailkeep.db import Database
from mailkeep.errors import FilterRefused
from mailkeep.mailbox import Flags, SpecialUse
from mailkeep.search import QueryMalformed, SearchRequest, matching_emails

pytestmark = pytest.mark.anyio
HOME = settings_of(imap(), {"account_id": "attic", "display_name": "Attic", "kind": "local"})


async def matching(db: Database, query: str, *, at_most: int = 100) -> list[str]:
    """The subjects of all that match, in order."""
    ids: list[UUID] = await matching_emails(db, HOME, SearchRequest(query_text=query), at_most=at_most)
    named = dict(await rows(db, "SELECT id, subject FROM stored_emails WHERE id = ANY(%s)", ids))
    return [named[one] for one in ids]


@pytest.mark.spec("MUT-B7", "FIND-35")
async def test_words_and_fields_mean_every_message_that_is_on_a_server(db: Database) -> None:
    """Newest first; mail of local accounts, junk, copies kept after our own delete and tombstones take no part."""
    inbox = await folder(db, "home", "INBOX")
    mails = [
        message(f"Ferry {n}", body="heron at the pier", received_at=NOW + timedelta(hours=n), from_="Ann <a@x.example>")
        for n in range(4)
    ]
    await store(db, inbox, [*mails, message("Other", received_at=NOW)], flags=Flags(seen=True))
    await store(db, await folder(db, "home", "JUNK", special_use=SpecialUse.JUNK), [message("Ferry junk")])
    await fill(db, 1, account_id="attic")
    await store(db, await folder(db, "attic", "PAPERS"), [message("Ferry attic", body="heron")])
    await execute(
        db,
        "UPDATE stored_emails SET remote_expunge_observed_at = now(), is_retained_after_authored_delete = true "
        "WHERE subject = 'Ferry 3'",
    )
    assert await matching(db, "heron") == ["Ferry 2", "Ferry 1", "Ferry 0"]
    assert await matching(db, "from:a@x.example -subject:1") == ["Ferry 2", "Ferry 0"]
    assert await matching(db, "is:read -heron") == ["Other"]
    assert await matching(db, "is:unread") == []
    assert await matching(db, "ferry in:junk") == ["Ferry junk"]


@pytest.mark.spec("MUT-B7")
async def test_too_many_and_nothing_in_particular_are_refused(db: Database) -> None:
    """A query that asks for nothing would mean all mail."""
    await fill(db, 4)
    with pytest.raises(FilterRefused, match="more than 3"):
        await matching(db, "home", at_most=3)
    assert len(await matching(db, "home", at_most=4)) == 4
    with pytest.raises(FilterRefused, match="asks for nothing"):
        await matching(db, "*")
    with pytest.raises(QueryMalformed):
        await matching(db, "from:(")
