"""POST: every change. Each is committed, then published, then answered; a failing bus still answers 200 (INBOX-88)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from mailkeep_inbox.bounds import MAX_BULK
from mailkeep_inbox.http.answers import NO_MESSAGE, NO_PRINCIPAL, Refusal, answer
from mailkeep_inbox.http.bodies import body_of
from mailkeep_inbox.http.host import MailboxHost
from mailkeep_inbox.http.parameters import filter_of, is_uuid, message_id_of, moment_of
from mailkeep_inbox.model import MailboxScope, PendingEvent
from mailkeep_inbox.mutations import (
    apply_mailbox_action_to_filter,
    apply_mailbox_bulk_action,
    archive_mailbox_message,
    assign_mailbox_message,
    enrich_mailbox_message,
    label_mailbox_message,
    mark_all_mailbox_read,
    mark_mailbox_message_read,
    mark_mailbox_message_unread,
    restore_mailbox_message,
    snooze_mailbox_message,
    trash_mailbox_message,
)
from mailkeep_inbox.shapes import ASSIGNMENT, BULK, ENRICHMENT, FILTERED_ACTION, LABELS, SNOOZE
from mailkeep_inbox.write import publish

Handler = Callable[[MailboxHost, Request], Awaitable[Response]]
NOTHING_TO_SET: Final = "enrichment must set at least one of priority, classification, status"


def verb(change: Callable[..., Awaitable[bool]]) -> Handler:
    """The handler of a change that takes nothing but the message."""

    async def handle(host: MailboxHost, request: Request) -> Response:
        return await _change_one(host, request, message_id_of(request), change, {})

    return handle


read = verb(mark_mailbox_message_read)
unread = verb(mark_mailbox_message_unread)
trash = verb(trash_mailbox_message)
archive = verb(archive_mailbox_message)
restore = verb(restore_mailbox_message)


async def enrich(host: MailboxHost, request: Request) -> Response:
    """Triage words: set, cleared by null, kept when absent (INBOX-85)."""
    message_id = message_id_of(request)
    body = await body_of(request, ENRICHMENT, "invalid mailbox enrichment")
    words: dict[str, Any] = {name: body[name] for name in ENRICHMENT["properties"] if name in body}
    if words.get("priority") is not None and words["priority"] not in host.vocabulary.priorities:
        raise Refusal(400, "unknown priority")
    if words.get("status") is not None and words["status"] not in host.vocabulary.statuses:
        raise Refusal(400, "unknown status")
    scope = await _principal(host, request)
    if not words:
        raise Refusal(400, NOTHING_TO_SET)
    return await _changed(host, scope, message_id, enrich_mailbox_message, words)


async def assign(host: MailboxHost, request: Request) -> Response:
    """Who takes care of it; null for nobody (INBOX-86)."""
    message_id = message_id_of(request)
    body = await body_of(request, ASSIGNMENT, "invalid mailbox assignment")
    return await _change_one(host, request, message_id, assign_mailbox_message, {"assignee": body["assignee"]})


async def snooze(host: MailboxHost, request: Request) -> Response:
    """Out of sight until a moment; null wakes it."""
    message_id = message_id_of(request)
    until = (await body_of(request, SNOOZE, "invalid mailbox snooze"))["until"]
    moment = None if until is None else moment_of(until, "invalid mailbox snooze")
    return await _change_one(host, request, message_id, snooze_mailbox_message, {"until": moment})


async def label(host: MailboxHost, request: Request) -> Response:
    """Labels added and removed."""
    message_id = message_id_of(request)
    body = await body_of(request, LABELS, "invalid mailbox labels")
    change = {"add": body.get("add", []), "remove": body.get("remove", [])}
    if not change["add"] and not change["remove"]:
        raise Refusal(400, "invalid mailbox labels")
    return await _change_one(host, request, message_id, label_mailbox_message, change)


async def bulk(host: MailboxHost, request: Request) -> Response:
    """One action on several messages; partial success is normal (INBOX-87)."""
    body = await body_of(request, BULK, "invalid bulk inbox request")
    ids: list[str] = body["ids"]
    if not all(is_uuid(each) for each in ids):
        raise Refusal(400, "each id must be a UUID")
    scope = await _principal(host, request)
    if len(ids) > MAX_BULK:
        raise Refusal(400, f"bulk mailbox action accepts at most {MAX_BULK} ids")
    events: list[PendingEvent] = []
    results = await apply_mailbox_bulk_action(host.db, scope, body["action"], ids, events=events)
    by_id = {pending.event.id: pending for pending in events}
    await publish(host.bus, [by_id[result.id] for result in results if result.ok])
    updated = sum(result.ok for result in results)
    return answer({"updated": updated, "results": [{"id": result.id, "ok": result.ok} for result in results]})


async def bulk_by_filter(host: MailboxHost, request: Request) -> Response:
    """One action on all that a view and its filters show."""
    text = "invalid bulk inbox request"
    body = await body_of(request, FILTERED_ACTION, text)
    chosen = filter_of(body.get("filter", {}), host.vocabulary)
    before = moment_of(body["before"], text) if "before" in body else None
    scope = await _principal(host, request)
    events: list[PendingEvent] = []
    updated = await apply_mailbox_action_to_filter(
        host.db, scope, body["action"], view=body.get("view", "all"), filter=chosen, before=before, events=events
    )
    await publish(host.bus, events)
    return answer({"updated": updated})


async def mark_all_read(host: MailboxHost, request: Request) -> Response:
    """Everything unread in the inbox."""
    scope = await _principal(host, request)
    events: list[PendingEvent] = []
    updated = await mark_all_mailbox_read(host.db, scope, events=events)
    await publish(host.bus, events)
    return answer({"updated": updated})


async def _principal(host: MailboxHost, request: Request) -> MailboxScope:
    scope = await host.principal(request)
    if scope is None:
        raise Refusal(403, NO_PRINCIPAL)
    return scope


async def _change_one(
    host: MailboxHost,
    request: Request,
    message_id: str,
    change: Callable[..., Awaitable[bool]],
    arguments: dict[str, Any],
) -> Response:
    return await _changed(host, await _principal(host, request), message_id, change, arguments)


async def _changed(
    host: MailboxHost,
    scope: MailboxScope,
    message_id: str,
    change: Callable[..., Awaitable[bool]],
    arguments: dict[str, Any],
) -> Response:
    events: list[PendingEvent] = []
    if not await change(host.db, scope, message_id, events=events, **arguments):
        raise Refusal(404, NO_MESSAGE)
    await publish(host.bus, events)
    return answer({"id": message_id, "ok": True})
