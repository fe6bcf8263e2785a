"""An inbox that any Python web application can mount: durable, per principal, in the host's own PostgreSQL.

Everything public can be imported from here. Names are loaded when they are used, so that a program which needs the
migration values alone does not load the database library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

_MODULES: Final = {
    "bounds": (
        "DEFAULT_PAGE", "DEFAULT_THREAD_PAGE", "HEADER_FOLD_COLUMNS", "HEARTBEAT_SECONDS", "LOG_SAMPLE",
        "MAX_ANCESTRY_NODES", "MAX_BULK", "MAX_FILTER_ACTION", "MAX_FRAME_BYTES", "MAX_PAGE", "MAX_RECIPIENTS",
        "MAX_REFS", "MAX_SSE_QUEUE", "MAX_THREAD_PAGE", "SNIPPET_CHARACTERS",
    ),
    "bus": ("InMemoryMailboxEventBus", "create_in_memory_mailbox_event_bus"),
    "bus_postgres": ("PostgresMailboxEventBus", "postgres_mailbox_event_bus"),
    "checks": ("assert_mailbox_scope", "assert_mailbox_tenant_id"),
    "cursors": (
        "MailboxCursor", "canonical_mailbox_filter", "canonical_mailbox_priorities", "decode_mailbox_cursor",
        "decode_thread_cursor", "encode_mailbox_cursor", "encode_thread_cursor",
    ),
    "detail": ("AttachmentContent", "get_mailbox_message", "read_mailbox_attachment"),
    "errors": (
        "InboxError", "MailboxCursorError", "MailboxRangeError", "MailboxScopeError", "MigrationChecksumError",
        "MigrationError", "SchemaCheckError", "SchemaTypeMismatchError",
    ),
    "event_log": (
        "EventPage", "mailbox_event_position", "prune_mailbox_events", "read_events_of_all_mailboxes",
        "read_mailbox_events",
    ),
    "events": ("MailboxEventBus", "is_mailbox_event", "publish_mailbox_event"),
    "frames": ("DecodedFrame", "build_mail_frame", "decode_mail_frame"),
    "handle": ("Handle", "create_mailbox_db"),
    "http.mount": ("mailbox_asgi_app", "mount_mailbox"),
    "keys": ("extract_sender_mailbox_address", "generate_mailbox_message_id", "mailbox_key"),
    "lists": ("count_unread_active_mailbox", "list_user_mailbox", "read_mailbox_message_by_message_id"),
    "migrate": ("check_mailbox_schema", "mailbox_ddl", "mailbox_migrations", "run_mailbox_migrations"),
    "migrations": ("assert_expected_column_types", "run_migrations"),
    "model": (
        "EVERY_MESSAGE", "UNSET", "Attachment", "Direction", "Highlight", "MailboxAction", "MailboxDetail",
        "MailboxEvent", "MailboxEventOp", "MailboxFilter", "MailboxItem", "MailboxPage", "MailboxRef", "MailboxScope",
        "MailboxSort", "MailboxView", "PendingEvent", "SearchHit", "SearchPage", "ThreadItem", "ThreadPage",
    ),
    "mutations": (
        "BulkResult", "apply_mailbox_action_to_filter", "apply_mailbox_bulk_action", "archive_mailbox_message",
        "assign_mailbox_message", "enrich_mailbox_message", "label_mailbox_message", "mark_all_mailbox_read",
        "mark_mailbox_message_read", "mark_mailbox_message_unread", "restore_mailbox_message",
        "snooze_mailbox_message", "trash_mailbox_message",
    ),
    "openapi": ("mailbox_openapi",),
    "persist": (
        "DedupeConflict", "MailboxPersistArgs", "PersistedRow", "RefsRequest", "SenderAuthorization",
        "create_mailbox_persist",
    ),
    "purge": (
        "ExportedMessage", "export_tenant_mailbox", "purge_mailbox_in_batches", "purge_mailbox_older_than",
        "purge_principal_mailbox", "purge_tenant_mailbox",
    ),
    "recipients": ("MailboxRecipient", "RecipientPrefixes", "parse_address_list", "resolve_mailbox_recipients"),
    "schema": ("mailbox", "mailbox_event", "metadata", "principal_mail"),
    "search": ("search_user_mailbox",),
    "sender_displays": ("attach_from_display",),
    "shapes": (
        "is_mailbox_bulk_result", "is_mailbox_detail", "is_mailbox_item", "is_mailbox_page", "is_mailbox_thread_page",
    ),
    "threads": ("read_mailbox_thread",),
    "vocabulary": ("MailboxVocabulary", "assert_mailbox_vocabulary"),
    "write": (
        "DeliveredMessage", "InboxItem", "MessageArgs", "ScopedMessage", "WriteMessageArgs", "WrittenMessage",
        "deliver_inbox_items", "write_mailbox_message", "write_mailbox_messages",
    ),
}  # fmt: skip
_EXPORTS: Final = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> object:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return list(__all__)
