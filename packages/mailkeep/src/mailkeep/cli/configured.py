"""What the account commands share: finding the account that is meant, and showing a server's folders."""

from __future__ import annotations

from collections.abc import Sequence

from mailkeep.app import ProbedFolder
from mailkeep.cli.terminal import say, table
from mailkeep.config import AccountSettings, home, load_settings
from mailkeep.display import counted, neutralise
from mailkeep.errors import ConfigurationRefused


def configured_account(account_id: str) -> AccountSettings:
    """The configured account of that id or name. Raises ConfigurationRefused naming the ids that exist."""
    settings = load_settings(home())
    account = settings.account(account_id)
    if account is None:
        known = ", ".join(neutralise(known.account_id) for known in settings.mail_synchronization.accounts)
        hint = f"there are: {known}" if known else "there is none yet; add one with: mailkeep account add"
        raise ConfigurationRefused(f"there is no account {neutralise(account_id)}; {hint}")
    return account


def show_folders(folders: Sequence[ProbedFolder], *, to_stderr: bool = False) -> None:
    """The folders of a server: results of a test, or guidance before saving."""
    if to_stderr:
        say(f"{counted(len(folders), 'folder')}:")
        for folder in folders:
            count = "" if folder.messages is None else f"  {counted(folder.messages, 'message')}"
            say(f"  {neutralise(folder.name)}{count}")
        return
    table(
        ("folder", "role", "messages"),
        [
            (folder.name, ", ".join(folder.roles), "-" if folder.messages is None else str(folder.messages))
            for folder in folders
        ],
        right=(2,),
    )
