"""Two small reads beside listing and search: the served accounts, and a conversation's messages by name."""

from __future__ import annotations

from uuid import UUID

from mailkeep.config import Settings
from mailkeep.config.accounts import SynchronizationMode
from mailkeep.db import Database
from mailkeep.mailbox import AccountId, Scope, resolve_scope
from mailkeep.search import queries
from mailkeep.search.model import AccountOverview, Conversation, ConversationEntry, Filters
from mailkeep.search.run import freshness_of, selection_of
from mailkeep.threads import read_thread


async def list_accounts(db: Database, settings: Settings) -> tuple[AccountOverview, ...]:
    """Every served account by id; says nothing about servers, logins or secrets."""
    scope = await resolve_scope(db, settings, include_junk=True)
    async with db.connection() as connection:
        freshness = await freshness_of(connection, settings, scope)
    return tuple(
        AccountOverview(
            account_id=AccountId(account.account_id),
            display_name=account.display_name,
            is_pushed=account.mode is SynchronizationMode.PUSH,
            folders=tuple(entry for entry in freshness if entry.account_id == account.account_id),
        )
        for account in sorted(settings.mail_synchronization.accounts, key=lambda account: account.account_id)
    )


async def read_conversation(db: Database, settings: Settings, *, scope: Scope, thread_id: UUID) -> Conversation:
    """The readable messages of a conversation, at most 500; a reply under an unreadable parent has no parent."""
    async with db.connection() as connection:
        thread = await read_thread(connection, thread_id, folder_ids=scope.folder_ids)
        ids = [entry.stored_email_id for entry in thread.entries]
        summaries = await queries.read_summaries(connection, selection_of(settings, scope, Filters()), ids)
    found = [
        (entry, summaries[entry.stored_email_id]) for entry in thread.entries if entry.stored_email_id in summaries
    ]
    return Conversation(
        thread_id=thread.thread_id,
        entries=tuple(
            ConversationEntry(
                stored_email_id=entry.stored_email_id,
                parent_stored_email_id=entry.parent_stored_email_id,
                position=position,
                subject=summary.subject,
                sent_at=summary.sent_at,
                sender_address=summary.sender_address,
                sender_display_name=summary.sender_display_name,
            )
            for position, (entry, summary) in enumerate(found)
        ),
    )
