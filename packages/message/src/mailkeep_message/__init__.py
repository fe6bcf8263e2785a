"""Octets in, message out: reads mail of any quality and never raises on it. Pure, no I/O.

`read` and `read_headers` give a `Message`, `attachment_payload` a file of it, `sanitize_html` harmless HTML.
"""

from .addresses import comparison_form
from .model import (
    DEFECTS,
    Address,
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
from .reader import attachment_payload, read, read_headers
from .sanitize import sanitize_html

__all__ = [
    "DEFECTS",
    "Address",
    "Attachment",
    "AutomationClaim",
    "Body",
    "HeaderField",
    "Invitation",
    "Limits",
    "Message",
    "PartInfo",
    "TextSource",
    "attachment_payload",
    "comparison_form",
    "preview",
    "read",
    "read_headers",
    "sanitize_html",
]
