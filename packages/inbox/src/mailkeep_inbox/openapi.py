"""The routes as an OpenAPI 3.1 document, from the same table and shapes that serve them (INBOX-89)."""

from __future__ import annotations

import copy
from typing import Any, Final

from mailkeep_inbox import shapes
from mailkeep_inbox.http.operations import OPERATIONS, Operation, parameter_shapes
from mailkeep_inbox.vocabulary import MailboxVocabulary, assert_mailbox_vocabulary

TAG: Final = "mailbox"
_REFUSALS: Final = {
    400: "The request is not one that can be answered",
    403: "The request names or streams an inbox and nobody is known to ask",
    404: "There is no such message in this inbox, or it refuses the change",
    413: "The body is too large",
}


def mailbox_openapi(vocabulary: MailboxVocabulary, *, prefix: str = "") -> dict[str, Any]:
    """A whole document of these routes alone. `prefix` is where the host has mounted them, such as `/api`.

    On a FastAPI host they are part of the host's own document already.
    """
    assert_mailbox_vocabulary(vocabulary)
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        described = operation_document(operation, vocabulary)
        paths.setdefault(prefix + operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "Inbox", "version": "1"},
        "tags": [{"name": TAG}],
        "paths": paths,
    }


def operation_document(operation: Operation, vocabulary: MailboxVocabulary) -> dict[str, Any]:
    """One operation, self-contained: no references, so that it fits into any document."""
    known = parameter_shapes(vocabulary)
    success = {"description": "OK", "content": {operation.media_type: {"schema": operation.success}}}
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [TAG],
        "responses": {"200": success} | {str(status): _refusal(status) for status in operation.refusals},
    }
    if operation.parameters:
        document["parameters"] = [known[name] for name in operation.parameters]
    if operation.body is not None:
        document["requestBody"] = {"required": True, "content": {"application/json": {"schema": operation.body}}}
    return copy.deepcopy(document)


def _refusal(status: int) -> dict[str, Any]:
    return {"description": _REFUSALS[status], "content": {"application/json": {"schema": shapes.ERROR}}}
