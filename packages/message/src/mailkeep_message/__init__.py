"""Octets in, message out: reads mail of any quality and never raises on it. Pure, no I/O.

`read` and `read_headers` give a `Message`, `attachment_payload` a file of it, `attached_files` all of them,
`sanitize_html` harmless HTML. `decode`, `clean_body` and `html_to_text` read files that are texts themselves.
"""

from .addresses import comparison_form
from .charsets import decode
from .html import html_to_text
from .model import (
    DEFECTS,
    Address,
    AttachedFile,
    Attachment,
    AutomationClaim,
    Body,
    HeaderField,
    Invitation,
    Limits,
    Message,
    PartInfo,
    TextSource,
)
from .preview import preview
from .reader import attached_files, attachment_payload, read, read_headers
from .sanitize import sanitize_html
from .text import clean_body

__all__ = [
    "DEFECTS",
    "Address",
    "AttachedFile",
    "Attachment",
    "AutomationClaim",
    "Body",
    "HeaderField",
    "Invitation",
    "Limits",
    "Message",
    "PartInfo",
    "TextSource",
    "attached_files",
    "attachment_payload",
    "clean_body",
    "comparison_form",
    "decode",
    "html_to_text",
    "preview",
    "read",
    "read_headers",
    "sanitize_html",
]
