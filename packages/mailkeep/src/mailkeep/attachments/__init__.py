"""Texts of attachments: read after arrival by a confined worker, kept in pieces, found together with the message.

`AttachmentStage` is the work, `find_hits` says to a search where it found its words, `attachment_readings` and
`attachment_text` show what became of a file. The readers themselves are `mailkeep.extraction`.
"""

from mailkeep.attachments.model import AttachmentReading, AttachmentText, Hit, Language, Spelling, Stemmed
from mailkeep.attachments.queries import attachment_readings, attachment_text, count_outcomes, find_hits
from mailkeep.attachments.stage import AttachmentStage

__all__ = [
    "AttachmentReading",
    "AttachmentStage",
    "AttachmentText",
    "Hit",
    "Language",
    "Spelling",
    "Stemmed",
    "attachment_readings",
    "attachment_text",
    "count_outcomes",
    "find_hits",
]
