"""Making the folder that mail is to be put into, where its mapping allows that (MUT-61)."""

from __future__ import annotations

import logging

from mailkeep.errors import FolderCreationRefused
from mailkeep.imap.writing import WritingSession

log = logging.getLogger(__name__)


async def create_folder(session: WritingSession, path: str) -> None:
    """Make a folder and those above it that are missing, and subscribe to it. Raises FolderCreationRefused.

    The path is split at the server's own delimiter. That a folder is there after a refusal is success: somebody else
    made it.
    """
    inbox = await session.find("INBOX")
    delimiter = None if inbox is None else inbox.delimiter
    parts = path.split(delimiter) if delimiter else [path]
    for depth in range(1, len(parts) + 1):
        await _create(session, (delimiter or "").join(parts[:depth]), is_target=depth == len(parts))
    if not await session.subscribe(path):
        log.warning("the mail server refused to subscribe to a folder that was made")


async def _create(session: WritingSession, path: str, *, is_target: bool) -> None:
    folder = await session.find(path)
    if folder is None:
        if await session.create(path):
            return
        folder = await session.find(path)
        if folder is None:
            raise FolderCreationRefused("the mail server refused to create a folder")
    if is_target and not folder.is_selectable:
        raise FolderCreationRefused("a name that holds no mail is in the place of the folder")
