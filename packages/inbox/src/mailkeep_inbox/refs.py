"""Entity refs: what a message is about, in the host's terms (INBOX-34, INBOX-58)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from mailkeep_inbox.bounds import LOG_SAMPLE, MAX_REFS
from mailkeep_inbox.checks import require_text
from mailkeep_inbox.errors import MailboxRangeError
from mailkeep_inbox.model import Attachment, MailboxRef

logger = logging.getLogger("mailkeep_inbox")


def require_ref(value: object) -> MailboxRef:
    """A ref given as MailboxRef or as a mapping of its fields; anything else is a MailboxRangeError."""
    if isinstance(value, Mapping):
        if not {"kind", "id"} <= set(value) <= {"kind", "id", "label"}:
            raise MailboxRangeError("a ref has kind, id and perhaps label")
        value = MailboxRef(**value)
    if not isinstance(value, MailboxRef):
        raise MailboxRangeError("a ref must be a MailboxRef or a mapping")
    require_text("ref.kind", value.kind)
    require_text("ref.id", value.id)
    if value.label is not None:
        require_text("ref.label", value.label)
    return value


def require_refs(values: Sequence[object] | None, *, key: str) -> tuple[MailboxRef, ...]:
    """Every ref checked, the first 20 kept; what is beyond them is told once in the log, under `key`."""
    if values is None:
        return ()
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Sequence):
        raise MailboxRangeError("refs must be a list")
    refs = tuple(require_ref(value) for value in values)
    if len(refs) > MAX_REFS:
        logger.warning("mailbox refs cut: key=%s received=%d kept=%d", key, len(refs), MAX_REFS)
    return refs[:MAX_REFS]


def refs_json(refs: Sequence[MailboxRef]) -> str | None:
    """The stored form; `None`, SQL NULL, when there is none."""
    return json.dumps([ref.as_wire() for ref in refs], ensure_ascii=False) if refs else None


def _attachment(value: dict[str, Any]) -> Attachment:
    return Attachment(value["part"], value.get("name"), value["mediaType"], value["size"])


class StoredLists:
    """Reads the lists of one page's rows; a bad blob costs its row the list, and the log gets one line for all."""

    def __init__(self) -> None:
        self._bad: list[str] = []
        self._reason = ""

    def refs(self, row_id: str, blob: str | None) -> tuple[MailboxRef, ...]:
        """The refs of a row."""
        return tuple(self._each(row_id, blob, require_ref))

    def texts(self, row_id: str, blob: str | None) -> tuple[str, ...]:
        """A list of texts, as `references` are stored."""
        return tuple(self._each(row_id, blob, lambda value: require_text("references", value)))

    def attachments(self, row_id: str, blob: str | None) -> tuple[Attachment, ...]:
        """The files of a row."""
        return tuple(self._each(row_id, blob, _attachment))

    def report(self) -> None:
        """Say how many rows were bad, a sample of their ids, and the first reason."""
        if self._bad:
            logger.warning(
                "mailbox rows with malformed lists: count=%d sample=%s reason=%s",
                len(self._bad), self._bad[:LOG_SAMPLE], self._reason,
            )  # fmt: skip

    def _each(self, row_id: str, blob: str | None, check: Any) -> list[Any]:
        if blob is None:
            return []
        try:
            values = json.loads(blob)
            if not isinstance(values, list):
                raise MailboxRangeError("not a list")
            return [check(value) for value in values]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as fault:
            self._bad.append(row_id)
            self._reason = self._reason or (str(fault) if isinstance(fault, MailboxRangeError) else "not JSON")
            return []
