"""Every bound of this library, with its unit (section 14 of the specification)."""

from typing import Final

MAX_FRAME_BYTES: Final = 1_048_576
"""A frame of exactly this size is accepted."""
MAX_RECIPIENTS: Final = 50
MAX_PAGE: Final = 200
DEFAULT_PAGE: Final = 50
MAX_THREAD_PAGE: Final = 200
DEFAULT_THREAD_PAGE: Final = 50
MAX_BULK: Final = 50
MAX_FILTER_ACTION: Final = 10_000
"""Messages that one action over a filter changes; the caller repeats while there are more."""
MAX_SSE_QUEUE: Final = 100
HEARTBEAT_SECONDS: Final = 25.0
MAX_REFS: Final = 20
SNIPPET_CHARACTERS: Final = 160
HEADER_FOLD_COLUMNS: Final = 78
MAX_ANCESTRY_NODES: Final = 2_000
MAX_ANCESTRY_HOP_IDS: Final = 1_000
MAX_ANCESTRY_LOOKUPS: Final = 20_000
"""Msg-ids asked for in one read, present or not."""
LOG_SAMPLE: Final = 5
MAX_CURSOR_CHARACTERS: Final = 8_192
MAX_ID_CHARACTERS: Final = 255
MAX_KEY_BYTES: Final = 1_024
"""`message_key` and `message_id`: a B-tree entry beyond about 2,700 bytes would fail the insert (INBOX-16)."""
MAX_TRIAGE_CHARACTERS: Final = 256
MAX_LABELS: Final = 50
MAX_LIST_ATTACHMENTS: Final = 50
MAX_QUERY_CHARACTERS: Final = 1_000
MAX_QUERY_TERMS: Final = 32
MAX_SEARCH_TEXT_CHARACTERS: Final = 100_000
"""Of one message's extracted text; a tsvector of it stays below PostgreSQL's bound of one megabyte."""
MAX_EVENTS_PER_MAILBOX: Final = 1_000
MIME_DEPTH: Final = 20
