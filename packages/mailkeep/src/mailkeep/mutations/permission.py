"""What tools may change: the account's switches, asked where a change is recorded and where tools are listed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from mailkeep.config import AccountKind, AccountSettings, Settings
from mailkeep.errors import MailChangeNotPermitted
from mailkeep.mutations.model import Mutation
from mailkeep.mutations.wishes import Caller


class Permission(StrEnum):
    """The switches of `tool_changes`."""

    FLAGS = "flags"
    MOVES = "moves"
    COPIES = "copies"
    DELETIONS = "deletions"

    @classmethod
    def of(cls, mutation: Mutation) -> Permission:
        """What a mutation needs."""
        return {
            Mutation.RELOCATE: cls.MOVES,
            Mutation.COPY: cls.COPIES,
            Mutation.DELETE: cls.DELETIONS,
        }.get(mutation, cls.FLAGS)


def is_permitted(settings: Settings, account: AccountSettings, permission: Permission) -> bool:
    """Whether tools may do this to the account's mail. Deleting takes the endpoint's own switch as well."""
    if account.kind is not AccountKind.IMAP:
        return False
    if permission is Permission.DELETIONS and not settings.mcp_endpoint.deleting_enabled:
        return False
    return bool(getattr(account.tool_changes, permission.value))


def is_offered(settings: Settings, *permissions: Permission) -> bool:
    """Whether tools may do any of this to any account's mail."""
    accounts = settings.mail_synchronization.accounts
    return any(is_permitted(settings, account, one) for account in accounts for one in permissions)


def refuse_unpermitted(
    settings: Settings, account: AccountSettings, mutations: Iterable[Mutation], *, caller: Caller
) -> None:
    """Raise MailChangeNotPermitted for a tool that may not; people at the command line may everything."""
    if caller is Caller.PERSON:
        return
    for mutation in mutations:
        permission = Permission.of(mutation)
        if not is_permitted(settings, account, permission):
            raise MailChangeNotPermitted(
                f"tools may not make this change in that account; its owner permits it by tool_changes.{permission}"
            )
