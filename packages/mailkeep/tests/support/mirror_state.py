"""What the mirror of a server comes to, without anything that tells two equal mirrors apart: ids and moments."""

from __future__ import annotations

from typing import Any

import psycopg

STATE = """
SELECT f.alias, f.resolution_generation, e.uid_validity, e.uid, e.subject, e.is_remotely_seen, e.is_remotely_flagged,
       e.remote_keywords, e.content_availability, encode(c.sha256_hash, 'hex'), c.mime_byte_length = length(c.raw_mime),
       d.subject_text, d.mail_folder_id = e.mail_folder_id, min(e.uid) OVER (PARTITION BY e.email_thread_id),
       e.remote_flags_observed_at IS NULL, e.remote_expunge_observed_at IS NULL
FROM stored_emails e
JOIN mail_folders f ON f.id = e.mail_folder_id
LEFT JOIN email_message_contents c ON c.stored_email_id = e.id
LEFT JOIN email_search_documents d ON d.stored_email_id = e.id
ORDER BY f.alias, f.resolution_generation, e.uid_validity, e.uid
"""
PROGRESS = """
SELECT f.alias, s.uid_validity, s.last_seen_uid, s.reconciled_through_modseq, s.remote_message_count, s.remote_uid_next
FROM synchronization_checkpoints s JOIN mail_folders f ON f.id = s.mail_folder_id ORDER BY 1
"""
EXTRAS = """
SELECT (SELECT count(*) FROM email_threads WHERE merged_into_email_thread_id IS NULL),
       (SELECT count(*) FROM email_search_documents), (SELECT count(*) FROM email_message_contents),
       (SELECT count(*) FROM mail_folders), (SELECT count(*) FROM quarantined_messages)
"""
BEHIND = """
SELECT f.alias, coalesce(s.last_seen_uid, 0),
       (SELECT count(*) FROM stored_emails e
        WHERE e.mail_folder_id = f.id AND e.uid_validity = s.uid_validity AND e.uid <= s.last_seen_uid)
FROM synchronization_checkpoints s JOIN mail_folders f ON f.id = s.mail_folder_id
"""


def state(dsn: str) -> list[list[tuple[Any, ...]]]:
    """Every message, every checkpoint, and how many rows there are of what hangs on them."""
    with psycopg.connect(dsn) as connection:
        return [connection.execute(query).fetchall() for query in (STATE, PROGRESS, EXTRAS)]


def stored_behind_checkpoints(dsn: str) -> dict[str, tuple[int, int]]:
    """By folder: the last UID that its checkpoint passed, and how many messages are stored up to there."""
    with psycopg.connect(dsn) as connection:
        return {alias: (last, held) for alias, last, held in connection.execute(BEHIND).fetchall()}
