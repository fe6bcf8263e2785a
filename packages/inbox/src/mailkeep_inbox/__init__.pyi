"""The public names for type checkers; `__init__.py` loads them when they are used. A test holds both equal."""

from mailkeep_inbox.bounds import (
    DEFAULT_PAGE as DEFAULT_PAGE,
)
from mailkeep_inbox.bounds import (
    DEFAULT_THREAD_PAGE as DEFAULT_THREAD_PAGE,
)
from mailkeep_inbox.bounds import (
    HEADER_FOLD_COLUMNS as HEADER_FOLD_COLUMNS,
)
from mailkeep_inbox.bounds import (
    HEARTBEAT_SECONDS as HEARTBEAT_SECONDS,
)
from mailkeep_inbox.bounds import (
    LOG_SAMPLE as LOG_SAMPLE,
)
from mailkeep_inbox.bounds import (
    MAX_ANCESTRY_NODES as MAX_ANCESTRY_NODES,
)
from mailkeep_inbox.bounds import (
    MAX_BULK as MAX_BULK,
)
from mailkeep_inbox.bounds import (
    MAX_FILTER_ACTION as MAX_FILTER_ACTION,
)
from mailkeep_inbox.bounds import (
    MAX_FRAME_BYTES as MAX_FRAME_BYTES,
)
from mailkeep_inbox.bounds import (
    MAX_PAGE as MAX_PAGE,
)
from mailkeep_inbox.bounds import (
    MAX_RECIPIENTS as MAX_RECIPIENTS,
)
from mailkeep_inbox.bounds import (
    MAX_REFS as MAX_REFS,
)
from mailkeep_inbox.bounds import (
    MAX_SSE_QUEUE as MAX_SSE_QUEUE,
)
from mailkeep_inbox.bounds import (
    MAX_THREAD_PAGE as MAX_THREAD_PAGE,
)
from mailkeep_inbox.bounds import (
    SNIPPET_CHARACTERS as SNIPPET_CHARACTERS,
)
from mailkeep_inbox.bus import (
    InMemoryMailboxEventBus as InMemoryMailboxEventBus,
)
from mailkeep_inbox.bus import (
    create_in_memory_mailbox_event_bus as create_in_memory_mailbox_event_bus,
)
from mailkeep_inbox.bus_postgres import (
    PostgresMailboxEventBus as PostgresMailboxEventBus,
)
from mailkeep_inbox.bus_postgres import (
    postgres_mailbox_event_bus as postgres_mailbox_event_bus,
)
from mailkeep_inbox.checks import (
    assert_mailbox_scope as assert_mailbox_scope,
)
from mailkeep_inbox.checks import (
    assert_mailbox_tenant_id as assert_mailbox_tenant_id,
)
from mailkeep_inbox.cursors import (
    MailboxCursor as MailboxCursor,
)
from mailkeep_inbox.cursors import (
    canonical_mailbox_filter as canonical_mailbox_filter,
)
from mailkeep_inbox.cursors import (
    canonical_mailbox_priorities as canonical_mailbox_priorities,
)
from mailkeep_inbox.cursors import (
    decode_mailbox_cursor as decode_mailbox_cursor,
)
from mailkeep_inbox.cursors import (
    decode_thread_cursor as decode_thread_cursor,
)
from mailkeep_inbox.cursors import (
    encode_mailbox_cursor as encode_mailbox_cursor,
)
from mailkeep_inbox.cursors import (
    encode_thread_cursor as encode_thread_cursor,
)
from mailkeep_inbox.detail import (
    AttachmentContent as AttachmentContent,
)
from mailkeep_inbox.detail import (
    get_mailbox_message as get_mailbox_message,
)
from mailkeep_inbox.detail import (
    read_mailbox_attachment as read_mailbox_attachment,
)
from mailkeep_inbox.errors import (
    InboxError as InboxError,
)
from mailkeep_inbox.errors import (
    MailboxCursorError as MailboxCursorError,
)
from mailkeep_inbox.errors import (
    MailboxRangeError as MailboxRangeError,
)
from mailkeep_inbox.errors import (
    MailboxScopeError as MailboxScopeError,
)
from mailkeep_inbox.errors import (
    MigrationChecksumError as MigrationChecksumError,
)
from mailkeep_inbox.errors import (
    MigrationError as MigrationError,
)
from mailkeep_inbox.errors import (
    SchemaCheckError as SchemaCheckError,
)
from mailkeep_inbox.errors import (
    SchemaTypeMismatchError as SchemaTypeMismatchError,
)
from mailkeep_inbox.event_log import (
    EventPage as EventPage,
)
from mailkeep_inbox.event_log import (
    mailbox_event_position as mailbox_event_position,
)
from mailkeep_inbox.event_log import (
    prune_mailbox_events as prune_mailbox_events,
)
from mailkeep_inbox.event_log import (
    read_events_of_all_mailboxes as read_events_of_all_mailboxes,
)
from mailkeep_inbox.event_log import (
    read_mailbox_events as read_mailbox_events,
)
from mailkeep_inbox.events import (
    MailboxEventBus as MailboxEventBus,
)
from mailkeep_inbox.events import (
    is_mailbox_event as is_mailbox_event,
)
from mailkeep_inbox.events import (
    publish_mailbox_event as publish_mailbox_event,
)
from mailkeep_inbox.frames import (
    DecodedFrame as DecodedFrame,
)
from mailkeep_inbox.frames import (
    build_mail_frame as build_mail_frame,
)
from mailkeep_inbox.frames import (
    decode_mail_frame as decode_mail_frame,
)
from mailkeep_inbox.handle import (
    Handle as Handle,
)
from mailkeep_inbox.handle import (
    create_mailbox_db as create_mailbox_db,
)
from mailkeep_inbox.http.mount import (
    mailbox_asgi_app as mailbox_asgi_app,
)
from mailkeep_inbox.http.mount import (
    mount_mailbox as mount_mailbox,
)
from mailkeep_inbox.keys import (
    extract_sender_mailbox_address as extract_sender_mailbox_address,
)
from mailkeep_inbox.keys import (
    generate_mailbox_message_id as generate_mailbox_message_id,
)
from mailkeep_inbox.keys import (
    mailbox_key as mailbox_key,
)
from mailkeep_inbox.lists import (
    count_unread_active_mailbox as count_unread_active_mailbox,
)
from mailkeep_inbox.lists import (
    list_user_mailbox as list_user_mailbox,
)
from mailkeep_inbox.lists import (
    read_mailbox_message_by_message_id as read_mailbox_message_by_message_id,
)
from mailkeep_inbox.migrate import (
    check_mailbox_schema as check_mailbox_schema,
)
from mailkeep_inbox.migrate import (
    mailbox_ddl as mailbox_ddl,
)
from mailkeep_inbox.migrate import (
    mailbox_migrations as mailbox_migrations,
)
from mailkeep_inbox.migrate import (
    run_mailbox_migrations as run_mailbox_migrations,
)
from mailkeep_inbox.migrations import (
    assert_expected_column_types as assert_expected_column_types,
)
from mailkeep_inbox.migrations import (
    run_migrations as run_migrations,
)
from mailkeep_inbox.model import (
    EVERY_MESSAGE as EVERY_MESSAGE,
)
from mailkeep_inbox.model import (
    UNSET as UNSET,
)
from mailkeep_inbox.model import (
    Attachment as Attachment,
)
from mailkeep_inbox.model import (
    Direction as Direction,
)
from mailkeep_inbox.model import (
    Highlight as Highlight,
)
from mailkeep_inbox.model import (
    MailboxAction as MailboxAction,
)
from mailkeep_inbox.model import (
    MailboxDetail as MailboxDetail,
)
from mailkeep_inbox.model import (
    MailboxEvent as MailboxEvent,
)
from mailkeep_inbox.model import (
    MailboxEventOp as MailboxEventOp,
)
from mailkeep_inbox.model import (
    MailboxFilter as MailboxFilter,
)
from mailkeep_inbox.model import (
    MailboxItem as MailboxItem,
)
from mailkeep_inbox.model import (
    MailboxPage as MailboxPage,
)
from mailkeep_inbox.model import (
    MailboxRef as MailboxRef,
)
from mailkeep_inbox.model import (
    MailboxScope as MailboxScope,
)
from mailkeep_inbox.model import (
    MailboxSort as MailboxSort,
)
from mailkeep_inbox.model import (
    MailboxView as MailboxView,
)
from mailkeep_inbox.model import (
    PendingEvent as PendingEvent,
)
from mailkeep_inbox.model import (
    SearchHit as SearchHit,
)
from mailkeep_inbox.model import (
    SearchPage as SearchPage,
)
from mailkeep_inbox.model import (
    ThreadItem as ThreadItem,
)
from mailkeep_inbox.model import (
    ThreadPage as ThreadPage,
)
from mailkeep_inbox.mutations import (
    BulkResult as BulkResult,
)
from mailkeep_inbox.mutations import (
    apply_mailbox_action_to_filter as apply_mailbox_action_to_filter,
)
from mailkeep_inbox.mutations import (
    apply_mailbox_bulk_action as apply_mailbox_bulk_action,
)
from mailkeep_inbox.mutations import (
    archive_mailbox_message as archive_mailbox_message,
)
from mailkeep_inbox.mutations import (
    assign_mailbox_message as assign_mailbox_message,
)
from mailkeep_inbox.mutations import (
    enrich_mailbox_message as enrich_mailbox_message,
)
from mailkeep_inbox.mutations import (
    label_mailbox_message as label_mailbox_message,
)
from mailkeep_inbox.mutations import (
    mark_all_mailbox_read as mark_all_mailbox_read,
)
from mailkeep_inbox.mutations import (
    mark_mailbox_message_read as mark_mailbox_message_read,
)
from mailkeep_inbox.mutations import (
    mark_mailbox_message_unread as mark_mailbox_message_unread,
)
from mailkeep_inbox.mutations import (
    restore_mailbox_message as restore_mailbox_message,
)
from mailkeep_inbox.mutations import (
    snooze_mailbox_message as snooze_mailbox_message,
)
from mailkeep_inbox.mutations import (
    trash_mailbox_message as trash_mailbox_message,
)
from mailkeep_inbox.openapi import (
    mailbox_openapi as mailbox_openapi,
)
from mailkeep_inbox.persist import (
    DedupeConflict as DedupeConflict,
)
from mailkeep_inbox.persist import (
    MailboxPersistArgs as MailboxPersistArgs,
)
from mailkeep_inbox.persist import (
    PersistedRow as PersistedRow,
)
from mailkeep_inbox.persist import (
    RefsRequest as RefsRequest,
)
from mailkeep_inbox.persist import (
    SenderAuthorization as SenderAuthorization,
)
from mailkeep_inbox.persist import (
    create_mailbox_persist as create_mailbox_persist,
)
from mailkeep_inbox.purge import (
    ExportedMessage as ExportedMessage,
)
from mailkeep_inbox.purge import (
    export_tenant_mailbox as export_tenant_mailbox,
)
from mailkeep_inbox.purge import (
    purge_mailbox_in_batches as purge_mailbox_in_batches,
)
from mailkeep_inbox.purge import (
    purge_mailbox_older_than as purge_mailbox_older_than,
)
from mailkeep_inbox.purge import (
    purge_principal_mailbox as purge_principal_mailbox,
)
from mailkeep_inbox.purge import (
    purge_tenant_mailbox as purge_tenant_mailbox,
)
from mailkeep_inbox.recipients import (
    MailboxRecipient as MailboxRecipient,
)
from mailkeep_inbox.recipients import (
    RecipientPrefixes as RecipientPrefixes,
)
from mailkeep_inbox.recipients import (
    parse_address_list as parse_address_list,
)
from mailkeep_inbox.recipients import (
    resolve_mailbox_recipients as resolve_mailbox_recipients,
)
from mailkeep_inbox.schema import (
    mailbox as mailbox,
)
from mailkeep_inbox.schema import (
    mailbox_event as mailbox_event,
)
from mailkeep_inbox.schema import (
    metadata as metadata,
)
from mailkeep_inbox.schema import (
    principal_mail as principal_mail,
)
from mailkeep_inbox.search import (
    search_user_mailbox as search_user_mailbox,
)
from mailkeep_inbox.sender_displays import (
    attach_from_display as attach_from_display,
)
from mailkeep_inbox.shapes import (
    is_mailbox_bulk_result as is_mailbox_bulk_result,
)
from mailkeep_inbox.shapes import (
    is_mailbox_detail as is_mailbox_detail,
)
from mailkeep_inbox.shapes import (
    is_mailbox_item as is_mailbox_item,
)
from mailkeep_inbox.shapes import (
    is_mailbox_page as is_mailbox_page,
)
from mailkeep_inbox.shapes import (
    is_mailbox_thread_page as is_mailbox_thread_page,
)
from mailkeep_inbox.threads import (
    read_mailbox_thread as read_mailbox_thread,
)
from mailkeep_inbox.vocabulary import (
    MailboxVocabulary as MailboxVocabulary,
)
from mailkeep_inbox.vocabulary import (
    assert_mailbox_vocabulary as assert_mailbox_vocabulary,
)
from mailkeep_inbox.write import (
    DeliveredMessage as DeliveredMessage,
)
from mailkeep_inbox.write import (
    InboxItem as InboxItem,
)
from mailkeep_inbox.write import (
    MessageArgs as MessageArgs,
)
from mailkeep_inbox.write import (
    ScopedMessage as ScopedMessage,
)
from mailkeep_inbox.write import (
    WriteMessageArgs as WriteMessageArgs,
)
from mailkeep_inbox.write import (
    WrittenMessage as WrittenMessage,
)
from mailkeep_inbox.write import (
    deliver_inbox_items as deliver_inbox_items,
)
from mailkeep_inbox.write import (
    write_mailbox_message as write_mailbox_message,
)
from mailkeep_inbox.write import (
    write_mailbox_messages as write_mailbox_messages,
)
