"""GET: list, count, events, one message, thread, search, an attachment."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from mailkeep_inbox.bounds import MAX_ID_CHARACTERS
from mailkeep_inbox.checks import is_storable
from mailkeep_inbox.cursors import decode_thread_cursor
from mailkeep_inbox.detail import AttachmentContent, get_mailbox_message, read_mailbox_attachment
from mailkeep_inbox.http.answers import NO_MESSAGE, NO_PRINCIPAL, PRIVATE, Refusal, answer
from mailkeep_inbox.http.host import MailboxHost
from mailkeep_inbox.http.parameters import (
    first_values,
    limit_of,
    list_request,
    message_id_of,
    part_of,
    search_request,
)
from mailkeep_inbox.lists import count_unread_active_mailbox, list_user_mailbox
from mailkeep_inbox.log_reader import LogReader
from mailkeep_inbox.model import Directions, MailboxRef
from mailkeep_inbox.search import search_user_mailbox
from mailkeep_inbox.search_terms import parse_query
from mailkeep_inbox.sse import MailboxEventStream
from mailkeep_inbox.threads import read_mailbox_thread

_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}", re.ASCII)
_DIRECTIONS: Final[dict[str, Directions]] = {"inbound": "inbound", "outbound": "outbound", "all": "all"}


async def list_messages(host: MailboxHost, request: Request) -> Response:
    """A page of the caller's inbox; empty for nobody (INBOX-82)."""
    asked = list_request(first_values(request), host.vocabulary)
    scope = await host.principal(request)
    if scope is None:
        return answer({"messages": []})
    page = await list_user_mailbox(
        host.db,
        scope,
        priorities=host.vocabulary.priorities,
        limit=asked.limit,
        view=asked.view,
        sort=asked.sort,
        filter=asked.filter,
        cursor=asked.cursor,
        resolve_sender_displays=host.resolve_sender_displays,
    )
    return answer(_page([item.as_wire() for item in page.items], page.next_cursor))


async def count_unread(host: MailboxHost, request: Request) -> Response:
    """How many wait; none for nobody."""
    scope = await host.principal(request)
    return answer({"unread": 0 if scope is None else await count_unread_active_mailbox(host.db, scope)})


async def stream_events(host: MailboxHost, request: Request) -> Response:
    """The caller's live events."""
    scope = await host.principal(request)
    if scope is None:
        raise Refusal(403, NO_PRINCIPAL)
    log = None
    if host.resumable_events:
        log = LogReader(host.db, scope, last_event_id=request.headers.get("last-event-id"))
    return MailboxEventStream(scope, bus=host.bus, heartbeat_interval=host.heartbeat_interval, log=log)


async def read_message(host: MailboxHost, request: Request) -> Response:
    """One message whole."""
    message_id = message_id_of(request)
    scope = await host.principal(request)
    if scope is None:
        raise Refusal(403, NO_PRINCIPAL)
    detail = await get_mailbox_message(
        host.db, scope, message_id, direction="all", resolve_sender_displays=host.resolve_sender_displays
    )
    if detail is None:
        raise Refusal(404, NO_MESSAGE)
    return answer(detail.as_wire())


async def read_thread(host: MailboxHost, request: Request) -> Response:
    """A page of a conversation, both sides unless asked otherwise; empty for nobody."""
    values = first_values(request)
    kind, ref_id = values.get("kind", ""), values.get("id", "")
    if not all(0 < len(text) <= MAX_ID_CHARACTERS and is_storable(text) for text in (kind, ref_id)):
        raise Refusal(400, "invalid thread ref")
    limit = limit_of(values)
    direction = _DIRECTIONS.get(values.get("direction", "all"))
    if direction is None:
        raise Refusal(400, "invalid thread direction")
    ref, cursor = MailboxRef(kind, ref_id), values.get("cursor")
    if cursor is not None:
        decode_thread_cursor(cursor, ref, direction)
    scope = await host.principal(request)
    if scope is None:
        return answer({"messages": []})
    page = await read_mailbox_thread(host.db, scope, ref=ref, cursor=cursor, limit=limit, direction=direction)
    return answer(_page([item.as_wire() for item in page.items], page.next_cursor))


async def search_messages(host: MailboxHost, request: Request) -> Response:
    """Messages that hold the words; none for nobody."""
    query, asked = search_request(first_values(request), host.vocabulary)
    parse_query(query)
    scope = await host.principal(request)
    if scope is None:
        return answer({"messages": []})
    page = await search_user_mailbox(
        host.db,
        scope,
        query=query,
        limit=asked.limit,
        view=asked.view,
        filter=asked.filter,
        cursor=asked.cursor,
        resolve_sender_displays=host.resolve_sender_displays,
    )
    return answer(_page([hit.as_wire() for hit in page.items], page.next_cursor))


async def download_attachment(host: MailboxHost, request: Request) -> Response:
    """A file of a message, as a download: a sender's file never runs in the host's page."""
    message_id, part = message_id_of(request), part_of(request)
    scope = await host.principal(request)
    if scope is None:
        raise Refusal(403, NO_PRINCIPAL)
    found = await read_mailbox_attachment(host.db, scope, message_id, part, direction="all")
    if found is None:
        raise Refusal(404, "Attachment not found")
    return Response(found.content, headers=_download_headers(found))


def _download_headers(file: AttachmentContent) -> dict[str, str]:
    """Media type and name are the sender's words: the first is checked, the second encoded (RFC 8187)."""
    is_type = _MEDIA_TYPE.fullmatch(file.media_type) is not None
    name = quote((file.name or "attachment").encode("utf-8", "replace"), safe="")
    return PRIVATE | {
        "content-type": file.media_type if is_type else "application/octet-stream",
        "content-disposition": f"attachment; filename*=UTF-8''{name}",
        "content-security-policy": "default-src 'none'; sandbox",
        "x-content-type-options": "nosniff",
    }


def _page(messages: list[dict[str, Any]], next_cursor: str | None) -> dict[str, Any]:
    return {"messages": messages} | ({} if next_cursor is None else {"nextCursor": next_cursor})
